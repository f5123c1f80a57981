"""Moves a lake with its whole history to another catalog and other storage. The source is never changed."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lakeconf.catalog.admission import canonical, compose_path
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogChangedError, CatalogError, LakeconfError, UnsupportedError, listed
from lakeconf.guard.guard import LakeGuard
from lakeconf.inspection.catalog_files import registered_files
from lakeconf.logs import event_logger
from lakeconf.sql import identifier
from lakeconf.store import Store
from lakeconf.transfer.file_copies import FileCopies, FileCopy, Progress, sizes
from lakeconf.transfer.move_target import MoveTarget
from lakeconf.transfer.opened import METADATA, opened_lake
from lakeconf.transfer.staged_catalog import attached, relocate, stage
from lakeconf.wording import byte_size, counted

_log = event_logger("transfer")
# What a writer changes without a new snapshot: options, and snapshots that expire.
_STATE = """
    SELECT 'snapshots', count(*)::VARCHAR, max(snapshot_id)::VARCHAR, NULL FROM ducklake_snapshot
    UNION ALL SELECT key, value, scope, scope_id::VARCHAR FROM ducklake_metadata ORDER BY ALL
"""
# The SQL in a catalog that DuckLake stores as it is; in views, a word stands for the lake's own name.
_STORED_SQL = """
    SELECT 'macro', m.macro_name, i.sql FROM ducklake_macro AS m JOIN ducklake_macro_impl AS i USING (macro_id)
        WHERE m.end_snapshot IS NULL
    UNION ALL SELECT 'default of', column_name, default_value FROM ducklake_column
        WHERE end_snapshot IS NULL AND default_value_type = 'expression'
    UNION ALL SELECT 'sort order of', t.table_name, e.expression FROM ducklake_sort_expression AS e
        JOIN ducklake_sort_info AS s USING (sort_id) JOIN ducklake_table AS t ON t.table_id = s.table_id
        WHERE s.end_snapshot IS NULL AND t.end_snapshot IS NULL
    ORDER BY ALL
"""


@dataclass(frozen=True)
class MovePlan:
    """What a move copies.

    Attributes:
        source: The store with the lake.
        target: The store that the lake moves to.
        snapshot_id: The newest snapshot.
        snapshots: The number of snapshots.
        files: The number of files that snapshots need, below the data path.
        bytes: Their size.
        copied_bytes: The size of those that an earlier run of the same move has copied.
        outside: Registered files elsewhere, which stay where they are.
        named: What has SQL that names the lake by the alias of the source, which the target lacks.
    """

    source: str
    target: str
    snapshot_id: int
    snapshots: int
    files: int
    bytes: int
    copied_bytes: int = 0
    outside: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    is_done: bool = field(default=False, repr=False)  # True if the target has the catalog already

    def __str__(self) -> str:
        lines = [
            f"snapshots  {self.snapshots:,}, up to {self.snapshot_id}",
            f"files      {self.files:,} ({byte_size(self.bytes)})",
        ]
        if self.copied_bytes:
            lines.append(f"there      {byte_size(self.copied_bytes)}, copied by an earlier run")
        if self.outside:
            lines.append(
                f"elsewhere  {counted(len(self.outside), 'file')}, which stay there: {listed(self.outside, 3)}"
            )
        if self.named:
            lines.append(f"names      {listed(self.named, 3)}: create them again, their SQL names {self.source}")
        return "\n".join(lines)


def plan_move(source: Store, target: Store) -> MovePlan:
    """What `move` would copy; nothing is changed."""
    with _opened(source, target) as move:
        return move.plan()


def move(source: Store, target: Store, progress: Progress | None = None) -> MovePlan:
    """Moves a lake, and returns what was moved; see `Store.move_to`."""
    with _opened(source, target) as moving, moving.guard.removing():
        return moving.carry_out(progress)


@contextlib.contextmanager
def _opened(source: Store, target: Store) -> Iterator[_Move]:
    """Both ends of a move, each with a connection that has its own secrets only."""
    with opened_lake(source) as (reader, guard), MoveTarget.opened(target) as end:
        _check_apart(reader.data_path, end.root)
        yield _Move(source, reader, guard, end)


def _check_apart(source: str, target: str) -> None:
    first, second = canonical(source), canonical(target)
    if first.startswith(second) or second.startswith(first):
        raise LakeconfError(
            f"the data paths {source} and {target} are in each other: nothing was copied",
            hint="give the target a folder or prefix of its own",
        )


@dataclass
class _Move:
    """A move between two opened ends."""

    source: Store
    reader: CatalogReader
    guard: LakeGuard
    target: MoveTarget

    @property
    def connection(self) -> Connection:
        """The connection of the source."""
        return self.reader.connection

    def plan(self) -> MovePlan:
        """The plan; nothing is changed."""
        with self.reader.one_state() as state:
            return self._planned(state)[0]

    def carry_out(self, progress: Progress | None) -> MovePlan:
        """Carries out the move; the caller holds the exclusive lock of the source."""
        with tempfile.TemporaryDirectory(prefix="lakeconf-") as folder:
            staged = Path(folder, "catalog.duckdb")
            with attached(self.connection, staged), self.reader.one_state() as state:
                plan, copies = self._planned(state)
                with state.transaction() as transaction:
                    before = transaction.rows(_STATE)
                    stage(transaction, self.reader.catalog_type, METADATA)
            if not plan.is_done:
                copies.check_source(self.reader.data_path)
                self.target.begin(self.reader.lake_id)
                copies.copy(copies.missing(), progress)
                self._check_unchanged(plan, before)
                relocate(staged, self.reader.data_path, self.target.root)
                self.target.write_catalog(staged, private=self.reader.encrypted)
        self._check_moved(plan, self.target.complete(self.reader.lake_id))
        _log.info("moved %s to %s at snapshot %d", plan.source, plan.target, plan.snapshot_id)
        return plan

    def _planned(self, state: CatalogReader) -> tuple[MovePlan, FileCopies]:
        self.target.check_encryption(encrypted=self.reader.encrypted)
        is_done = self.target.is_moved(self.reader.lake_id)
        with state.transaction() as transaction:
            named = self._named(transaction)
            ((snapshots, newest),) = transaction.rows("SELECT count(*), max(snapshot_id) FROM ducklake_snapshot")
        inside, outside = self._files(state)
        copies = FileCopies(self.connection, self.target.connection, inside, self.target.root)
        size = sum(file.size for file in inside)
        left = sum(file.size for file in copies.missing())
        names = (self.source.name, self.target.store.name)
        plan = MovePlan(*names, newest, snapshots, len(inside), size, size - left, tuple(sorted(outside)), named)
        return replace(plan, is_done=is_done), copies

    def _named(self, transaction: MetadataTransaction) -> tuple[str, ...]:
        """What has SQL that names the lake by another alias than that of the target."""
        alias = self.source.alias
        if alias.casefold() == self.target.store.alias.casefold():
            return ()
        name = re.compile(rf'(?<![\w."]){re.escape(alias)}\s*\.|{re.escape(identifier(alias))}\s*\.', re.IGNORECASE)
        stored = transaction.rows(_STORED_SQL)
        return tuple(dict.fromkeys(f"{kind} {of!r}" for kind, of, sql in stored if name.search(str(sql))))

    def _files(self, state: CatalogReader) -> tuple[list[FileCopy], dict[str, int]]:
        """The files to copy, and the sizes of those that stay where they are."""
        root, needed = self.reader.data_path, registered_files(state)[0]
        inside, outside = [], dict[str, int]()
        for path, size in sorted(needed.items()):
            if path.startswith(root):
                target = compose_path(self.target.root, path[len(root) :], is_relative=True)
                inside.append(FileCopy(path, target, int(size or 0)))
            else:
                outside[path] = int(size or 0)
        self._check_outside(outside)
        return inside, outside

    def _check_outside(self, outside: dict[str, int]) -> None:
        """Rejects files elsewhere that the target could not read, or would lose with the source."""
        below = [path for path in outside if canonical(path).startswith(canonical(self.reader.data_path))]
        if below:
            raise UnsupportedError(
                f"{below[0]} is in the data path {self.reader.data_path}, but the catalog names it in another way: "
                "nothing was copied",
                hint="write the rows of its table to new files with an overwrite, or register it by its path below "
                "the data path",
            )
        try:
            there = sizes(self.target.connection, list(outside))
        except LakeconfError as error:
            raise UnsupportedError(
                f"the target cannot read all {counted(len(outside), 'file')} that the lake has outside its data path, "
                f"such as {min(outside)}: {error.message}. Nothing was copied",
                hint="give the target's credentials the right to read them, or write their rows to new files with an "
                "overwrite",
            ) from error
        if there != outside:
            raise CatalogError(
                f"files outside the data path have another size than in the catalog: {listed(sorted(outside), 3)}",
                hint="restore the files from a backup; `lakeconf doctor` lists them",
            )

    def _check_unchanged(self, plan: MovePlan, before: list[tuple[Any, ...]]) -> None:
        with self.reader.transaction() as transaction:
            newest, after = transaction.newest(), transaction.rows(_STATE)
        if after != before:
            what = (
                "changed options or expired snapshots of"
                if newest == plan.snapshot_id
                else f"wrote snapshot {newest} to"
            )
            raise CatalogChangedError(
                f"another program {what} {self.source.name} during the move: the target has no catalog yet",
                hint="run the command again when all writers have ended",
            )

    def _check_moved(self, plan: MovePlan, newest: int) -> None:
        if newest < plan.snapshot_id:
            raise CatalogChangedError(
                f"{plan.target} has the lake up to snapshot {newest}, but {plan.source} was written again after it was "
                f"moved, up to snapshot {plan.snapshot_id}",
                hint="use only the target from now on; or move the lake again, to another empty store",
            )
