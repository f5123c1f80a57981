"""`lakeconf snapshots`."""

from __future__ import annotations

import dataclasses

import click

from lakeconf.cli.options import config_option, format_option
from lakeconf.cli.output import plain, show_json, show_table
from lakeconf.config.model import init


@click.command("snapshots", short_help="List the snapshots of a lake.")
@click.argument("store", required=False)
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of newest snapshots to list."
)
@format_option
@config_option
def command(store: str | None, limit: int, source: str | None, format_name: str) -> None:
    """List the newest snapshots of the lake of STORE, newest last: time, changes, author and message."""
    with init(source).get_store(store).open(read_only=True) as lake:
        found = lake.snapshots()[-limit:]
    if format_name == "json":
        show_json([plain(dataclasses.asdict(snapshot)) for snapshot in found])
        return
    rows = [
        (str(one.snapshot_id), f"{one.time:%Y-%m-%d %H:%M:%S}", one.changes, one.author or "", one.message or "")
        for one in found
    ]
    show_table([("snapshot", "time (UTC)", "changes", "author", "message"), *rows])
