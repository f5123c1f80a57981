"""Commands that change a lake: maintain, restore, undo, copy."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lakeconf.backends.store_options import MaintenanceLimits
from lakeconf.catalog.history import COMPACTIONS
from lakeconf.cli.options import ChangeOptions, Days, Duration, change_options, stopping, store_option
from lakeconf.cli.output import show, show_error, show_lines, show_table
from lakeconf.config.config import init
from lakeconf.errors import LakeconfError
from lakeconf.lake.maintenance_plan import maintain
from lakeconf.store import Store, for_reading

if TYPE_CHECKING:
    from lakeconf.inspection.table_copy import CopyStep
    from lakeconf.lake.lake import Lake
    from lakeconf.lake.restore import RestorePlan

_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S"]


@click.command("maintain", short_help="Compact a lake, expire old snapshots, remove unneeded files.")
@store_option
@click.option("--expire-days", type=Days(), help="Expire older snapshots; default 30, or the store's keep_snapshots.")
@click.option(
    "--cleanup-days",
    type=Days(),
    help="Remove unused files older than this, longer than the longest job; default 2, or the store's keep_files.",
)
@click.option(
    "--keep", type=click.IntRange(min=1), default=1, show_default=True, help="Number of newest snapshots to keep."
)
@click.option("--force", is_flag=True, help="Allow ages below one day; use only if no other process uses the lake.")
@click.option("--watch", type=Duration(), help="Repeat after this time, such as 15m, until SIGTERM; needs --yes.")
@change_options
def maintain_command(
    store: str | None,
    expire_days: float | None,
    cleanup_days: float | None,
    keep: int,
    source: str | None,
    change: ChangeOptions,
    watch: timedelta | None,
    *,
    force: bool,
) -> None:
    """Maintain the lake: compact small files, expire old snapshots and remove unused files.

    The command first shows its plan: tables to compact, snapshots to expire and files to remove. It uses DuckLake's own
    functions. Rows, row ids and the remaining history do not change.
    """
    if watch is not None and (change.dry_run or not change.yes):
        raise click.UsageError("--watch makes changes without a prompt: pass --yes, and omit --dry-run")
    chosen_store = for_reading(init(source).get_store(store), read_only=False)
    limits = MaintenanceLimits.of(chosen_store.maintenance)
    expire = limits.keep_snapshots if expire_days is None else timedelta(days=expire_days)
    clean = limits.keep_files if cleanup_days is None else timedelta(days=cleanup_days)
    options = {"expire_older_than": expire, "cleanup_older_than": clean, "keep": keep, "force": force}
    if watch is None:
        _maintain(chosen_store, change, options)
        return
    stopped = threading.Event()
    with stopping(stopped.set):
        while not stopped.is_set():
            try:
                _maintain(chosen_store, change, options)
            except LakeconfError as error:  # the next run may succeed
                show_error(error)
            stopped.wait(watch.total_seconds())


def _maintain(store: Store, change: ChangeOptions, options: Mapping[str, Any]) -> None:
    with store.open() as lake:
        do = partial(maintain, lake, **options)
        plan = do(dry_run=True)
        if change.is_text:
            show_lines(str(plan))
        question = f"Carry this out on {store.name}?"
        done = change.carry_out(question, do, lambda done: dataclasses.asdict(done or plan), needed=plan.changes)
    if done is not None and change.is_text:
        show_lines(f"done:\n{done}")


@click.command("restore", short_help="Restore a table as it was at an older snapshot.")
@click.argument("table")
@click.option("--version", type=click.IntRange(min=0), help="The snapshot to restore; see `lakeconf snapshots`.")
@click.option(
    "--timestamp",
    type=click.DateTime(_FORMATS),
    metavar="TIME",
    help="A time instead of a version, such as 2026-01-31T12:00:00; UTC unless it has an offset.",
)
@store_option
@change_options
def restore_command(
    table: str,
    version: int | None,
    timestamp: datetime | None,
    store: str | None,
    source: str | None,
    change: ChangeOptions,
) -> None:
    """Give TABLE the rows and columns that it had at an older snapshot. A dropped table comes back.

    The command first shows its plan. It writes one new snapshot and keeps the older ones, so another restore can undo
    it.

    \b
        lakeconf restore raw.events --version 12
    """
    if (version is None) == (timestamp is None):
        raise click.UsageError("pass either --version or --timestamp")
    moment = timestamp if timestamp is None or timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    chosen_store = init(source).get_store(store)
    # One lake for the plan and the restore: its conflict checks cover the time in between.
    with for_reading(chosen_store, read_only=change.dry_run).open() as lake:
        _restore(lake, lake.plan_restore(table, version=version, timestamp=moment), chosen_store.name, change)


@click.command("undo", short_help="Undo the last change of a table.")
@click.argument("table")
@store_option
@change_options
def undo_command(table: str, store: str | None, source: str | None, change: ChangeOptions) -> None:
    """Give TABLE the rows and columns that it had before its last change, as `lakeconf history` lists it.

    This is `lakeconf restore` with the version before that change. To undo an undo, run it again.
    """
    chosen_store = init(source).get_store(store)
    with for_reading(chosen_store, read_only=change.dry_run).open() as lake:
        changes = [entry for entry in lake.table(table).history() if not COMPACTIONS.issuperset(entry.changes)]
        last = changes[-1]
        if change.is_text:
            show(f"undo snapshot {last.snapshot_id} of {last.time:%Y-%m-%d %H:%M:%S} UTC: {', '.join(last.changes)}")
        if "created_table" in last.changes:
            raise click.ClickException(f"snapshot {last.snapshot_id} created the table, so there is no earlier state")
        _restore(lake, lake.plan_restore(table, version=last.snapshot_id - 1), chosen_store.name, change)


def _restore(lake: Lake, plan: RestorePlan, store: str, change: ChangeOptions) -> None:
    if change.is_text:
        _show(plan)
    snapshot_id = change.carry_out(
        f"Restore {plan.table} of {store} to version {plan.version}?",
        lambda: lake.restore(plan.table, version=plan.version),
        lambda snapshot_id: dataclasses.asdict(plan) | {"snapshot_id": snapshot_id},
        needed=plan.is_needed,
    )
    if snapshot_id is not None and change.is_text:
        show(f"restored {plan.table} in snapshot {snapshot_id}")


def _show(plan: RestorePlan) -> None:
    if not plan.is_needed:
        show(f"{plan.table} has not changed since version {plan.version}: nothing to restore")
        return
    now = "no table" if plan.rows_now is None else f"{plan.rows_now:,}"
    show(f"{plan.action}: {plan.table} as of version {plan.version}")
    show_table([("rows now", now), ("rows then", f"{plan.rows_then:,}")])
    for line in (*plan.columns, *(f"note: {note}" for note in plan.notes)):
        show(line)


@click.command("copy", short_help="Copy tables from one store to another.")
@click.argument("source_store", metavar="SOURCE")
@click.argument("target_store", metavar="TARGET")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@change_options
def copy_command(
    source_store: str, target_store: str, tables: tuple[str, ...], source: str | None, change: ChangeOptions
) -> None:
    """Copy each TABLE, by default all, from the store SOURCE to the store TARGET, with columns, partition keys, sort
    order and comments.

    The command first shows its plan: the rows that each table of TARGET gains and loses. It skips equal tables and
    copies the others in one snapshot.
    """  # noqa: D205 - click shows the first paragraph
    from lakeconf.inspection.table_copy import TableCopies, opened_target  # slow to import

    config = init(source)
    origin, destination = config.get_store(source_store), config.get_store(target_store)
    target = destination.replace(hidden=(*destination.hidden, *origin.secrets))
    with contextlib.ExitStack() as stack:
        # One lake for the plan and the copy: its conflict checks cover the time in between.
        lake, is_new = opened_target(stack, target)
        copies = TableCopies(lake, origin)
        steps = copies.plan(tables)
        if change.is_text:
            show_table([(step.action, step.table, step.reason) for step in steps])
        changed = [step for step in steps if step.action != "skip"]

        def copy() -> int:
            if not is_new:
                return copies.copy(steps)
            return copies.copy_to(stack.enter_context(target.open()), origin, steps)

        snapshot_id = change.carry_out(
            f"Write {', '.join(step.table for step in changed)} to {target_store}?",
            copy,
            lambda snapshot_id: {"tables": [_copy_data(step) for step in steps], "snapshot_id": snapshot_id},
            needed=bool(changed),
        )
    if change.is_text and not changed:
        show("nothing to copy")
    if change.is_text and snapshot_id is not None:
        show(f"copied in snapshot {snapshot_id} of {target_store}")


def _copy_data(step: CopyStep) -> dict[str, object]:
    names = ("table", "action", "added", "removed", "changes")
    return {name: getattr(step, name) for name in names}
