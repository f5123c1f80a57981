"""Compares what Spark reads of a table with what DuckDB reads, at one snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.lost_deletes import lost_deletes
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.scan import plan_scan
from lakeconf.ducklake import INTERNAL_SNAPSHOT_ID
from lakeconf.engines.checksum import ColumnCheck, Fingerprint
from lakeconf.engines.schema_check import full_name
from lakeconf.errors import FileMissingError
from lakeconf.lake.lake import Lake
from lakeconf.logs import escaped


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
class WrongCount:
    """A data file that has more or fewer rows than the catalog says: it was replaced or damaged.

    Attributes:
        path: The data file.
        catalog_rows: How many rows the catalog says that the file has.
        file_rows: How many rows the file has.
    """

    path: str
    catalog_rows: int
    file_rows: int


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
        wrong_counts: Files whose number of rows is not the one that the catalog has recorded.
        lost_deletes: The number of rows that were deleted, but are visible again because another tool rewrote their
            file at the same time. Both engines read them.
    """

    table: str
    snapshot_id: int
    duckdb_rows: int
    spark_rows: int
    columns: tuple[ColumnCheck, ...]
    deleted_twice: tuple[DeletedTwice, ...]
    wrong_counts: tuple[WrongCount, ...] = ()
    lost_deletes: int = 0

    @property
    def sound(self) -> bool:
        """True if both engines read the same rows and no deleted row is visible again."""
        return self.equal and not self.lost_deletes

    @property
    def equal(self) -> bool:
        """True if both engines read the same rows, as counts and hashes tell, and no file has a wrong count."""
        same = self.duckdb_rows == self.spark_rows and all(column.equal for column in self.columns)
        return same and not self.wrong_counts

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
        lines += [
            f"  rows of a file: {found.file_rows} in {escaped(found.path)}, {found.catalog_rows} in the catalog"
            for found in self.wrong_counts
        ]
        if self.lost_deletes:
            lines.append(
                f"  deleted rows that are visible again: {self.lost_deletes}; another tool rewrote their files while "
                "they were deleted: repeat the deletes"
            )
        return "\n".join(lines)


def verify(lake: Lake, table: str) -> Verification:
    """Reads a whole table by DuckDB and by Spark, and compares counts, NULLs and order-free hashes of each column.

    DuckDB reads here, Spark in its executors; no row comes to the driver. The number of rows in each data file is
    compared with the catalog first.

    Args:
        lake: A lake that was opened with a Spark session; `lake.at(…)` for an earlier snapshot.
        table: `schema.table`, or `table` for one in the schema `main`.

    Returns:
        What both read; `.equal` says whether it is the same.

    Raises:
        TableNotFoundError: There is no such table at the snapshot.
        FileMissingError: Data files of the table do not exist; the message lists them.
        UnsupportedError: Spark cannot read the table exactly, or the lake was opened without Spark.
    """
    session, snapshot_id = lake._session, lake.snapshot_id  # noqa: SLF001 - reads by its engine
    plan = plan_scan(session.reader, table, snapshot_id, [])
    wrong_counts = _wrong_counts(session.reader, full_name(plan.table), plan.files)
    found = session.engine.check(session.reader, table, snapshot_id)
    doubles = (DeletedTwice(file.path, _deleted_twice(session.reader, file, snapshot_id)) for file in plan.files)
    return Verification(
        table=full_name(plan.table),
        snapshot_id=snapshot_id,
        duckdb_rows=found.duckdb_rows,
        spark_rows=found.spark_rows,
        columns=found.columns,
        deleted_twice=tuple(double for double in doubles if double.rows),
        wrong_counts=wrong_counts,
        lost_deletes=lost_deletes(session.reader, snapshot_id).get((plan.table.schema_name, plan.table.name), 0),
    )


def _wrong_counts(reader: CatalogReader, table: str, files: Sequence[DataFile]) -> tuple[WrongCount, ...]:
    counts: dict[str, int] = {}
    with reader.lake_cursor() as cursor:
        for file in files:
            if "://" not in file.path and not Path(file.path).exists():
                continue
            source, parameters = _source(file.path, file.encryption_key)
            with contextlib.suppress(FileMissingError):
                ((counts[file.path],),) = cursor.rows(f"SELECT count(*) FROM {source}", parameters)  # noqa: S608
    missing = [file.path for file in files if file.path not in counts]
    if missing:
        raise FileMissingError(
            f"{len(missing):,} of the {len(files):,} data files of {table} do not exist: {', '.join(missing)}",
            hint="restore them from a backup",
        )
    different = (file for file in files if counts[file.path] != file.record_count)
    return tuple(WrongCount(file.path, file.record_count, counts[file.path]) for file in different)


def _source(path: str, encryption_key: str | None) -> tuple[str, list[str]]:
    """The SQL that reads a Parquet file, and its parameters."""
    # A folder such as `env=prod` above the file is no column of it.
    if encryption_key is None:
        return "read_parquet(?, hive_partitioning = false)", [path]
    config = "encryption_config = {footer_key_value: from_base64(?)}"
    return f"read_parquet(?, hive_partitioning = false, {config})", [path, encryption_key]


def _deleted_twice(reader: CatalogReader, file: DataFile, snapshot_id: int) -> int:
    deletes = file.delete_file
    if deletes is None or not file.inlined_deletes or deletes.format != "parquet":
        return 0
    source, parameters = _source(deletes.path, deletes.encryption_key)
    with reader.lake_cursor() as cursor:
        description = cursor.execute(f"SELECT * FROM {source} LIMIT 0", parameters).description  # noqa: S608
        internal = INTERNAL_SNAPSHOT_ID.name
        visible = f" AND {internal} <= {snapshot_id}" if internal in {name for name, *_ in description} else ""
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
