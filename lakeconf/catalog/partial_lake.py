"""A lake in memory with one table that consists of some files of a plan.

DuckDB reads these files as it reads them in the lake of the plan, without access to the lake's catalog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakeconf.catalog.data_file import DataFile, NameMapping
from lakeconf.catalog.pruning.scan_plan import ScanPlan
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import inlined_deletes_table, metadata_database
from lakeconf.errors import UnsupportedError
from lakeconf.sql import identifier, literal

# A LIMIT through which DuckDB pushes no filter.
ALL = 2**63 - 1
_TABLE_ID = 1
_ROWS_PER_INSERT = 1000
_INLINED_DELETES = "(file_id BIGINT, row_id BIGINT, begin_snapshot BIGINT)"
_Rows = Sequence[Sequence[object]]


def attach_partial_lake(connection: Connection, alias: str, plan: ScanPlan) -> str:
    """Attaches a new lake in memory with the table and the files of a plan.

    The lake has no statistics, so DuckDB must not see a filter on its table: put a LIMIT in between.
    """
    keys = any(file.encryption_key is not None for file in plan.files)
    options = f"DATA_PATH '/'{', ENCRYPTED true' * keys}"
    connection.execute(f"ATTACH 'ducklake::memory:' AS {identifier(alias)} ({options})")
    metadata = identifier(metadata_database(alias))
    connection.execute("BEGIN")
    connection.execute(f"DELETE FROM {metadata}.ducklake_snapshot")  # noqa: S608 - a quoted name
    connection.execute(f"CREATE TABLE {metadata}.{inlined_deletes_table(_TABLE_ID)} {_INLINED_DELETES}")
    for table, rows in _contents(plan):
        for start in range(0, len(rows), _ROWS_PER_INSERT):
            values = ", ".join(f"({', '.join(map(_value, row))})" for row in rows[start : start + _ROWS_PER_INSERT])
            connection.execute(f"INSERT INTO {metadata}.{table} VALUES {values}")  # noqa: S608 - values are literals
    connection.execute("COMMIT")
    connection.execute(f"SET TimeZone = {literal(plan.time_zone)}")
    return f"{identifier(alias)}.main.rows AT (VERSION => {plan.snapshot_id})"


def name_in_lake(column: Column) -> str:
    """The name of a column of the table; none hides a virtual column of DuckLake, such as `rowid`."""
    return f"c{column.field_id}"


def refuse_encrypted(plan: ScanPlan) -> None:
    """Rejects a plan with encrypted files: their keys would be a part of what describes the files."""
    for file in plan.files:
        if file.encryption_key is not None or (file.delete_file and file.delete_file.encryption_key is not None):
            raise UnsupportedError(
                f"the files of {plan.table.full_name} are encrypted, and a plan of Spark must not contain their keys",
                hint="read the table with DuckDB, store.open(), or with lake.table(…).scan() on a classic session",
            )


def _contents(plan: ScanPlan) -> Iterator[tuple[str, _Rows]]:
    """The rows of each table of the catalog, in the order of its columns."""
    now, files = plan.snapshot_id, plan.files
    total = sum(file.record_count for file in files)
    last = max((file.data_file_id for file in files), default=0)
    yield "ducklake_snapshot", [(now, _NOW, 1, _TABLE_ID + 1, 2 * last + 2)]
    yield "ducklake_table", [(_TABLE_ID, _UUID, 0, None, 0, "rows", "rows/", True)]
    yield "ducklake_schema_versions", [(0, 1, _TABLE_ID)]
    yield "ducklake_column", list(_columns(plan.table.columns, None))
    yield "ducklake_table_stats", [(_TABLE_ID, total, 0, sum(file.file_size_bytes for file in files))]
    yield "ducklake_data_file", [_data_file(file, now) for file in files]
    deletes = [(file, file.delete_file) for file in files if file.delete_file is not None]
    yield (
        "ducklake_delete_file",
        [
            (last + 1 + number, _TABLE_ID, file.begin_snapshot, None, file.data_file_id, deleted.path, False,
             deleted.format, deleted.delete_count, deleted.file_size_bytes, None, deleted.encryption_key, None)
            for number, (file, deleted) in enumerate(deletes)
        ],
    )  # fmt: skip
    positions = [
        (file.data_file_id, position, file.begin_snapshot) for file in files for position in file.inlined_deletes
    ]
    yield inlined_deletes_table(_TABLE_ID), positions
    used = {file.mapping_id for file in files}
    mappings = {number: mapping for number, mapping in plan.name_mappings.items() if number in used}
    yield "ducklake_column_mapping", [(number, _TABLE_ID, "map_by_name") for number in mappings]
    yield "ducklake_name_mapping", [row for number, mapping in mappings.items() for row in _mapped(number, mapping)]


class _Sql(str):
    """A string that is SQL already."""

    __slots__ = ()


_NOW = _Sql("now()")
_UUID = _Sql("uuid()")


def _value(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | _Sql):
        return str(value)
    return literal(str(value))


def _columns(columns: Sequence[Column], parent: int | None) -> Iterator[Sequence[object]]:
    for order, column in enumerate(columns, 1):
        name = name_in_lake(column) if parent is None else column.name
        yield (
            column.field_id, 0, None, _TABLE_ID, order, name, column.type, column.initial_default, "NULL", True,
            parent, "literal", "duckdb",
        )  # fmt: skip
        yield from _columns(column.children, column.field_id)


def _data_file(file: DataFile, now: int) -> Sequence[object]:
    # Only a file with rows of later snapshots needs a filter.
    partial_max = None if file.snapshot_filter is None else now + 1
    return (
        file.data_file_id, _TABLE_ID, file.begin_snapshot, None, None, file.path, False, "parquet", file.record_count,
        file.file_size_bytes, None, file.row_id_start, None, file.encryption_key, file.mapping_id, partial_max,
    )  # fmt: skip


def _mapped(
    number: int, mappings: Sequence[NameMapping], parent: int | None = None, first: int = 0
) -> list[Sequence[object]]:
    """The rows of a name mapping; each has an id that is unique within the mapping."""
    rows: list[Sequence[object]] = []
    for mapping in mappings:
        at = first + len(rows)
        rows.append((number, at, mapping.source_name, mapping.field_id, parent, mapping.in_path))
        rows += _mapped(number, mapping.children, at, at + 1)
    return rows
