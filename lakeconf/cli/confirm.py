"""Consent to a change that deletes or replaces data: a prompt on a terminal, `--yes` anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO, Any

import click

from lakeconf.cli.output import safe_line, show, show_error
from lakeconf.errors import LakeconfError

yes_option: Callable[..., Any] = click.option("--yes", "-y", is_flag=True, help="Make the change without a prompt.")


class ConsentRequired(click.ClickException):
    """Nobody can be asked: stdin is no terminal, and `--yes` is missing."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's signature
        """Shows the error as every other error of the command line."""
        show_error(LakeconfError(self.message, hint="read the plan above, then pass --yes"))


def confirm(question: str, *, yes: bool) -> None:
    """Asks for consent to a change whose plan has been shown. Returns only if the change may be made.

    Args:
        question: What is about to be done, as a question that yes or no answers.
        yes: True if the caller passed `--yes`.

    Raises:
        ConsentRequired: stdin is no terminal and `yes` is false; the exit code is 2.
        click.exceptions.Exit: The answer is no; the exit code is 1.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConsentRequired("this command changes data and needs --yes when stdin is not a terminal")
    if not click.confirm(safe_line(question), default=False, err=True):
        show("nothing was changed", to_stderr=True)
        raise click.exceptions.Exit(1)
