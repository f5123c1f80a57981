"""Commands on whole lakes: move, branch, backup, backups, restore-lake."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from lakeconf.cli.options import ChangeOptions, change_options, output_options, store_option
from lakeconf.cli.output import show, show_json, show_lines, show_table
from lakeconf.config.config import init
from lakeconf.errors import BranchError
from lakeconf.wording import byte_size, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf.store import Store
    from lakeconf.transfer.backup import BackupState
    from lakeconf.transfer.move import MovePlan

# Of all bytes, between two lines about the progress.
_STEP = 0.1


@click.command("move", short_help="Move a lake with its history to another store.")
@click.argument("source_store", metavar="SOURCE")
@click.argument("target_store", metavar="TARGET")
@change_options
def move_command(source_store: str, target_store: str, source: str | None, change: ChangeOptions) -> None:
    """Move the lake of the store SOURCE, with its whole history, to the empty store TARGET: another catalog, other
    storage, or both.

    The command first shows its plan. It copies the files and then the catalog, and changes nothing in SOURCE. Writers
    of lakeconf wait meanwhile. If it is killed, run it again: it continues.
    """  # noqa: D205 - click shows the first paragraph
    config = init(source)
    origin, target = config.get_store(source_store), config.get_store(target_store)
    plan = origin.plan_move(target)
    if change.is_text:
        show_lines(str(plan))
    moved = change.carry_out(
        f"Move {source_store} to {target_store}?",
        lambda: origin.move_to(target, progress=shown_progress()),
        lambda moved: _data(moved or plan, done=moved is not None),
        needed=True,
    )
    if moved is not None and change.is_text:
        show(f"moved {source_store} to {target_store}: use only {target_store} from now on")


def shown_progress() -> Callable[[int, int], None]:
    """A function that shows some of the progress of a copy on stderr."""
    shown = 0.0

    def show_progress(done: int, total: int) -> None:
        nonlocal shown
        if done - shown >= total * _STEP or done == total:
            shown = done
            show(f"copied {byte_size(done)} of {byte_size(total)}", to_stderr=True)

    return show_progress


def _data(plan: MovePlan, *, done: bool) -> dict[str, object]:
    data = dataclasses.asdict(plan)
    data.pop("is_done")
    return data | {"done": done}


@click.command("branch", short_help="Make, list or drop branches of a lake.")
@click.argument("parent", required=False, metavar="[STORE]")
@click.argument("branch", required=False, metavar="[BRANCH]")
@click.option("--at", type=click.IntRange(min=0), metavar="VERSION", help="Snapshot; by default the newest.")
@click.option("--drop", metavar="BRANCH", help="Drop a branch, with its files and its pin.")
@change_options
def branch_command(
    parent: str | None, branch: str | None, at: int | None, drop: str | None, source: str | None, change: ChangeOptions
) -> None:
    """Make the store BRANCH a branch of the store STORE, without copying data; without BRANCH, list the branches.

    The store BRANCH needs a catalog and a folder of its own, and `branch_of = "STORE"`. Its tables are those of STORE
    at one snapshot, which `lakeconf maintain` of STORE keeps, until it writes them. For a branch that exists, the
    command only makes sure that the snapshot is kept.
    """
    config = init(source)
    if drop is not None:
        if parent is not None or at is not None:
            raise click.UsageError("--drop takes the name of the branch, and nothing else")
        _drop(config.get_store(drop), change)
    elif parent is None:
        raise click.UsageError("name a store, or a branch with --drop")
    elif branch is None:
        if at is not None:
            raise click.UsageError("--at needs the name of a branch")
        _list_branches(config.get_store(parent), change)
    else:
        _make_branch(config.get_store(branch), config.known(parent), at, change)


def _drop(store: Store, change: ChangeOptions) -> None:
    def drop() -> bool:
        store.drop_branch()
        return True

    done = change.carry_out(
        f"Drop the branch {store.name}, with all its tables?",
        drop,
        lambda done: {"branch": store.name, "done": bool(done)},
        needed=True,
    )
    if done and change.is_text:
        show(f"dropped {store.name}: its catalog and folder are an empty lake now")


def _list_branches(store: Store, change: ChangeOptions) -> None:
    pins = store.branches()
    if not change.is_text:
        show_json([pin.data() for pin in pins])
    elif pins:
        rows = [(pin.store, str(pin.snapshot_id), pin.snapshot_time, pin.path) for pin in pins]
        show_table([("branch", "snapshot", "time (UTC)", "pin"), *rows])
    else:
        show(f"{store.name} has no branches")


def _make_branch(store: Store, parent: str, at: int | None, change: ChangeOptions) -> None:
    if store.branch_of is None or store.branch_of.name != parent:
        raise BranchError(
            f"the store {store.name!r} is not declared as a branch of {parent}",
            hint=f'write branch_of = "{parent}" below [stores.{store.name}]',
        )
    made = change.carry_out(
        f"Make {store.name} a branch of {parent}?",
        lambda: store.create_branch(at=at),
        lambda made: (
            {"branch": store.name, "parent": parent, "snapshot_id": at}
            if made is None
            else {
                "branch": made.store,
                "parent": made.parent,
                "snapshot_id": made.snapshot_id,
                "left_out": made.left_out,
            }
        ),
        needed=True,
    )
    if made is not None and change.is_text:
        show(f"{made.store} is a branch of {made.parent} at snapshot {made.snapshot_id}")
        for reason in made.left_out:
            show(f"left out: {reason}")


@click.command("backup", short_help="Back up the catalog of a lake.")
@store_option
@click.option(
    "--to", "place", required=True, metavar="PLACE", help="Folder of the backups, or a URI of the store's service."
)
@output_options("text", "json")
def backup_command(store: str | None, place: str, source: str | None, format_name: str) -> None:
    """Back up the catalog of the lake at its newest snapshot, while writers go on.

    The data files stay where they are: `lakeconf backups` says whether a backup still has all of them.
    """
    backup = init(source).get_store(store).back_up(place)
    if format_name == "json":
        show_json(backup.data())
        return
    show(f"backed up snapshot {backup.snapshot_id} of {backup.store} to {backup.path}")
    show(f"it needs {counted(backup.files, 'file')} ({byte_size(backup.file_bytes)})")


@click.command("backups", short_help="List backups, and whether their files exist.")
@store_option
@click.option("--in", "place", required=True, metavar="PLACE", help="Folder or URI of the backups.")
@output_options("text", "json")
def backups_command(store: str | None, place: str, source: str | None, format_name: str) -> None:
    """List the backups in PLACE, newest first, and say whether the files that they need are still there.

    The exit code is 1 if a backup is damaged or lacks files.
    """
    states = init(source).get_store(store).backups(place)
    if format_name == "json":
        show_json([state.data() for state in states])
    elif states:
        show_table([("time (UTC)", "snapshot", "files", "state", "path"), *map(_row, states)])
    else:
        show(f"there is no backup in {place}")
    if any(state.problem for state in states):
        raise click.exceptions.Exit(1)


def _row(state: BackupState) -> tuple[str, ...]:
    backup = state.backup
    of_backup = (
        ("", "", "")
        if backup is None
        else (f"{backup.time:%Y-%m-%d %H:%M:%S}", str(backup.snapshot_id), f"{backup.files:,}")
    )
    return (*of_backup, state.problem or "whole", state.path)


@click.command("restore-lake", short_help="Restore the catalog of a lake from a backup.")
@click.argument("backup")
@store_option
@click.option(
    "--adopt-later", is_flag=True, help="Bring back the rows of later appends, in tables that were only appended to."
)
@change_options
def restore_lake_command(
    backup: str, store: str | None, source: str | None, change: ChangeOptions, *, adopt_later: bool
) -> None:
    """Put the catalog of BACKUP, a folder or URI that `lakeconf backups` lists, in the place of the store's catalog, or
    where there is none.

    The command first shows its plan: the commits that BACKUP lacks, and that would be lost. It backs up an existing
    catalog beside BACKUP, and replaces it in one transaction. Writers of lakeconf wait meanwhile.
    """  # noqa: D205 - click shows the first paragraph
    chosen_store = init(source).get_store(store)
    plan = chosen_store.plan_restore_lake(backup, adopt_later=adopt_later)
    if change.is_text:
        show_lines(str(plan))
    done = change.carry_out(
        f"Restore {chosen_store.name} to snapshot {plan.backup.snapshot_id}?",
        lambda: chosen_store.restore_lake(backup, plan=plan, adopt_later=adopt_later),
        lambda done: (done or plan).data() | {"done": done is not None},
        needed=True,
    )
    if done is not None and change.is_text:
        show(f"restored {chosen_store.name}: open lakes must be opened again")
        if done.kept is not None:
            show(f"the catalog before is the backup {done.kept}")
