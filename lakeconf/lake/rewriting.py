"""Rewrites files: merged, without deleted rows, or sorted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakeconf.catalog.data_file import (
    SORTED_BY,
    FileGroup,
    ReplacedFile,
    file_groups,
    groups_of,
    inlined_deletes,
    is_inlined,
)
from lakeconf.catalog.health import forgotten_bounds, lost_bounds
from lakeconf.catalog.row_count import with_bytes_per_row
from lakeconf.catalog.sort_keys import SortKey, sort_keys
from lakeconf.catalog.stored_queries import StoredQueries
from lakeconf.catalog.table import TableInfo, joined_name, load_table, name_list, table_options
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session, of_table, run_step
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.sorted_files import SortRequest
from lakeconf.errors import CatalogError, CommitConflictError, SchemaError, TableNotFoundError, UnsupportedError
from lakeconf.lake.compaction import (
    RewrittenFiles,
    SmallFiles,
    add_replacement,
    all_tables,
    flush_table,
    merges,
    newest,
    replacement_refusal,
    rewritten_files,
    target_file_size,
)
from lakeconf.lake.limits import TimeLimit
from lakeconf.logs import EventLogger, escaped
from lakeconf.sql import literal, qualified
from lakeconf.wording import byte_size, counted
from lakeconf.write.writes import Writing

# What one transaction reads, and writes, at most.
FILES_READ, BYTES_READ, FILES_WRITTEN = 2000, 8 * 1024**3, 200


# The number of times that other writers may change rows of the files while they are rewritten.
_CONFLICTS = 5


@dataclass(frozen=True)
class StagedRewriting:
    """The rewrite of files with deleted rows; each new file has the rows of files of one partition.

    Attributes:
        session: The lake.
        limit: No transaction begins after it.
    """

    session: Session
    limit: TimeLimit

    def planned(self, table: RewrittenFiles) -> int:
        """The number of these files that `run` would rewrite."""
        snapshot_id = self.session.snapshot_id
        try:
            info = load_table(self.session.reader, _name(table), snapshot_id)
        except TableNotFoundError:
            return 0  # it is newer than the snapshot that reads see
        parts = self._parts(info, table, snapshot_id)
        if self._refusal(info, snapshot_id, parts):
            return 0
        listed = {*table.ids}
        return sum(len(_ids(part) & listed) for part in parts)

    def run(self, table: RewrittenFiles) -> str | None:
        """Rewrites files in transactions of a limited size, first those with most deleted rows.

        Returns:
            Why files are left; None if all are rewritten, or if the time is over.
        """
        conflicts = 0
        while not self.limit.is_over:
            try:
                if not self._rewrite(table):
                    return None
            except TableNotFoundError:
                return None
            except (UnsupportedError, SchemaError, CatalogError) as error:
                return error.message
            except CommitConflictError as error:
                conflicts += 1
                if conflicts == _CONFLICTS:
                    return error.message
        return None

    def _rewrite(self, table: RewrittenFiles) -> bool:
        """Commits one transaction; False if there is nothing left to do."""
        session = self.session
        info = newest(session, _name(table))
        with Writing(Scope(session), "rewrite") as transaction:
            snapshot_id = transaction.snapshot_id
            parts = self._parts(info, table, snapshot_id)
            reason = self._refusal(info, snapshot_id, parts)
            if reason is not None:
                raise UnsupportedError(reason)
            # DuckDB does the work of maintenance, regardless of the lake's engine.
            engine = session.engine.for_small_merges() or session.engine
            keys, sized = self._keys(info, snapshot_id), with_bytes_per_row(session.reader, info)
            for part in _limited(parts):
                token = transaction.next_token()
                request = SortRequest(sized, snapshot_id, part, is_whole=False, keys=keys, file_count=1, token=token)
                add_replacement(transaction, engine, request)
        return bool(parts)

    def _refusal(self, info: TableInfo, snapshot_id: int, parts: Sequence[FileGroup]) -> str | None:
        encrypted = any(part.encrypted for part in parts)
        return replacement_refusal(self.session, info, snapshot_id, encrypted=encrypted) if parts else None

    def _keys(self, info: TableInfo, snapshot_id: int) -> tuple[SortKey, ...]:
        """The order of the table, in which DuckLake would write the rows, too; none that engines do not share."""
        texts = table_options(self.session.reader, info, snapshot_id).sorted_by
        try:
            return sort_keys(texts, info.columns) if texts else ()
        except SchemaError:
            return ()

    def _parts(self, info: TableInfo, table: RewrittenFiles, snapshot_id: int) -> list[FileGroup]:
        """The files that are left, those of each new file together; first those with most deleted rows."""
        target, listed = target_file_size(self.session.reader, info), {*table.ids}
        with self.session.reader.transaction() as metadata:
            groups = groups_of(metadata, info, snapshot_id)
            # A flush writes deletes of the catalog to a file.
            fixed = inlined_deletes(metadata, info, snapshot_id)
            files = [file for group in groups for file in group.files if file.data_file_id not in fixed]
            wanted = {file.data_file_id: file for file in files if file.data_file_id in listed}
            unbounded = forgotten_bounds(metadata, info.table_id, wanted).keys() if wanted else set[int]()
        added = {file.data_file_id: file for file in files if file.data_file_id in unbounded}
        if len(added) < len(unbounded) or not _is_small(added.values(), target):
            if not any(file.deleted for file in wanted.values()):
                return []
            del wanted[min(wanted, key=lambda file_id: wanted[file_id].deleted)]
            added = {}
        wanted |= added
        parts = []
        for group in groups:
            found = [file for file in group.files if file.data_file_id in wanted]
            divided = _divided(found, target)
            # Nothing is gained if one file without deleted rows is written again.
            parts += [replace(group, files=part) for part in divided if len(part) > 1 or part[0].deleted or added]
        # While there are deleted rows, DuckLake forgets nothing; after them, no file without bounds may be left.
        return sorted(parts, key=lambda part: (not _ids(part) & added.keys(), -sum(one.deleted for one in part.files)))


def _name(table: RewrittenFiles) -> str:
    return qualified(table.schema, table.name)


def _ids(part: FileGroup) -> set[int]:
    return {file.data_file_id for file in part.files}


def _is_small(files: Collection[ReplacedFile], target: int) -> bool:
    """True if writing these files again costs no more than writing one file, and needs one transaction."""
    return sum(file.size for file in files) <= target and len(files) <= FILES_WRITTEN


def _divided(files: Iterable[ReplacedFile], target: int) -> Iterator[tuple[ReplacedFile, ...]]:
    """Divides files so that the rows that are left in each part make one file; at least one row is left in a part."""
    part: list[ReplacedFile] = []
    size = 0.0
    for file in sorted(files, key=_left):
        if any(one.rows for one in part) and (size + _left(file) > target or len(part) >= FILES_READ):
            yield tuple(part)
            part, size = [], 0.0
        part.append(file)
        size += _left(file)
    if any(one.rows for one in part):
        yield tuple(part)


def _left(file: ReplacedFile) -> float:
    """The bytes of the rows that are left in a file, about."""
    return file.size * file.rows / max(file.rows + file.deleted, 1)


def _limited(parts: Sequence[FileGroup]) -> Iterator[FileGroup]:
    """The first parts, as far as one transaction may read and write them; at least one."""
    read, size = 0, 0
    for number, part in enumerate(parts[:FILES_WRITTEN]):
        read, size = read + len(part.files), size + part.size
        if number and (read > FILES_READ or size > BYTES_READ):
            return
        yield part


_log = EventLogger("maintenance")


_TARGET = "ducklake_target_file_size"


@dataclass(frozen=True)
class Merging:
    """The merge of a lake's small files.

    Attributes:
        session: The lake.
        limit: No transaction begins after it.
    """

    session: Session
    limit: TimeLimit

    def run(self) -> None:
        """Merges small files, first of the tables with most of them, until no merge creates a file."""
        tables, left = merges(self.session.reader)
        merged = [table for table in tables if (table.schema, table.name) not in left]
        if sum(len(table.sizes) for table in merged) > FILES_READ:
            for table in sorted(merged, key=lambda found: -found.saved):
                self._merge_table(table)
        # All tables of a small lake in one transaction; and what only DuckLake knows, because it reads more options.
        others = [of_table(*name) for name in all_tables(self.session.reader) if name not in left] if left else [""]
        for arguments in others:
            self._merge(arguments, FILES_WRITTEN, {})
        for table in tables:
            if (table.schema, table.name) in left:
                self._replace(table)

    def _replace(self, table: SmallFiles) -> None:
        """Merges files by staged commits, which keep row ids: DuckLake gives the rows of a sorted table others."""
        reason = StagedRewriting(self.session, self.limit).run(table.replaced)
        if reason is not None:
            _log.warning(
                "%s keeps %d small files: DuckLake would change row ids or fail, and no staged commit is possible: %s",
                joined_name(table.schema, table.name), len(table.ids), reason,
            )  # fmt: skip

    def _merge_table(self, table: SmallFiles) -> None:
        """Merges the files of a table in rounds; each transaction reads at most `FILES_READ` files of a group."""
        arguments = of_table(table.schema, table.name)
        found: SmallFiles | None = table
        target = 0
        while found is not None and not self.limit.is_over:
            # More files than these are larger together.
            target = max(sum(found.sizes[:FILES_READ]), 2 * target)
            is_last = found.largest <= FILES_READ or target >= found.target
            written = min(max(1, FILES_READ * found.groups // len(found.sizes)), FILES_WRITTEN)
            self._merge(arguments, written, {} if is_last else {_TARGET: f"{target} bytes"})
            if is_last:
                return
            names = table.schema, table.name
            found = next((one for one in merges(self.session.reader).small if (one.schema, one.name) == names), None)

    def _merge(self, arguments: str, written: int, settings: Mapping[str, str]) -> None:
        """Repeats one transaction until it creates no file."""
        given = f"{literal(self.session.alias)}{arguments}, max_compacted_files => {written}"
        call = f"CALL ducklake_merge_adjacent_files({given})"
        while not self.limit.is_over:
            if not any(created for *_, created in run_step(self.session, call, settings)):
                return


@dataclass(frozen=True)
class Rewriting:
    """The rewrite of a lake's files with deleted rows.

    Attributes:
        session: The lake.
        limit: No transaction begins after it.
    """

    session: Session
    limit: TimeLimit

    def run(self) -> None:
        """Rewrites files, first of the tables with most deleted bytes, then those that only DuckLake knows.

        Tables whose bounds DuckLake would forget come last; they are left if no staged commit can carry them.
        """
        reader = self.session.reader
        lost = lost_bounds(reader)
        found = rewritten_files(reader)
        tables = [table for table in found if (table.schema, table.name) not in lost]
        sizes = [size for table in tables for _, size in table.files]
        if len(sizes) > FILES_READ or sum(sizes) > BYTES_READ:
            for table in sorted(tables, key=lambda found: -found.saved):
                self._rewrite_table(table)
        if not lost:
            self._rewrite("")
            return
        for schema, name in all_tables(reader):
            if (schema, name) not in lost:
                self._rewrite(of_table(schema, name))
        for table in sorted(found, key=lambda one: -one.saved):
            columns = lost.get((table.schema, table.name))
            if columns is not None:
                self._replace_files(table, columns[0])

    def _replace_files(self, table: RewrittenFiles, column: str) -> None:
        reason = StagedRewriting(self.session, self.limit).run(table)
        if reason is not None:
            _log.warning(
                "%s keeps files with deleted rows: DuckLake would forget the bounds of the column %s, and a staged "
                "commit is not possible: %s", joined_name(table.schema, table.name), column, reason,
            )  # fmt: skip

    def _rewrite_table(self, table: RewrittenFiles) -> None:
        arguments = of_table(table.schema, table.name)
        for share in _parts(table.files):
            # A decimal number would be rounded.
            self._rewrite(f"{arguments}, delete_threshold => CAST({literal(repr(share))} AS DOUBLE)")

    def _rewrite(self, arguments: str) -> None:
        if not self.limit.is_over:
            run_step(self.session, f"CALL ducklake_rewrite_data_files({literal(self.session.alias)}{arguments})")


def _parts(files: Iterable[tuple[float, int]]) -> Iterator[float]:
    """The smallest share of deleted rows in each part of a transaction's size; equal shares cannot be separated."""
    count, size, last = 0, 0, None
    for share, file_size in files:
        is_full = count + 1 > FILES_READ or size + file_size > BYTES_READ
        if last is not None and is_full and share < last:
            yield last
            count, size = 0, 0
        count, size, last = count + 1, size + file_size, share
    if last is not None:
        yield last


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
            sized, size = with_bytes_per_row(self._session.reader, info), target_file_size(self._session.reader, info)
            for one in together:
                count, token, is_whole = -(-one.size // size), transaction.next_token(), len(groups) == 1
                request = SortRequest(sized, transaction.snapshot_id, one, is_whole, keys, count, token)
                add_replacement(transaction, self._session.engine, request)
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
