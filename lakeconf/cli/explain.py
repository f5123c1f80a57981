"""`lakeconf explain`."""

from __future__ import annotations

import click

from lakeconf.cli.output import show
from lakeconf.config.explain import explanation


@click.command("explain", short_help="Say more of a code of `lakeconf validate`.")
@click.argument("code")
def command(code: str) -> None:
    """Say what a CODE such as LC012 means, with an example and its cure."""
    show(explanation(code).rstrip())
