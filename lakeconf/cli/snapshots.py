"""`lakeconf snapshots`."""

from __future__ import annotations

import dataclasses

import click

from lakeconf.catalog.change_summary import change_summaries
from lakeconf.cli.options import config_option, format_option, store_option
from lakeconf.cli.output import plain, show_json, show_table
from lakeconf.config.model import init


@click.command("snapshots", short_help="List the snapshots of a lake.")
@store_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of newest snapshots to list."
)
@format_option
@config_option
def command(store: str | None, limit: int, source: str | None, format_name: str) -> None:
    """List the newest snapshots of the lake of STORE, newest last: time, changes, author and message."""
    with init(source).get_store(store).open(read_only=True) as lake:
        found = lake.snapshots()[-limit:]
        summaries = change_summaries(lake._session.reader, found)  # noqa: SLF001 - the lake has no method for words
    if format_name == "json":
        show_json([plain(dataclasses.asdict(one)) | {"summary": summaries[one.snapshot_id]} for one in found])
        return
    rows = [
        (
            str(one.snapshot_id),
            f"{one.time:%Y-%m-%d %H:%M:%S}",
            summaries[one.snapshot_id],
            one.author or "",
            one.message or "",
        )
        for one in found
    ]
    show_table([("snapshot", "time (UTC)", "changes", "author", "message"), *rows], numbers=[0])
