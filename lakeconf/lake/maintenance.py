"""Maintenance of a lake by DuckLake's own functions, which do not change row ids or the history of changes.

Source: https://ducklake.select/docs/stable/duckdb/maintenance/recommended_maintenance
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from lakeconf.arguments import LONGEST_DAYS, check_flags, whole_number
from lakeconf.catalog.queries.stored_queries import StoredQueries
from lakeconf.catalog.snapshot import latest, snapshots
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.commit.session import Session
from lakeconf.errors import LakeconfError
from lakeconf.guard.pins import Pins
from lakeconf.lake.cleanup import Cleanup, Removal
from lakeconf.lake.compaction import TableCompaction, all_tables, plan_compaction
from lakeconf.lake.compaction_step import CatalogStatement
from lakeconf.lake.failed_tables import FailedTables
from lakeconf.lake.limits import TimeLimit, limited_memory
from lakeconf.lake.rewriting import flush_lake, merge_files, rewrite_files
from lakeconf.lake.staged_rewriting import StagedRewriting
from lakeconf.logs import event_logger

if TYPE_CHECKING:
    from lakeconf.commit.scope import Scope

SHORTEST_AGE = timedelta(days=1)
LONGEST_AGE = timedelta(days=LONGEST_DAYS)
_log = event_logger("maintenance")
Step: TypeAlias = Callable[[Session, TimeLimit, FailedTables], None]


@dataclass(frozen=True)
class CompactionResult:
    """Data files and delete files of the latest snapshot, before and after a compaction.

    Attributes:
        files_before: Number of files before it.
        files_after: Number of files after it.
        bytes_before: Size of the files before it, in bytes.
        bytes_after: Size of the files after it, in bytes.
        complete: False if the deadline ended it early; the next compaction continues.
    """

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    complete: bool = True


class Maintenance:
    """Compaction, expiry of snapshots and removal of files; see `Lake.maintenance`.

    DuckDB does the work, regardless of the lake's engine.

    Args:
        scope: The lake.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._session = scope.session

    def compact(self, table: str | None = None) -> CompactionResult:
        """Merges small files, rewrites files with many deleted rows, and writes inlined rows to files.

        Rows, row ids and history do not change. The work is committed in many transactions, for the tables with most
        files to save first: what is done stays if the process is killed. The store's `maintenance` limits its time and
        memory.

        Args:
            table: The only table to compact, as for `Lake.table`; by default all are. The result is then that of the
                table.

        Returns:
            Files and bytes before and after, and whether anything is left.

        Raises:
            TableNotFoundError: There is no such table.
            StorageError: A file of a table is missing or damaged, or DuckDB needs more memory than the limit; the
                other tables were compacted.
        """
        return self._limited(flush_lake, rewrite_files, merge_files, table=table)

    def _limited(self, *steps: Step, table: str | None = None) -> CompactionResult:
        limit = TimeLimit.after(self._session.deadline)
        with limited_memory(self._session):
            self._scope.check_maintainable()
            info = None if table is None else self._newest(table)
            failed = FailedTables(self._session, () if info is None else _others(self._session, info))
            files_before, bytes_before = _size(self._session, info)
            StoredQueries.load(self._session.reader).check_expressions()
            for step in steps:
                if not limit.is_over:
                    step(self._session, limit, failed)
            files_after, bytes_after = _size(self._session, info)
            self._session.advance(latest(self._session.reader).snapshot_id)
            failed.check()
            return CompactionResult(files_before, files_after, bytes_before, bytes_after, complete=not limit.is_over)

    def flush(self) -> CompactionResult:
        """Writes the rows and deletes in the catalog to files.

        Returns:
            Files and bytes before and after.
        """
        return self._limited(flush_lake)

    def rewrite(self) -> CompactionResult:
        """Rewrites files with many deleted rows: more than the lake's option `rewrite_delete_threshold`.

        Deletes in the catalog become files before, like in a `flush`.

        Returns:
            Files and bytes before and after, and whether anything is left.
        """
        return self._limited(flush_lake, rewrite_files)

    def expire_snapshots(
        self, *, older_than: datetime | timedelta, keep: int = 1, dry_run: bool = False, force: bool = False
    ) -> list[int]:
        """Expires old snapshots, which can then no longer be read; `cleanup` removes files that only they need.

        Args:
            older_than: A time with a time zone, or an age. At least a day, because writers other than lakeconf may be
                committing, and readers may still use a snapshot.
            keep: The number of newest snapshots that are always kept; at least 1.
            dry_run: True to expire nothing and only return the versions that would expire.
            force: True to accept less than a day, and a metadata backend without locks, if nothing else uses the lake.

        Returns:
            The expired versions.

        Raises:
            CatalogRestoredError: The catalog was restored from a backup before the last cleanup; nothing was expired.
            CommitError: Writers were active all the time, or the backend has no locks; nothing was expired.
        """
        check_flags(dry_run=dry_run, force=force)
        keep = whole_number(keep, "keep", at_least=1)
        limit = self._limit(older_than, force=force)
        if dry_run:
            return self._expired(limit, keep)
        self._scope.check_maintainable()
        with self._session.guard.removing(force=force):
            expired = self._expired(limit, keep)
            if expired:
                if self._session.guard.marker is not None:
                    self._session.guard.marker.before_expiry()
                self._scope.base.remember(self._session.reader, set(expired))
                versions = ", ".join(map(str, expired))
                expire = f"CALL ducklake_expire_snapshots(?, versions => [{versions}])"
                CatalogStatement(self._session, expire, [self._session.alias]).run()
                _log.info("expired %d snapshots, up to version %d", len(expired), expired[-1])
        return expired

    def cleanup(self, *, older_than: datetime | timedelta, force: bool = False) -> list[str]:
        """Removes files that no snapshot needs, and files left behind by crashed writers.

        Only files that provably belong to this lake are removed: files below the data path that its catalog has
        scheduled for deletion; and unknown files in the folder of a table of this catalog, if they are named as
        lakeconf or DuckDB names files. If the data path contains one of `*?[{`, files of crashed writers are not
        searched for, and a warning is logged.

        Args:
            older_than: A time or an age: files that were scheduled or written after it are kept. Must exceed the
                longest job that may still use them; at least a day, because other writers do not announce their files.
            force: True to accept less than a day, and a metadata backend without locks, if nothing else uses the lake.

        Returns:
            The paths of the removed files; `plan_cleanup` returns them before.

        Raises:
            CatalogError: The marker below the data path is missing or belongs to another lake, or the catalog lists
                files for removal that do not belong to the lake. Nothing was removed.
            CommitError: Writers were active all the time, or the backend has no locks; nothing was removed.
        """
        check_flags(force=force)
        limit = self._limit(older_than, force=force)
        with self._session.guard.removing(force=force):
            return self._cleanup().remove(limit).paths

    def plan_cleanup(self, *, older_than: datetime | timedelta, force: bool = False) -> Removal:
        """The files that `cleanup` would remove, and whether it would search for files of crashed writers."""
        check_flags(force=force)
        return self._cleanup().plan(self._limit(older_than, force=force))

    def plan_compaction(self) -> list[TableCompaction]:
        """The tables that `compact` would change, according to the catalog; no data file is read."""
        return plan_compaction(
            self._session.reader, self._session.own_files, StagedRewriting(self._session, TimeLimit()).planned
        )

    def _newest(self, table: str) -> TableInfo:
        return load_table(self._session.reader, table, latest(self._session.reader).snapshot_id)

    def _cleanup(self) -> Cleanup:
        self._scope.check_maintainable()
        return Cleanup(self._session, self._session.guard.marker)

    def _expired(self, limit: datetime, keep: int) -> list[int]:
        (_, now), newest, expired = self._session.clock.span(), None, []
        for snapshot in snapshots(self._session.reader)[:-keep]:
            # A snapshot is not older than those before it: the clock of its writer was behind. A time in the future is
            # wrong itself, and proves nothing about later snapshots.
            if snapshot.time <= now:
                newest = max(newest or snapshot.time, snapshot.time)
            if max(newest or snapshot.time, snapshot.time) < limit:
                expired.append(snapshot.snapshot_id)
        kept = self._pinned().intersection(expired)
        if kept:
            _log.info("keeps snapshots that branches read: %s", ", ".join(map(str, sorted(kept))))
        return [version for version in expired if version not in kept]

    def _pinned(self) -> set[int]:
        """The snapshots that branches read; a lake without a marker has no branches."""
        if self._session.guard.marker is None:
            return set()
        return {pin.snapshot_id for pin in Pins(self._session.reader).all()}

    def _limit(self, older_than: datetime | timedelta, *, force: bool) -> datetime:
        age_or_time: object = older_than
        # NaT of pandas is a datetime, and is not equal to itself.
        if not isinstance(age_or_time, (datetime, timedelta)) or age_or_time != age_or_time:
            raise LakeconfError(
                f"older_than is {older_than!r}, which is neither an age nor a time",
                hint="pass an age, such as datetime.timedelta(days=7), or a time with a time zone",
            )
        if isinstance(older_than, timedelta) and older_than > LONGEST_AGE:
            raise LakeconfError(
                f"the age {older_than} is too long", hint=f"pass an age of at most {LONGEST_DAYS:,} days"
            )
        now = self._session.clock.now()
        moment = now - older_than if isinstance(older_than, timedelta) else older_than
        if moment.tzinfo is None:
            raise LakeconfError(f"the time {older_than} has no time zone", hint="add one, such as timezone.utc")
        if not force and moment > now - SHORTEST_AGE:
            raise LakeconfError(
                f"{older_than} is less than a day: other processes may still read or write the files",
                hint="pass a day or more; or, if nothing else uses the lake, --force (force=True)",
            )
        return moment


def _others(session: Session, info: TableInfo) -> set[tuple[str, str]]:
    return set(all_tables(session.reader)) - {(info.schema_name, info.name)}


def _size(session: Session, info: TableInfo | None) -> tuple[int, int]:
    """The files and bytes of a table, or of all."""
    sums = "sum(file_count + delete_file_count), sum(file_size_bytes + delete_file_size_bytes)"
    condition = "true" if info is None else f"table_id = {info.table_id}"
    ((files, size),) = session.writer.rows(
        f"SELECT {sums} FROM ducklake_table_info(?) WHERE {condition}", [session.alias]
    )
    return int(files or 0), int(size or 0)
