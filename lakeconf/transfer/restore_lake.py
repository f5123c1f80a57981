"""Puts the catalog of a backup in the place of a lake's catalog, or where there is none. No file is changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lakeconf.arguments import check_flags
from lakeconf.catalog.history import change_summaries
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import Snapshot, latest, snapshots
from lakeconf.ducklake import SUPPORTED_VERSION, version_sentence
from lakeconf.errors import (
    CatalogChangedError,
    CatalogError,
    CatalogLostError,
    CatalogMissingError,
    CatalogMovedError,
    CatalogRestoredError,
    LakeconfError,
    QueryError,
    SchemaError,
    StorageError,
    listed,
)
from lakeconf.guard.backups import Backup, BackupPlace
from lakeconf.guard.guard import marker_of, reader_of
from lakeconf.guard.marker import LakeMarker
from lakeconf.logs import escaped, event_logger
from lakeconf.store import Store, for_reading, open_connection
from lakeconf.transfer.backup import back_up_to, missing_files
from lakeconf.transfer.later_files import LaterFiles, later_files, later_tables, register_later
from lakeconf.transfer.move_target import MoveTarget
from lakeconf.transfer.opened import locked, opened_backup, opened_copy, opened_lake
from lakeconf.transfer.staged_catalog import relocate
from lakeconf.wording import counted

_log = event_logger("transfer")
_SHOWN = 3
_DATA_PATH = "SELECT value FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL"
_ANOTHER = "name another backup; `lakeconf backups` lists them"


@dataclass(frozen=True)
class LostCommit:
    """A commit of the lake that a backup lacks.

    Attributes:
        snapshot_id: Its snapshot.
        time: When it was made, in UTC.
        author: Who made it, if that is known.
        changes: What it changed, in words.
    """

    snapshot_id: int
    time: datetime
    author: str | None
    changes: str


@dataclass(frozen=True)
class LakeRestorePlan:
    """What the restore of a lake does.

    Attributes:
        store: The store of the lake.
        backup: The backup.
        newest: The newest snapshot of the lake now; None if it has no catalog.
        lost: The commits that the backup lacks.
        kept: The backup of the catalog that was replaced; None in a plan, and without such a catalog.
        later: The files of later appends that come back, and those that do not, by table; empty if nobody asked.
    """

    store: str
    backup: Backup
    newest: int | None
    lost: tuple[LostCommit, ...]
    kept: str | None = None
    later: tuple[LaterFiles, ...] = ()
    data_path: str | None = field(default=None, repr=False)  # as the catalog that is replaced has it

    def __str__(self) -> str:
        backup = self.backup
        lines = [f"backup  snapshot {backup.snapshot_id} of {backup.snapshot_time:%Y-%m-%d %H:%M:%S} UTC"]
        if self.newest is None:
            lines.append("lost    all later commits: there is no catalog to list them")
            return "\n".join([*lines, *self._later()])
        lines.append(f"lost    {counted(len(self.lost), 'commit')}{':' if self.lost else ''}")
        lines += [
            escaped(f"        {lost.snapshot_id}  {lost.time:%Y-%m-%d %H:%M:%S}  {lost.author or '-'}  {lost.changes}")
            for lost in self.lost
        ]
        expired = self.newest - backup.snapshot_id - len(self.lost)
        if expired > 0:
            lines.append(f"        and {counted(expired, 'commit')} whose snapshots have expired")
        return "\n".join([*lines, *self._later()])

    def _later(self) -> list[str]:
        return [escaped(f"{'adds  ' if files.problem is None else 'leaves'}  {files}") for files in self.later]

    def data(self) -> dict[str, Any]:
        """Its attributes as values of JSON."""
        lost = [vars(commit) | {"time": commit.time.isoformat()} for commit in self.lost]
        return {
            "store": self.store,
            "backup": self.backup.data(),
            "newest": self.newest,
            "lost": lost,
            "kept": self.kept,
            "later": [files.data() for files in self.later],
        }


def plan_restore_lake(store: Store, backup: str, *, adopt_later: bool = False) -> LakeRestorePlan:
    """What `restore_lake` would do; nothing is changed."""
    with _opened(store, backup, adopt_later=adopt_later) as restoring:
        return restoring.plan()


def restore_lake(
    store: Store, backup: str, shown: LakeRestorePlan | None = None, *, adopt_later: bool = False
) -> LakeRestorePlan:
    """Restores a lake, and returns what was done; see `Store.restore_lake`."""
    with _opened(store, backup, adopt_later=adopt_later) as restoring:
        return restoring.carry_out(shown)


@contextlib.contextmanager
def _opened(store: Store, path: str, *, adopt_later: bool) -> Iterator[LakeRestore]:
    check_flags(adopt_later=adopt_later)
    if store.read_only:
        raise LakeconfError(f"the store {store.name!r} is read-only", hint="remove read_only from attach_options")
    with opened_backup(store, path) as (place, backup), place.catalog(backup) as catalog:
        if backup.ducklake != SUPPORTED_VERSION:
            raise CatalogError(version_sentence(backup.ducklake, SUPPORTED_VERSION, "lakeconf"))
        with MoveTarget.opened(store) as target:
            target.check_not_moving()
            target.check_encryption(encrypted=backup.encrypted)
            yield LakeRestore(store, place, backup, catalog, target, adopt_later)


@dataclass
class LakeRestore:
    """A backup and the store that gets it."""

    store: Store
    place: BackupPlace
    backup: Backup
    catalog: Path  # a private copy of its catalog
    target: MoveTarget
    adopt_later: bool  # True to bring back the files of later appends

    def plan(self) -> LakeRestorePlan:
        """The plan; nothing is changed."""
        plan = LakeRestorePlan(self.store.name, self.backup, None, ())
        with opened_copy(self.store, self.catalog) as copy:
            self._check(copy)
            known = None
            if self.target.has_catalog():
                commits = frozenset((snapshot.snapshot_id, snapshot.time) for snapshot in snapshots(copy))
                with self._lake() as reader:
                    plan = self._over(plan, reader, commits)
                    known = later_tables(reader) if self.adopt_later else None
            self._check_files(copy)
            if self.adopt_later:
                plan = replace(plan, later=later_files(copy, self.backup.snapshot_time, known))
        return plan

    def carry_out(self, shown: LakeRestorePlan | None) -> LakeRestorePlan:
        """Carries out the restore, if it would do what a plan has shown."""
        is_there = self.target.has_catalog()
        with locked(self.store) if is_there else contextlib.nullcontext():
            plan = self.plan()
            if (shown is not None and shown != plan) or is_there != (plan.newest is not None):
                raise CatalogChangedError(
                    f"the lake of {self.store.name} has changed since the plan was made: nothing was changed",
                    hint="run the command again, and read the new plan",
                )
            kept = None if plan.newest is None else self._keep()
            self._relocate(plan)
            appended = [files for files in plan.later if files.problem is None]
            if appended:
                register_later(self.store, self.catalog, appended)
            if plan.newest is None:
                self.target.write_catalog(self.catalog, private=self.backup.encrypted)
            else:
                self.target.replace_catalog(self.catalog, plan.newest)
        self.confirm()
        _log.info("restored %s to snapshot %d of %s", self.store.name, self.backup.snapshot_id, self.backup.path)
        return replace(plan, kept=kept)

    def _keep(self) -> str:
        """Backs up the catalog that is replaced, and returns the path of this backup."""
        with self._lake() as reader:
            try:
                kept = back_up_to(self.place, self.store, reader)
            except CatalogChangedError:
                raise
            except CatalogError as error:
                raise self._no_catalog(error) from error
            # Until the restore is confirmed, maintenance takes the catalog for an older one.
            with contextlib.suppress(CatalogRestoredError):
                marker_of(reader, self.store.metadata_backend).record()
        return kept.path

    def _check(self, copy: CatalogReader) -> None:
        backup, newest = self.backup, latest(copy)
        is_same = (newest.snapshot_id, newest.time) == (backup.snapshot_id, backup.snapshot_time)
        if copy.lake_id != backup.lake or not is_same or copy.encrypted != backup.encrypted:
            raise CatalogError(f"the manifest of the backup {backup.path} does not describe its catalog", hint=_ANOTHER)
        LakeMarker(copy).check_free()

    def _check_files(self, copy: CatalogReader) -> None:
        missing = missing_files(copy)
        if missing:
            raise StorageError(
                f"{counted(len(missing), 'file')} that the backup {self.backup.path} needs are missing, or have "
                f"another size ({listed(missing, _SHOWN)}): nothing was changed",
                hint="restore the files, or choose another backup; `lakeconf backups` says which are whole",
            )

    @contextlib.contextmanager
    def _lake(self) -> Iterator[CatalogReader]:
        """The lake that is replaced."""
        try:
            with opened_lake(self.store) as (reader, _):
                if reader.lake_id != self.backup.lake:
                    raise CatalogError(
                        f"the backup {self.backup.path} is one of another lake than that of {self.store.name}: nothing "
                        "was changed",
                        hint="name the store of the backup's lake, or a store without a lake",
                    )
                yield reader
        except (CatalogError, QueryError, SchemaError) as error:
            is_lost = isinstance(error, CatalogMissingError | CatalogLostError | QueryError | SchemaError)
            if not is_lost and not isinstance(error.__cause__, QueryError):  # the lake cannot be loaded
                raise
            raise self._no_catalog(error) from error

    def _no_catalog(self, error: LakeconfError) -> CatalogError:
        """The error for a damaged catalog, of which no backup can be made: only a lost one can be restored."""
        backend = self.store.metadata_backend
        moved = (
            "move its tables to another schema"
            if backend.file() is None
            else "rename it and all files beside it that begin with its name"
        )
        return CatalogError(
            f"the catalog {backend.description()} is there, but is no whole catalog: nothing was changed. "
            f"{error.message}",
            hint=f"{moved}, and run the command again",
        )

    def _over(
        self, plan: LakeRestorePlan, reader: CatalogReader, known: frozenset[tuple[int, datetime]]
    ) -> LakeRestorePlan:
        with reader.one_state() as state:
            lost = [each for each in snapshots(state) if (each.snapshot_id, each.time) not in known]
            words, newest = change_summaries(state, lost), latest(state).snapshot_id
            with state.transaction() as transaction:
                rows = transaction.rows(_DATA_PATH)
        commits = tuple(_lost(snapshot, words) for snapshot in lost)
        return replace(plan, newest=newest, lost=commits, data_path=str(rows[0][0]) if rows else None)

    def _relocate(self, plan: LakeRestorePlan) -> None:
        """Corrects the copy of the catalog if the store has the files elsewhere than when the backup was made."""
        with opened_copy(self.store, self.catalog) as copy, copy.transaction() as transaction:
            ((own,),) = transaction.rows(_DATA_PATH)
        if own not in (self.target.root, plan.data_path):
            relocate(self.catalog, str(own), self.target.root)

    def confirm(self) -> None:
        """Records in the marker that this is the right catalog, if it is in the place of the former one."""
        store = for_reading(self.store, read_only=False)
        with open_connection(store) as connection:
            reader = reader_of(store.metadata_backend, store.names, connection)
            marker = marker_of(reader, store.metadata_backend)
            try:
                marker.repair()
            except CatalogMovedError:
                return  # the catalog elsewhere may still be in use: cleanup stops until `doctor --repair` is told
            except CatalogRestoredError:
                marker.confirm_move()


def _lost(snapshot: Snapshot, words: dict[int, str]) -> LostCommit:
    return LostCommit(snapshot.snapshot_id, snapshot.time, snapshot.author, words.get(snapshot.snapshot_id, ""))
