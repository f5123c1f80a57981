"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

config_option = click.option(
    "--config",
    "source",
    metavar="PATH",
    help="The configuration, or the folder that holds it, in place of what is found from here upward.",
)
format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For a person, or for a program.",
)

_MOMENT = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])


def models_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what is to be run."""
    for option in (
        config_option,
        format_option,
        click.option("--rebuild", is_flag=True, help="Do everything again, whatever the lake remembers."),
        click.option("--redo-late", is_flag=True, help="Do intervals again whose inputs have changed since."),
        click.option("--to", "until", type=_MOMENT, help="Do intervals until then, in UTC; now unless given."),
        click.option("--from", "since", type=_MOMENT, help="Do the intervals from then on again, done or not."),
        click.option("--store", help="The store that the tables are in; the default one unless given."),
        click.argument("models", nargs=-1, metavar="[MODEL]..."),
    ):
        command = option(command)
    return command
