"""Compares what Spark reads of a table with what DuckDB reads, at one snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.scan import plan_scan
from lakeconf.engines.fingerprint import ColumnCheck, Fingerprint
from lakeconf.engines.selection import full_name
from lakeconf.lake import Lake
from lakeconf.logs import escaped

_SNAPSHOT = "_ducklake_internal_snapshot_id"


@dataclass(frozen=True)
class DeletedTwice:
    """Rows of a file that both the catalog and a delete file say are deleted: DuckDB shows deleted rows again there.

    Source: https://github.com/duckdb/ducklake/issues/1215

    Attributes:
        path: The data file.
        rows: How many of its rows are deleted twice.
    """

    path: str
    rows: int


@dataclass(frozen=True)
class Verification:
    """A table as DuckDB and Spark read it.

    Attributes:
        table: The table, with its schema.
        snapshot_id: The snapshot.
        duckdb_rows: How many rows DuckDB reads.
        spark_rows: How many rows Spark reads.
        columns: The columns, in order.
        deleted_twice: Files with rows that are deleted twice, which explain more rows of DuckDB's; deletion vectors
            are not looked into.
    """

    table: str
    snapshot_id: int
    duckdb_rows: int
    spark_rows: int
    columns: tuple[ColumnCheck, ...]
    deleted_twice: tuple[DeletedTwice, ...]

    @property
    def equal(self) -> bool:
        """True where both engines read the same rows, as far as counts and hashes tell."""
        return self.duckdb_rows == self.spark_rows and all(column.equal for column in self.columns)

    def __str__(self) -> str:
        verdict = "equal" if self.equal else "DIFFERENT"
        lines = [f"{escaped(self.table)} at snapshot {self.snapshot_id}: {verdict}"]
        lines.append(_line("rows", str(self.duckdb_rows), str(self.spark_rows)))
        lines += [_column_line(column) for column in self.columns]
        lines += [
            f"  deleted twice, in the catalog and in a delete file: {found.rows} rows of {escaped(found.path)}; "
            "DuckDB shows deleted rows again (https://github.com/duckdb/ducklake/issues/1215)"
            for found in self.deleted_twice
        ]
        return "\n".join(lines)


def verify(lake: Lake, table: str) -> Verification:
    """Reads a whole table by DuckDB and by Spark, and compares counts, NULLs and order-free hashes of each column.

    DuckDB reads here, Spark in its executors; no row comes to the driver.

    Args:
        lake: A lake that was opened with a Spark session; `lake.at(…)` for an earlier snapshot.
        table: `schema.table`, or `table` for one in the schema `main`.

    Returns:
        What both read; `.equal` says whether it is the same.

    Raises:
        TableNotFoundError: There is no such table at the snapshot.
        UnsupportedError: Spark cannot read the table exactly, or the lake was opened without Spark.
    """
    state = lake._state  # noqa: SLF001 - what its tables share
    found = state.engine.check(state.reader, table, state.snapshot_id)
    plan = plan_scan(state.reader, table, state.snapshot_id, [])
    doubles = (DeletedTwice(file.path, _deleted_twice(state.reader, file, state.snapshot_id)) for file in plan.files)
    return Verification(
        table=full_name(plan.table),
        snapshot_id=state.snapshot_id,
        duckdb_rows=found.duckdb_rows,
        spark_rows=found.spark_rows,
        columns=found.columns,
        deleted_twice=tuple(double for double in doubles if double.rows),
    )


def _deleted_twice(reader: CatalogReader, file: DataFile, snapshot_id: int) -> int:
    deletes = file.delete_file
    if deletes is None or not file.inlined_deletes or deletes.format != "parquet":
        return 0
    config, parameters = "", [deletes.path]
    if deletes.encryption_key is not None:
        config = ", encryption_config = {footer_key_value: from_base64(?)}"
        parameters.append(deletes.encryption_key)
    source = f"read_parquet(?{config})"
    with reader.lake_cursor() as cursor:
        description = cursor.execute(f"SELECT * FROM {source} LIMIT 0", parameters).description  # noqa: S608
        visible = f" AND {_SNAPSHOT} <= {snapshot_id}" if _SNAPSHOT in {name for name, *_ in description} else ""
        listed = ", ".join(map(str, file.inlined_deletes))
        query = f"SELECT count(DISTINCT pos) FROM {source} WHERE pos IN ({listed}){visible}"  # noqa: S608
        ((count,),) = cursor.rows(query, parameters)
    return int(count)


def _column_line(column: ColumnCheck) -> str:
    note = "" if column.is_hashed else f"  (only counted: {column.type})"
    return _line(f"{column.name}", _words(column.duckdb), _words(column.spark)) + note


def _words(fingerprint: Fingerprint) -> str:
    return f"{fingerprint.values} values, hash {fingerprint.hash:x}"


def _line(what: str, by_duckdb: str, by_spark: str) -> str:
    if by_duckdb == by_spark:
        return f"  {escaped(what)}: {by_duckdb}"
    return f"  {escaped(what)}: DuckDB {by_duckdb} != Spark {by_spark}"
