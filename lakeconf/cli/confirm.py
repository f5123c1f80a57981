"""Asks for consent to changes that delete or replace data: a prompt on a terminal, `--yes` elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO, Any

import click

from lakeconf.cli.output import safe_line, show, show_error
from lakeconf.errors import LakeconfError

yes_option: Callable[..., Any] = click.option("--yes", "-y", is_flag=True, help="Make the change without a prompt.")


class ConsentRequired(click.ClickException):
    """A prompt is impossible because stdin is not a terminal, and `--yes` is missing."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's signature
        """Prints the error like other errors of the command line."""
        show_error(LakeconfError(self.message, hint="read the plan above, then pass --yes"))


def confirm(question: str, *, yes: bool) -> None:
    """Asks for consent to a change after its plan was shown. Returns only with consent.

    Args:
        question: A yes-or-no question about the change.
        yes: True if the user passed `--yes`.

    Raises:
        ConsentRequired: stdin is not a terminal and `yes` is false; the exit code is 2.
        click.exceptions.Exit: The answer is no; the exit code is 1.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConsentRequired("this command changes data and needs --yes when stdin is not a terminal")
    if not click.confirm(safe_line(question), default=False, err=True):
        show("nothing was changed", to_stderr=True)
        raise click.exceptions.Exit(1)
