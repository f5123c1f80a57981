"""`lakeconf maintain`."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import click

from lakeconf.cli.options import config_option, format_option
from lakeconf.cli.output import show_json, show_lines
from lakeconf.config.model import init
from lakeconf.maintain import maintain


@click.command("maintain", short_help="Compact a lake, and forget old snapshots.")
@click.argument("store", required=False)
@click.option(
    "--expire-days", type=click.FloatRange(min=0), default=30, show_default=True, help="Forget older snapshots."
)
@click.option(
    "--cleanup-days",
    type=click.FloatRange(min=0),
    default=2,
    show_default=True,
    help="Remove files that were given up so long ago: longer than the longest job.",
)
@click.option("--keep", type=click.IntRange(min=1), default=1, show_default=True, help="Newest snapshots that stay.")
@click.option("--force", is_flag=True, help="Accept ages of less than a day: nobody else uses the lake.")
@click.option("--dry-run", is_flag=True, help="Change nothing, and say what would be done.")
@format_option
@config_option
def command(
    store: str | None,
    expire_days: float,
    cleanup_days: float,
    keep: int,
    force: bool,  # noqa: FBT001 - click's flag
    dry_run: bool,  # noqa: FBT001 - click's flag
    source: str | None,
    format_name: str,
) -> None:
    """Keep the lake of STORE in order: merge small files, forget old snapshots, remove the files nobody needs.

    DuckDB does it with DuckLake's own functions; rows, row ids and the history that stays are as they were.
    """
    with init(source).get_store(store).open() as lake:
        done = maintain(
            lake,
            expire_older_than=timedelta(days=expire_days),
            cleanup_older_than=timedelta(days=cleanup_days),
            keep=keep,
            dry_run=dry_run,
            force=force,
        )
    if format_name == "json":
        show_json(dataclasses.asdict(done))
    else:
        show_lines(str(done))
