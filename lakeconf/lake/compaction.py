"""Plans a compaction from the catalog; nothing is changed and no data file is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from lakeconf.catalog.lost_bounds import lost_bounds
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.table import TableInfo
from lakeconf.catalog.table_name import joined_name
from lakeconf.ducklake import inlined_deletes_table
from lakeconf.sql import identifier

# The defaults of the extension: https://ducklake.select/docs/stable/duckdb/usage/configuration
_TARGET_BYTES = 512 * 10**6
_DELETE_THRESHOLD = 0.95
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_TABLES = """
    SELECT t.table_id, s.schema_name, t.table_name FROM ducklake_table AS t
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    WHERE t.end_snapshot IS NULL ORDER BY s.schema_name, t.table_name
"""
_FILES = """
    SELECT f.table_id, f.data_file_id, f.record_count, f.file_size_bytes, max(v.schema_version), f.partition_id
    FROM ducklake_data_file AS f LEFT JOIN ducklake_schema_versions AS v
      ON v.table_id = f.table_id AND v.begin_snapshot <= f.begin_snapshot
    WHERE f.end_snapshot IS NULL
    GROUP BY f.table_id, f.data_file_id, f.record_count, f.file_size_bytes, f.partition_id
"""
_DELETED = """
    SELECT data_file_id, max(delete_count) FROM ducklake_delete_file WHERE end_snapshot IS NULL GROUP BY data_file_id
"""
_PARTITIONS = """
    SELECT data_file_id, partition_key_index, partition_value FROM ducklake_file_partition_value
    ORDER BY data_file_id, partition_key_index
"""


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
            (self.flushed_rows, "write {:,} row{} of the catalog to files"),
            (self.rewritten_files, "rewrite {:,} file{} with deleted rows"),
            (self.merged_files, "merge {:,} small file{}"),
        )
        done = (text.format(count, "" if count == 1 else "s") for count, text in steps if count)
        return f"{self.table}: {', '.join(done)}"


@dataclass(frozen=True)
class _File:
    file_id: int
    rows: int
    size: int
    group: tuple[object, ...]
    deleted: int


@dataclass(frozen=True)
class _Table:
    table_id: int
    schema: str
    name: str
    target: int
    threshold: float
    files: list[_File]


@dataclass(frozen=True)
class RewrittenFiles:
    """The files of a table with so many deleted rows that they would be rewritten.

    Attributes:
        schema: The table's schema.
        name: The table's name.
        files: The share of deleted rows and the size in bytes of each file; the largest share first.
    """

    schema: str
    name: str
    files: tuple[tuple[float, int], ...]

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
    """

    schema: str
    name: str
    sizes: tuple[int, ...]
    groups: int
    largest: int
    target: int

    @property
    def saved(self) -> int:
        """The number of files by which the table has fewer files after the merge."""
        return len(self.sizes) - self.groups


def plan_compaction(reader: CatalogReader) -> list[TableCompaction]:
    """The tables that a compaction would change, selected by DuckLake's rules, sorted by name.

    Files that a flush would create, and that could then be merged, are not counted.

    Args:
        reader: Reads the catalog.
    """
    lost = lost_bounds(reader)
    with reader.transaction() as transaction:
        found = _tables(transaction)
        flushed = {table.table_id: _inlined(transaction, table.table_id) for table in found}
    planned = [
        TableCompaction(
            joined_name(table.schema, table.name),
            flushed[table.table_id],
            0 if (table.schema, table.name) in lost else len(_rewritten(table)),
            sum(map(len, _groups(table))),
        )
        for table in found
    ]
    return [one for one in planned if one.flushed_rows or one.rewritten_files or one.merged_files]


def rewritten_files(reader: CatalogReader) -> list[RewrittenFiles]:
    """The files that would be rewritten, of each table that has any."""
    with reader.transaction() as transaction:
        tables = _tables(transaction)
    found = []
    for table in tables:
        files = sorted(((file.deleted / file.rows, file.size) for file in _rewritten(table)), reverse=True)
        if files:
            found.append(RewrittenFiles(table.schema, table.name, tuple(files)))
    return found


def all_tables(reader: CatalogReader) -> list[tuple[str, str]]:
    """The schema and the name of each table."""
    with reader.transaction() as transaction:
        return [(schema, name) for _, schema, name in transaction.rows(_TABLES)]


def small_files(reader: CatalogReader) -> list[SmallFiles]:
    """The small files of each table that has any to merge.

    Args:
        reader: Reads the catalog.
    """
    with reader.transaction() as transaction:
        tables = _tables(transaction)
    found = []
    for table in tables:
        groups = _groups(table)
        if groups:
            sizes = tuple(sorted(file.size for group in groups for file in group))
            largest = max(map(len, groups))
            found.append(SmallFiles(table.schema, table.name, sizes, len(groups), largest, table.target))
    return found


def target_file_size(reader: CatalogReader, table: TableInfo) -> int:
    """The size in bytes that files of a table should have.

    Args:
        reader: Reads the catalog.
        table: The table.
    """
    with reader.transaction() as transaction:
        return max(_target(_options(transaction), table.table_id), 1)


def _target(options: Mapping[tuple[int | None, str], str], table_id: int) -> int:
    return _bytes(options.get((table_id, "target_file_size")) or options.get((None, "target_file_size")))


def _tables(transaction: MetadataTransaction) -> list[_Table]:
    options, files = _options(transaction), _files(transaction)
    found = []
    for table_id, schema, name in transaction.rows(_TABLES):
        target = _target(options, table_id)
        limit = options.get((table_id, "rewrite_delete_threshold")) or options.get((None, "rewrite_delete_threshold"))
        threshold = _DELETE_THRESHOLD if limit is None else float(limit)
        found.append(_Table(table_id, schema, name, target, threshold, files[table_id]))
    return found


def _rewritten(table: _Table) -> list[_File]:
    return [file for file in table.files if file.deleted > 0 and file.deleted >= table.threshold * file.rows]


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
    for table_id, file_id, rows, size, version, partition_id in transaction.rows(_FILES):
        group = (version, partition_id, *partitions[file_id])
        files[table_id].append(_File(file_id, rows, size, group, deleted.get(file_id, 0)))
    return files


def _options(transaction: MetadataTransaction) -> dict[tuple[int | None, str], str]:
    query = "SELECT scope, scope_id, key, value FROM ducklake_metadata WHERE scope IS NULL OR scope = 'table'"
    return {
        (None if scope is None else int(scope_id), key): value
        for scope, scope_id, key, value in transaction.rows(query)
    }


def _inlined(transaction: MetadataTransaction, table_id: int) -> int:
    query = "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?"
    count = 0
    for (name,) in transaction.rows(query, [table_id]):
        ((rows,),) = transaction.rows(f"SELECT count(*) FROM {identifier(name)} WHERE end_snapshot IS NULL")
        count += rows
    deletes = inlined_deletes_table(table_id)
    if transaction.has_table(deletes):
        ((rows,),) = transaction.rows(f"SELECT count(*) FROM {identifier(deletes)}")
        count += rows
    return count


def _bytes(text: str | None) -> int:
    """Parses a size from the catalog: a number, optionally with a unit, such as `512MB`."""
    if text is None:
        return _TARGET_BYTES
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text[len(digits) :].strip().lower()
    return int(float(digits) * _UNITS.get(unit or "b", 1)) if digits else _TARGET_BYTES
