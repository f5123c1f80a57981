"""The options that several commands share."""

from __future__ import annotations

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
