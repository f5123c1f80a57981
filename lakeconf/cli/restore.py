"""`lakeconf restore`."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import click

from lakeconf.cli.completion import complete_tables
from lakeconf.cli.confirm import confirm, yes_option
from lakeconf.cli.options import config_option, default_store_option, dry_run_option, format_option
from lakeconf.cli.output import show, show_json, show_table
from lakeconf.config.model import init
from lakeconf.lake.restore import RestoreAction, RestorePlan

_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S"]


@click.command("restore", short_help="Restore a table as it was at an older snapshot.")
@click.argument("table", shell_complete=complete_tables)
@click.option("--version", type=click.IntRange(min=0), help="The snapshot to restore; see `lakeconf snapshots`.")
@click.option(
    "--timestamp", type=click.DateTime(_FORMATS), help="A time instead of a version; UTC unless it has an offset."
)
@default_store_option
@dry_run_option
@yes_option
@format_option
@config_option
def command(
    table: str,
    version: int | None,
    timestamp: datetime | None,
    store: str | None,
    source: str | None,
    format_name: str,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Give TABLE the rows and columns that it had at an older snapshot. A dropped table comes back.

    The command first shows its plan. It writes one new snapshot; the state before stays in the older ones, so a restore
    can be undone by another one.

    \b
        lakeconf restore raw.events --version 12
    """
    if (version is None) == (timestamp is None):
        raise click.UsageError("pass either --version or --timestamp")
    moment = timestamp if timestamp is None or timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    found = init(source).get_store(store)
    # One lake for the plan and the restore: its conflict checks cover the time in between.
    with found.for_reading(read_only=dry_run).open() as lake:
        plan = lake.plan_restore(table, version=version, timestamp=moment)
        if format_name == "text":
            _show(plan)
        made: int | None = None
        try:
            if plan.action is not RestoreAction.NOTHING and not dry_run:
                confirm(f"Restore {plan.table} of {found.name} to version {plan.version}?", yes=yes)
                made = lake.restore(table, version=plan.version)
        finally:
            if format_name == "json":
                show_json(dataclasses.asdict(plan) | {"snapshot_id": made})
    if made is not None and format_name == "text":
        show(f"restored {plan.table} in snapshot {made}")


def _show(plan: RestorePlan) -> None:
    if plan.action is RestoreAction.NOTHING:
        show(f"{plan.table} has not changed since version {plan.version}: nothing to restore")
        return
    now = "no table" if plan.rows_now is None else f"{plan.rows_now:,}"
    show(f"{plan.action}: {plan.table} as of version {plan.version}")
    show_table([("rows now", now), ("rows then", f"{plan.rows_then:,}")])
    for line in (*plan.columns, *(f"note: {note}" for note in plan.notes)):
        show(line)
