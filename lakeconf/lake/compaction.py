"""Plans a compaction from the catalog; nothing is changed and no data file is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakeconf.catalog.health import lost_bounds
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.table import TableInfo, joined_name, load_table, tables
from lakeconf.commit.conflicts import ReadDependency
from lakeconf.commit.moved_values import ValuesChangedError
from lakeconf.commit.position_files import have_row_ids
from lakeconf.commit.session import RowsChangedError, Session, run_step
from lakeconf.commit.staged_commit import FileChange, Replacement
from lakeconf.commit.transaction import Change, Transaction
from lakeconf.ducklake import INLINED_TABLES, inlined_deletes_table
from lakeconf.engines.base import ROW_ID, Engine
from lakeconf.engines.sorted_files import SortedFiles, SortEngine, SortRequest
from lakeconf.errors import CommitError, CommitUnknownError, LakeconfError, UnsupportedError
from lakeconf.logs import EventLogger
from lakeconf.sql import identifier, literal
from lakeconf.wording import counted, parsed_size
from lakeconf.write.staged_refusal import hides_places, lake_refusal
from lakeconf.write.writes import quoted

# The defaults of the extension: https://ducklake.select/docs/stable/duckdb/usage/configuration
_TARGET_BYTES = 512 * 10**6


_DELETE_THRESHOLD = 0.95


_TABLES = """
    SELECT t.table_id, s.schema_name, t.table_name FROM ducklake_table AS t
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    WHERE t.end_snapshot IS NULL ORDER BY s.schema_name, t.table_name
"""


_FILES = """
    SELECT f.table_id, f.data_file_id, f.record_count, f.file_size_bytes, max(v.schema_version), f.partition_id, f.path
    FROM ducklake_data_file AS f LEFT JOIN ducklake_schema_versions AS v
      ON v.table_id = f.table_id AND v.begin_snapshot <= f.begin_snapshot
    WHERE f.end_snapshot IS NULL
    GROUP BY f.table_id, f.data_file_id, f.record_count, f.file_size_bytes, f.partition_id, f.path
"""


_DELETED = """
    SELECT data_file_id, max(delete_count) FROM ducklake_delete_file WHERE end_snapshot IS NULL GROUP BY data_file_id
"""


_PARTITIONS = """
    SELECT data_file_id, partition_key_index, partition_value FROM ducklake_file_partition_value
    ORDER BY data_file_id, partition_key_index
"""


_SORTED = "SELECT DISTINCT table_id FROM ducklake_sort_info WHERE end_snapshot IS NULL"


@dataclass(frozen=True)
class TableCompaction:
    """The effect of a compaction on a table.

    Attributes:
        table: The name of the table.
        flushed_rows: Rows and deletes in the catalog that would be written to files.
        rewritten_files: Files that would be rewritten because most of their rows are deleted.
        merged_files: Small files that would be merged with others.
    """

    table: str
    flushed_rows: int = 0
    rewritten_files: int = 0
    merged_files: int = 0

    def __str__(self) -> str:
        steps = (
            (self.flushed_rows, f"write {counted(self.flushed_rows, 'row')} of the catalog to files"),
            (self.rewritten_files, f"rewrite {counted(self.rewritten_files, 'file')} with deleted rows"),
            (self.merged_files, f"merge {counted(self.merged_files, 'small file')}"),
        )
        done = (text for count, text in steps if count)
        return f"{self.table}: {', '.join(done)}"


class _File(NamedTuple):
    file_id: int
    rows: int
    size: int
    group: tuple[object, ...]
    deleted: int
    folder: str


class _Table(NamedTuple):
    table_id: int
    schema: str
    name: str
    target: int
    threshold: float
    files: list[_File]
    is_sorted: bool


@dataclass(frozen=True)
class RewrittenFiles:
    """The files of a table with so many deleted rows that they would be rewritten.

    Attributes:
        schema: The table's schema.
        name: The table's name.
        files: The share of deleted rows and the size in bytes of each file; the largest share first.
        ids: The ids of these files.
    """

    schema: str
    name: str
    files: tuple[tuple[float, int], ...]
    ids: tuple[int, ...] = ()

    @property
    def saved(self) -> float:
        """The bytes of deleted rows."""
        return sum(share * size for share, size in self.files)


@dataclass(frozen=True)
class SmallFiles:
    """The files of a table that DuckLake would merge.

    Attributes:
        schema: The schema of the table.
        name: The name of the table.
        sizes: Their sizes in bytes, the smallest first.
        groups: The number of groups: files of one partition, with the same columns, are merged with each other.
        largest: The number of files in the largest group.
        target: The size in bytes up to which files are merged.
        ids: The ids of these files.
    """

    schema: str
    name: str
    sizes: tuple[int, ...]
    groups: int
    largest: int
    target: int
    ids: tuple[int, ...] = ()

    @property
    def replaced(self) -> RewrittenFiles:
        """The files, for a staged commit instead of DuckLake's merge."""
        return RewrittenFiles(self.schema, self.name, (), self.ids)

    @property
    def saved(self) -> int:
        """The number of files by which the table has fewer files after the merge."""
        return len(self.sizes) - self.groups


class Merges(NamedTuple):
    """The merges of small files in a lake.

    Attributes:
        small: The small files of each table that has any to merge.
        left: The schema and the name of each table whose files DuckLake must not merge.
    """

    small: tuple[SmallFiles, ...]
    left: set[tuple[str, str]]


def plan_compaction(
    reader: CatalogReader, replaced: Callable[[RewrittenFiles], int] = lambda _: 0
) -> list[TableCompaction]:
    """The tables that a compaction would change, selected by DuckLake's rules, sorted by name.

    Files that a flush would create, and that could then be merged, are not counted.

    Args:
        replaced: The number of files that lakeconf replaces itself, because DuckLake would forget bounds or row ids.
    """
    with reader.transaction() as transaction:
        found = _tables(transaction)
        flushed = {table.table_id: _inlined(transaction, table.table_id) for table in found}
    lost = lost_bounds(reader) if any(map(_rewritten, found)) else {}
    planned = []
    for table in found:
        name, files = joined_name(table.schema, table.name), _rewritten(table)
        is_lost = bool(files) and (table.schema, table.name) in lost
        rewritten = replaced(_rewritten_files(table, files)) if is_lost else len(files)
        small = _small_files(table)
        merged = 0 if small is None or _is_divided(table) else len(small.ids)
        if small is not None and merged and table.is_sorted:
            merged = replaced(small.replaced)
        planned.append(TableCompaction(name, flushed[table.table_id], rewritten, merged))
    return [one for one in planned if one.flushed_rows or one.rewritten_files or one.merged_files]


def rewritten_files(reader: CatalogReader) -> list[RewrittenFiles]:
    """The files that would be rewritten, of each table that has any."""
    with reader.transaction() as transaction:
        tables = _tables(transaction)
    return [_rewritten_files(table, files) for table in tables if (files := _rewritten(table))]


def _rewritten_files(table: _Table, files: Sequence[_File]) -> RewrittenFiles:
    ordered = sorted(files, key=lambda file: (file.deleted / file.rows, file.size), reverse=True)
    shares = tuple((file.deleted / file.rows, file.size) for file in ordered)
    return RewrittenFiles(table.schema, table.name, shares, tuple(file.file_id for file in ordered))


def all_tables(reader: CatalogReader) -> list[tuple[str, str]]:
    """The schema and the name of each table."""
    with reader.transaction() as transaction:
        return [(schema, name) for _, schema, name in transaction.rows(_TABLES)]


def merges(reader: CatalogReader) -> Merges:
    """The small files of the lake."""
    with reader.transaction() as transaction:
        tables = _tables(transaction)
    small = tuple(found for table in tables if (found := _small_files(table)) is not None)
    return Merges(small, {(table.schema, table.name) for table in tables if table.is_sorted or _is_divided(table)})


def _small_files(table: _Table) -> SmallFiles | None:
    groups = _groups(table)
    if not groups:
        return None
    files = sorted((file for group in groups for file in group), key=lambda file: file.size)
    sizes, ids = tuple(file.size for file in files), tuple(file.file_id for file in files)
    return SmallFiles(table.schema, table.name, sizes, len(groups), max(map(len, groups)), table.target, ids)


def target_file_size(reader: CatalogReader, table: TableInfo) -> int:
    """The size in bytes that files of a table should have."""
    with reader.transaction() as transaction:
        return max(_target(_options(transaction), table.table_id), 1)


def _target(options: Mapping[tuple[int | None, str], str], table_id: int) -> int:
    size = parsed_size(options.get((table_id, "target_file_size")) or options.get((None, "target_file_size")) or "")
    return _TARGET_BYTES if size is None else size


def _tables(transaction: MetadataTransaction) -> list[_Table]:
    options, files = _options(transaction), _files(transaction)
    is_sorted = {table_id for (table_id,) in transaction.rows(_SORTED)}
    found = []
    for table_id, schema, name in transaction.rows(_TABLES):
        target = _target(options, table_id)
        limit = options.get((table_id, "rewrite_delete_threshold")) or options.get((None, "rewrite_delete_threshold"))
        threshold = _DELETE_THRESHOLD if limit is None else float(limit)
        found.append(_Table(table_id, schema, name, target, threshold, files[table_id], table_id in is_sorted))
    return found


def _rewritten(table: _Table) -> list[_File]:
    return [file for file in table.files if file.deleted > 0 and file.deleted >= table.threshold * file.rows]


def _is_divided(table: _Table) -> bool:
    """True if files that DuckLake merges are in several folders: it then fails, and closes the database."""
    return len({(file.group, file.folder) for file in table.files}) > len({file.group for file in table.files})


def _groups(table: _Table) -> list[list[_File]]:
    """The small files that share a group with another small file."""
    groups: dict[tuple[object, ...], list[_File]] = defaultdict(list)
    for file in table.files:
        if not file.deleted and file.size < table.target:
            groups[file.group].append(file)
    return [group for group in groups.values() if len(group) > 1]


def _files(transaction: MetadataTransaction) -> dict[int, list[_File]]:
    deleted = dict(transaction.rows(_DELETED))
    partitions: dict[int, list[object]] = defaultdict(list)
    for file_id, index, value in transaction.rows(_PARTITIONS):
        partitions[file_id].append((index, value))
    files: dict[int, list[_File]] = defaultdict(list)
    for table_id, file_id, rows, size, version, partition_id, path in transaction.rows(_FILES):
        group = (version, partition_id, *partitions[file_id])
        folder = "" if partition_id is None else path.rpartition("/")[0]
        files[table_id].append(_File(file_id, rows, size, group, deleted.get(file_id, 0), folder))
    return files


def _options(transaction: MetadataTransaction) -> dict[tuple[int | None, str], str]:
    query = "SELECT scope, scope_id, key, value FROM ducklake_metadata WHERE scope IS NULL OR scope = 'table'"
    return {
        (None if scope is None else int(scope_id), key): value
        for scope, scope_id, key, value in transaction.rows(query)
    }


def _inlined(transaction: MetadataTransaction, table_id: int) -> int:
    count = 0
    for (name,) in transaction.rows(INLINED_TABLES, [table_id]):
        ((rows,),) = transaction.rows(f"SELECT count(*) FROM {identifier(name)} WHERE end_snapshot IS NULL")
        count += rows
    deletes = inlined_deletes_table(table_id)
    if transaction.has_table(deletes):
        ((rows,),) = transaction.rows(f"SELECT count(*) FROM {identifier(deletes)}")
        count += rows
    return count


_log = EventLogger("maintenance")


_HINT = "create a new table with these rows if they must be in files"


def flush_lake(session: Session) -> None:
    """Flushes all tables in one commit. If that fails or would change rows, each table is flushed alone."""
    try:
        _flush(session, None)
    except CommitUnknownError:
        raise
    except LakeconfError as error:
        found = tables(session.reader, latest(session.reader).snapshot_id)
        done = [_is_flushed(session, info) for info in found]
        if not (any(done) or isinstance(error, (RowsChangedError, ValuesChangedError))):
            raise


def _is_flushed(session: Session, info: TableInfo) -> bool:
    try:
        flush_table(session, info)
    except CommitUnknownError:
        raise
    except (RowsChangedError, ValuesChangedError) as error:
        _log.warning("%s", error.message)
    except LakeconfError as error:
        _log.warning("the rows of %s in the catalog cannot be flushed: %s", info.full_name, error.message)
    else:
        return True
    return False


def flush_table(session: Session, info: TableInfo) -> None:
    """Flushes a table."""
    _flush(session, info)


def _flush(session: Session, info: TableInfo | None) -> None:
    """Flushes a table, or all tables."""

    def moved(snapshot_id: int) -> Sequence[TableInfo]:
        return tables(session.reader, snapshot_id) if info is None else (info,)

    def unchanged(snapshot_id: int) -> list[TableInfo]:
        dead = _tables_with_dead_rows(session.reader)
        return [one for one in moved(snapshot_id) if one.table_id in dead]

    named = "" if info is None else f", schema_name => {literal(info.schema_name)}, table_name => {literal(info.name)}"
    try:
        call = f"CALL ducklake_flush_inlined_data({literal(session.alias)}{named})"
        run_step(session, call, unchanged=unchanged, moved=moved)
    except RowsChangedError as error:
        raise RowsChangedError(
            f"{error.message}: DuckLake's flush would restore deleted rows, so its rows stay in the catalog", hint=_HINT
        ) from error


def _tables_with_dead_rows(reader: CatalogReader) -> set[int]:
    """The ids of the tables of which the catalog contains deleted rows."""
    query = "SELECT 1 FROM {} WHERE end_snapshot IS NOT NULL LIMIT 1"
    with reader.transaction() as transaction:
        inlined = transaction.rows("SELECT table_id, table_name FROM ducklake_inlined_data_tables")
        return {table_id for table_id, name in inlined if transaction.rows(query.format(identifier(name)))}


def newest(session: Session, name: str) -> TableInfo:
    """The table at the latest snapshot, to which reads move."""
    session.advance(latest(session.reader).snapshot_id)
    return load_table(session.reader, name, session.snapshot_id)


def replacement_refusal(session: Session, info: TableInfo, snapshot_id: int, *, encrypted: bool) -> str | None:
    """Why the files of a table cannot be replaced with the ids of their rows; None if they can.

    Args:
        encrypted: True if a file is encrypted.
    """
    if session.committer == "public":
        return "the store's committer is public, which cannot register row ids"
    if hides_places(info):
        return "a column hides the row ids"
    if encrypted:
        return "the files are encrypted"
    return lake_refusal(session, info, snapshot_id)


def add_replacement(transaction: Transaction, engine: Engine, request: SortRequest) -> None:
    """Writes the rows of a group of files again, and adds the change that replaces the files.

    Args:
        transaction: The transaction, whose changes all replace files.
    """
    if not isinstance(engine, SortEngine):
        raise UnsupportedError(f"the engine {engine.name} cannot write files again")
    info, files = request.table, engine.stage_sorted(request)
    since = ReadDependency(info.table_id, info.full_name, transaction.snapshot_id, on_rows=False)
    change = FileChange(info, replacement=Replacement(request.group, files.footers))
    transaction.add(Change((), info.full_name, files.staged, since, deletes=True, written_for=info, by_files=change))
    _check_row_ids(transaction.session, request, files)


def _check_row_ids(session: Session, request: SortRequest, files: SortedFiles) -> None:
    """Refuses files that do not contain exactly the ids of the rows that they replace."""
    info = request.table
    listed = ", ".join(literal(file.path) for file in request.group.files)
    where = "" if request.is_whole else f" WHERE filename IN ({listed})"
    table = f"{quoted(session, info)} AT (VERSION => {request.snapshot_id})"
    with session.writer.cursor() as cursor:
        if not have_row_ids(cursor, files.staged.files, f"SELECT rowid AS {ROW_ID} FROM {table}{where}"):
            raise CommitError(f"the new files of {info.full_name} have other rows: nothing was written")
