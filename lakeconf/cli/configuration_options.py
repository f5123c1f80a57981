"""The options that name the configuration and a file of variables, before and after the name of a command."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from lakeconf.config.env_file import env_variables

_CONFIG = "Configuration file, or its folder; by default lakeconf looks in this folder and its parents."
_ENV = "Set the variables of a .env file, unless they are set."
_SOURCE = "lakeconf.source"


def _configuration(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Remembers `--config` before the name of the command for the command."""
    if value is not None:
        context.meta[_SOURCE] = value
    given: str | None = context.meta.get(_SOURCE)
    return given


def _variables(context: click.Context, _: click.Parameter, value: str | None) -> None:
    """Sets the variables of a `.env` file until the command line ends; those of the process take precedence."""
    if value is not None:
        added = {name: text for name, text in env_variables(value).items() if name not in os.environ}
        os.environ.update(added)
        context.find_root().call_on_close(lambda: [os.environ.pop(name, None) for name in added])


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--config`, which the command receives as `source`, and `--env-file`."""
    for option in (
        click.option("--env-file", metavar="PATH", expose_value=False, callback=_variables, is_eager=True, help=_ENV),
        click.option("--config", "source", metavar="PATH", callback=_configuration, help=_CONFIG),
    ):
        command = option(command)
    return command


def shared_options() -> list[click.Parameter]:
    """The options `--config` and `--env-file` before the name of a command."""
    return [
        click.Option(["--config"], metavar="PATH", expose_value=False, callback=_configuration, help=_CONFIG),
        click.Option(["--env-file"], metavar="PATH", expose_value=False, callback=_variables, is_eager=True, help=_ENV),
    ]
