"""Plans a compaction from the catalog, and from the footers of small files; nothing is changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakeconf.catalog.data_file import inlined_deletes, load_data_files
from lakeconf.catalog.file_footers import files_with
from lakeconf.catalog.health import lost_bounds
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.tables import TableInfo, find_table, joined_name
from lakeconf.ducklake import INLINED_TABLES, INTERNAL_ROW_ID, inlined_deletes_table
from lakeconf.engines.file_names import OwnFiles
from lakeconf.errors import QueryError, StorageError
from lakeconf.sql import identifier, qualified
from lakeconf.wording import counted, parsed_size

# The defaults of the extension: https://ducklake.select/docs/stable/duckdb/usage/configuration
_TARGET_BYTES = 512 * 10**6
_DELETE_THRESHOLD = 0.95
# The most footers that one query reads.
_FOOTERS = 1000
_TABLES = """
    SELECT t.table_id, s.schema_name, t.table_name FROM ducklake_table AS t
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    WHERE t.end_snapshot IS NULL ORDER BY s.schema_name, t.table_name
"""
_FILES = """
    SELECT f.table_id, f.data_file_id, f.record_count, f.file_size_bytes, max(v.schema_version), f.partition_id, f.path,
        f.row_id_start, f.path_is_relative
    FROM ducklake_data_file AS f LEFT JOIN ducklake_schema_versions AS v
      ON v.table_id = f.table_id AND v.begin_snapshot <= f.begin_snapshot
    WHERE f.end_snapshot IS NULL
    GROUP BY f.table_id, f.data_file_id, f.record_count, f.file_size_bytes, f.partition_id, f.path,
        f.row_id_start, f.path_is_relative
"""
_DELETED = """
    SELECT data_file_id, max(delete_count) FROM ducklake_delete_file WHERE end_snapshot IS NULL GROUP BY data_file_id
"""
_PARTITIONS = """
    SELECT data_file_id, partition_key_index, partition_value FROM ducklake_file_partition_value
    ORDER BY data_file_id, partition_key_index
"""
_NEXT_ROW_ID = "SELECT next_row_id FROM ducklake_table_stats WHERE table_id = $1"
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

    @property
    def steps(self) -> str:
        """What would be done, in words."""
        steps = (
            (self.flushed_rows, f"write {counted(self.flushed_rows, 'row')} of the catalog to files"),
            (self.rewritten_files, f"rewrite {counted(self.rewritten_files, 'file')} with deleted rows"),
            (self.merged_files, f"merge {counted(self.merged_files, 'small file')}"),
        )
        return ", ".join(text for count, text in steps if count)

    def __str__(self) -> str:
        return f"{self.table}: {self.steps}"


class _CompactedFile(NamedTuple):
    file_id: int
    rows: int
    size: int
    group: tuple[object, ...]
    deleted: int
    folder: str
    row_id_start: int | None


class _CompactedTable(NamedTuple):
    table_id: int
    schema: str
    name: str
    target: int
    threshold: float
    files: list[_CompactedFile]
    is_sorted: bool
    has_adopted: bool  # True if it also has files that the lake does not own, which are not in `files`


@dataclass(frozen=True)
class RewrittenFiles:
    """The files of a table with so many deleted rows that they would be rewritten."""

    schema: str
    name: str
    # The share of deleted rows and the size in bytes of each file; the largest share first.
    files: tuple[tuple[float, int], ...]
    ids: tuple[int, ...] = ()  # the ids of these files

    @property
    def saved(self) -> float:
        """The bytes of deleted rows."""
        return sum(share * size for share, size in self.files)


@dataclass(frozen=True)
class SmallFiles:
    """The files of a table that DuckLake would merge."""

    schema: str
    name: str
    sizes: tuple[int, ...]  # their sizes in bytes, the smallest first
    groups: int  # the number of groups: files of one partition, with the same columns, are merged with each other
    largest: int  # the number of files in the largest group
    target: int  # the size in bytes up to which files are merged
    ids: tuple[int, ...] = ()  # the ids of these files

    @property
    def replaced(self) -> RewrittenFiles:
        """The files, for a staged commit instead of DuckLake's merge."""
        return RewrittenFiles(self.schema, self.name, (), self.ids)

    @property
    def saved(self) -> int:
        """The number of files by which the table has fewer files after the merge."""
        return len(self.sizes) - self.groups


class Merges(NamedTuple):
    """The merges of small files in a lake."""

    small: tuple[SmallFiles, ...]  # the small files of each table that has any to merge
    left: set[tuple[str, str]]  # the schema and the name of each table whose files DuckLake must not merge


def plan_compaction(
    reader: CatalogReader, own: OwnFiles, replaced: Callable[[RewrittenFiles], int] = lambda _: 0
) -> list[TableCompaction]:
    """The tables that a compaction would change, selected by DuckLake's rules, sorted by name.

    Files that a flush would create, and that could then be merged, are not counted.
    """
    with reader.transaction() as transaction:
        tables = _tables(transaction, own)
        flushed = {table.table_id: _inlined(transaction, table.table_id) for table in tables}
    lost = lost_bounds(reader) if any(map(_rewritten, tables)) else {}
    planned = []
    for table in tables:
        name, files = joined_name(table.schema, table.name), _rewritten(table)
        is_lost = bool(files) and ((table.schema, table.name) in lost or table.has_adopted)
        rewritten = replaced(_rewritten_files(table, files)) if is_lost else len(files)
        small = _small_files(table)
        merged = 0 if small is None or _is_divided(table) else len(small.ids)
        if small is not None and merged and (table.has_adopted or _is_numbered_again(reader, table)):
            merged = replaced(small.replaced)
        planned.append(TableCompaction(name, flushed[table.table_id], rewritten, merged))
    return [
        compaction
        for compaction in planned
        if compaction.flushed_rows or compaction.rewritten_files or compaction.merged_files
    ]


def rewritten_files(reader: CatalogReader, own: OwnFiles) -> list[RewrittenFiles]:
    """The files that would be rewritten, of each table that has any."""
    with reader.transaction() as transaction:
        tables = _tables(transaction, own)
    return [_rewritten_files(table, files) for table in tables if (files := _rewritten(table))]


def _rewritten_files(table: _CompactedTable, files: Sequence[_CompactedFile]) -> RewrittenFiles:
    ordered = sorted(files, key=lambda file: (file.deleted / file.rows, file.size), reverse=True)
    shares = tuple((file.deleted / file.rows, file.size) for file in ordered)
    return RewrittenFiles(table.schema, table.name, shares, tuple(file.file_id for file in ordered))


def all_tables(reader: CatalogReader) -> list[tuple[str, str]]:
    """The schema and the name of each table."""
    with reader.transaction() as transaction:
        return [(schema, name) for _, schema, name in transaction.rows(_TABLES)]


def tables_with_deletes(
    reader: CatalogReader, is_chosen: Callable[[str, str], bool] = lambda *_: True
) -> set[tuple[str, str]]:
    """The schema and the name of each chosen table with live files from which the catalog itself deletes rows.

    After DuckLake has written such a file again, a flush would write these deletes as a file for the former one, and
    older snapshots would have other rows.
    """
    with reader.transaction() as transaction:
        newest = transaction.newest()
        return {
            (schema, name)
            for table_id, schema, name in transaction.rows(_TABLES)
            if is_chosen(schema, name) and inlined_deletes(transaction, table_id, newest)
        }


def tables_with_adopted(reader: CatalogReader, own: OwnFiles) -> set[tuple[str, str]]:
    """The schema and the name of each table with files that the lake does not own: DuckLake would rewrite them."""
    with reader.transaction() as transaction:
        return {(table.schema, table.name) for table in _tables(transaction, own) if table.has_adopted}


def merges(reader: CatalogReader, own: OwnFiles) -> Merges:
    """The small files of the lake, and the tables that DuckLake must not merge."""
    with reader.transaction() as transaction:
        tables = _tables(transaction, own)
    left = [table for table in tables if table.has_adopted or _is_divided(table) or _is_numbered_again(reader, table)]
    names = {(table.schema, table.name) for table in left}
    return Merges(tuple(filter(None, map(_small_files, tables))), names | tables_with_deletes(reader))


def small_files(reader: CatalogReader, own: OwnFiles, schema: str, name: str) -> SmallFiles | None:
    """The small files of a table; None if there is nothing to merge."""
    with reader.transaction() as transaction:
        tables = _tables(transaction, own)
    return next((_small_files(table) for table in tables if (table.schema, table.name) == (schema, name)), None)


def _small_files(table: _CompactedTable) -> SmallFiles | None:
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


def _tables(transaction: MetadataTransaction, own: OwnFiles) -> list[_CompactedTable]:
    options, files, adopted = _options(transaction), *_files(transaction, own)
    is_sorted = {table_id for (table_id,) in transaction.rows(_SORTED)}
    tables = []
    for table_id, schema, name in transaction.rows(_TABLES):
        target = _target(options, table_id)
        limit = options.get((table_id, "rewrite_delete_threshold")) or options.get((None, "rewrite_delete_threshold"))
        threshold = _DELETE_THRESHOLD if limit is None else float(limit)
        tables.append(
            _CompactedTable(
                table_id, schema, name, target, threshold, files[table_id], table_id in is_sorted, table_id in adopted
            )
        )
    return tables


def _rewritten(table: _CompactedTable) -> list[_CompactedFile]:
    return [file for file in table.files if file.deleted > 0 and file.deleted >= table.threshold * file.rows]


def _is_divided(table: _CompactedTable) -> bool:
    """True if files that DuckLake merges are in several folders: it then fails, and closes the database."""
    return len({(file.group, file.folder) for file in table.files}) > len({file.group for file in table.files})


def _is_numbered_again(reader: CatalogReader, table: _CompactedTable) -> bool:
    """True if DuckLake's merge could give rows other row ids, which can be those of other rows.

    It sorts the rows of a sorted table, and forgets the ids that files contain, such as those of updated rows, if the
    ranges in the catalog follow each other. In a file of flushed rows, the range is not even that of its ids.
    """
    small = {file.file_id for group in _groups(table) for file in group}
    if table.is_sorted or not small:
        return table.is_sorted
    with reader.transaction() as transaction:
        if _has_all_ids(transaction, table):
            return False
        newest = transaction.newest()
        info = find_table(transaction, qualified(table.schema, table.name), newest)
        files = load_data_files(transaction, info, newest, sorted(small))
    if any(file.encryption_key is not None for file in files):
        return True  # DuckDB reads their footers only with their keys
    paths = [file.path for file in files]
    parts = (paths[start : start + _FOOTERS] for start in range(0, len(paths), _FOOTERS))
    try:
        return any(files_with(reader.connection, part, INTERNAL_ROW_ID.name) for part in parts)
    except (StorageError, QueryError):
        return True  # a file is missing or damaged


def _has_all_ids(transaction: MetadataTransaction, table: _CompactedTable) -> bool:
    """True if the ranges of the files are all ids that the table has ever had: then, no file contains other ids."""
    following = 0
    for file in sorted(table.files, key=lambda file: file.row_id_start or 0):
        if file.row_id_start != following or file.deleted:
            return False
        following += file.rows
    rows = transaction.rows(_NEXT_ROW_ID, [table.table_id])
    return rows == [(following,)] and not _inlined(transaction, table.table_id)


def _groups(table: _CompactedTable) -> list[list[_CompactedFile]]:
    """The small files that share a group with another small file."""
    groups: dict[tuple[object, ...], list[_CompactedFile]] = defaultdict(list)
    for file in table.files:
        if not file.deleted and file.size < table.target:
            groups[file.group].append(file)
    return [group for group in groups.values() if len(group) > 1]


def _files(transaction: MetadataTransaction, own: OwnFiles) -> tuple[dict[int, list[_CompactedFile]], set[int]]:
    """The live files of each table that the lake owns, and the tables that have others too."""
    deleted = dict(transaction.rows(_DELETED))
    partitions: dict[int, list[object]] = defaultdict(list)
    for file_id, index, value in transaction.rows(_PARTITIONS):
        partitions[file_id].append((index, value))
    files: dict[int, list[_CompactedFile]] = defaultdict(list)
    adopted = set()
    for table_id, file_id, rows, size, version, partition_id, path, start, is_relative in transaction.rows(_FILES):
        if not (is_relative or path in own):
            adopted.add(table_id)
            continue
        group = (version, partition_id, *partitions[file_id])
        folder = "" if partition_id is None else path.rpartition("/")[0]
        files[table_id].append(_CompactedFile(file_id, rows, size, group, deleted.get(file_id, 0), folder, start))
    return files, adopted


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
