"""Sorts the rows of a table's files: writes all files again, or those of each partition, as one commit each.

Rows keep their ids, and no row counts as changed: DuckLake records the commit like its own rewrite of files with
deleted rows, so older snapshots keep their files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeconf.catalog.data_file import SORTED_BY, FileGroup, file_groups, is_inlined
from lakeconf.catalog.health import forgotten_bounds
from lakeconf.catalog.sort_keys import sort_keys
from lakeconf.catalog.stored_queries import StoredQueries
from lakeconf.catalog.tables import TableInfo, load_table, name_list, table_options
from lakeconf.commit.scope import Scope
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.sorted_files import SortRequest
from lakeconf.errors import CommitConflictError, SchemaError, UnsupportedError
from lakeconf.lake.compaction import target_file_size
from lakeconf.lake.limits import TimeLimit
from lakeconf.lake.rewriting import add_replacement, flush_table, newest, replacement_refusal
from lakeconf.logs import escaped
from lakeconf.wording import byte_size, counted
from lakeconf.write.writes import Writing

# Other tools may write rows to the catalog between a flush and the next look.
_FLUSHES = 3


@dataclass(frozen=True)
class SortPlan:
    """What a rewrite of a table in an order would do.

    Attributes:
        table: The table.
        sorted_by: The order, as for `Lake.create_table`.
        files: The data files that would be written again.
        bytes: Their size.
        rows: Their rows.
        commits: The number of commits: one for each partition.
        sorted_files: The files that an earlier rewrite has sorted in this order; they stay.
    """

    table: str
    sorted_by: tuple[str, ...]
    files: int
    bytes: int
    rows: int
    commits: int
    sorted_files: int

    @property
    def changes(self) -> bool:
        """True if there is anything to do."""
        return self.files > 0

    def __str__(self) -> str:
        # Names come from the catalog, and could look like lines of the plan.
        table, order = escaped(self.table), escaped(", ".join(self.sorted_by))
        if not self.changes:
            return f"{table}: no file to sort by {order}"
        size = f"{counted(self.files, 'file')} ({byte_size(self.bytes)})"
        lines = [
            f"{table}: write {size} with {self.rows:,} rows again, sorted by {order}",
            f"in {counted(self.commits, 'commit')}; rows keep their ids, and no row changes",
        ]
        if self.sorted_files:
            lines.append(f"already sorted: {self.sorted_files:,} files")
        return "\n".join([*lines, "the files before stay until their snapshots expire"])


@dataclass(frozen=True)
class SortResult:
    """The result of a rewrite of a table in an order.

    Attributes:
        files_before: The number of data files of the table before it.
        files_after: Their number after it.
        commits: The number of commits.
        complete: False if the deadline ended it early; the next rewrite in this order continues.
    """

    files_before: int
    files_after: int
    commits: int
    complete: bool = True


class Sorting:
    """The rewrite of one table.

    Args:
        sorted_by: The sort keys; None for those of the table.
    """

    def __init__(self, scope: Scope, name: str, sorted_by: Sequence[str] | None) -> None:
        self._scope, self._session, self._name = scope, scope.session, name
        reader = self._session.reader
        self._info = load_table(reader, name, scope.snapshot_id)
        if sorted_by is None:
            sorted_by = table_options(reader, self._info, scope.snapshot_id).sorted_by
            if not sorted_by:
                raise SchemaError(
                    f"{self._info.full_name} has no sort order",
                    hint='name the columns: --sorted-by "day, user DESC", or sorted_by=[…]',
                )
        self._keys = sort_keys(
            [sorted_by] if isinstance(sorted_by, str) else name_list(sorted_by, "sorted_by"), self._info.columns
        )
        self._order = tuple(map(str, self._keys))

    def plan(self) -> SortPlan:
        """What `run` would do; files that a flush would add are not counted."""
        groups = file_groups(self._session.reader, self._info, self._scope.snapshot_id)
        waiting = [group for group in groups if self._is_waiting(group)]
        return SortPlan(
            self._info.full_name,
            self._order,
            sum(len(group.files) for group in waiting),
            sum(group.size for group in waiting),
            sum(group.rows for group in waiting),
            len(waiting),
            sum(len(group.files) for group in groups if group.sorted_by == self._order),
        )

    def run(self, limit: TimeLimit) -> SortResult:
        """Writes the files again, first of the partitions with most files."""
        self._scope.check_maintainable()
        session = self._session
        StoredQueries.load(session.reader).check_expressions()
        info = self._info if limit.is_over else self._flushed()
        groups = file_groups(session.reader, info, session.snapshot_id)
        before, commits = sum(len(group.files) for group in groups), 0
        waiting = [group for group in groups if self._is_waiting(group)]
        for group in waiting:
            if limit.is_over:
                break
            commits += self._rewrite((group.partition_id, group.partition))
        left = file_groups(session.reader, info, session.snapshot_id)
        is_complete = not any(map(self._is_waiting, left)) or not limit.is_over
        return SortResult(before, sum(len(group.files) for group in left), commits, is_complete)

    def _is_waiting(self, group: FileGroup) -> bool:
        return group.rows > 0 and group.sorted_by != self._order

    def _flushed(self) -> TableInfo:
        """The table at the latest snapshot, after its rows and deletes in the catalog were written to files."""
        session = self._session
        for _ in range(_FLUSHES):
            info = newest(session, self._name)
            if not is_inlined(session.reader, info, session.snapshot_id):
                return info
            flush_table(session, info)
        raise CommitConflictError(
            f"other writers add rows of {self._info.full_name} to the catalog all the time", hint="try again later"
        )

    def _rewrite(self, key: tuple[object, ...]) -> int:
        """Commits the new files of a group; returns the number of commits."""
        info = self._flushed()
        with Writing(self._scope, "sort") as transaction:
            groups = file_groups(self._session.reader, info, transaction.snapshot_id)
            group = next((one for one in groups if (one.partition_id, one.partition) == key), None)
            if group is None or not self._is_waiting(group):
                return 0  # another process has sorted or removed the files
            together = self._together(info, groups, group)
            _check_supported(transaction, info, together)
            transaction.extra = {SORTED_BY: list(self._order)}
            keys = sort_keys(self._order, info.columns)
            size = target_file_size(self._session.reader, info)
            for one in together:
                count, token, is_whole = -(-one.size // size), transaction.next_token(), len(groups) == 1
                request = SortRequest(info, transaction.snapshot_id, one, is_whole, keys, count, token)
                add_replacement(transaction, request)
        return 1

    def _together(self, info: TableInfo, groups: Sequence[FileGroup], group: FileGroup) -> list[FileGroup]:
        """The group, and those that the same commit must replace so that DuckLake does not forget bounds."""
        with self._session.reader.transaction() as metadata:
            ids = {file.data_file_id for file in group.files}
            forgotten = forgotten_bounds(metadata, info.table_id, ids).keys()
        return [one for one in groups if one == group or any(file.data_file_id in forgotten for file in one.files)]


def _check_supported(transaction: Transaction, info: TableInfo, groups: Sequence[FileGroup]) -> None:
    """Refuses a table whose files cannot be replaced with their row ids."""
    session, encrypted = transaction.session, any(group.encrypted for group in groups)
    reason = replacement_refusal(session, info, transaction.snapshot_id, encrypted=encrypted)
    if reason is not None:
        raise UnsupportedError(
            f"the files of {info.full_name} cannot be sorted: {reason}",
            hint="let DuckLake sort new files: lake.create_table(…, sorted_by=…)",
        )
