"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

config_option = click.option(
    "--config",
    "source",
    metavar="PATH",
    help="Configuration file, or its folder; by default lakeconf looks in this folder and its parents.",
)
format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)

_MOMENT = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])


def models_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that select models and intervals."""
    for option in (
        config_option,
        format_option,
        click.option("--rebuild", is_flag=True, help="Recompute everything, including what is up to date."),
        click.option("--redo-late", is_flag=True, help="Recompute intervals whose inputs have changed since they ran."),
        click.option("--to", "until", type=_MOMENT, help="End of the range, in UTC; by default now."),
        click.option(
            "--from",
            "since",
            type=_MOMENT,
            help="Start of the range, in UTC; recomputes intervals that have already run.",
        ),
        click.option("--store", help="Store that contains the tables; by default `default_store`."),
        click.argument("models", nargs=-1, metavar="[MODEL]..."),
    ):
        command = option(command)
    return command
