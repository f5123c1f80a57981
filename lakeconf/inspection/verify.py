"""Compares the rows that Spark and DuckDB read from a table at one snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.health import lost_deletes
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import TableInfo
from lakeconf.engines.engine import spark_operations
from lakeconf.engines.fingerprints import ColumnCheck, Fingerprint
from lakeconf.errors import FileMissingError
from lakeconf.lake.lake import Lake
from lakeconf.logs import escaped
from lakeconf.sql import files_sql, folded, qualified

_DECRYPTED = "encryption_config = {footer_key_value: from_base64(?)}"


@dataclass(frozen=True)
class WrongCount:
    """A data file with a different number of rows than in the catalog: it was replaced or damaged."""

    path: str
    catalog_rows: int  # the number of rows in the catalog
    file_rows: int  # the number of rows in the file


@dataclass(frozen=True)
class Verification:
    """The result of comparing a table as read by DuckDB and by Spark."""

    table: str  # the table, with its schema
    snapshot_id: int
    duckdb_rows: int  # the number of rows that DuckDB reads
    spark_rows: int  # the number of rows that Spark reads
    columns: tuple[ColumnCheck, ...]
    wrong_counts: tuple[WrongCount, ...] = ()  # files with a different number of rows than in the catalog
    # The number of deleted rows that are visible again because another tool rewrote their file at the same time. Both
    # engines read them.
    lost_deletes: int = 0
    # The number of rows with the row id of another row, after a merge of files by DuckLake itself: their updates fail.
    repeated_ids: int = 0

    @property
    def sound(self) -> bool:
        """True if both engines read the same rows, no deleted row is visible again, and each row has its own id."""
        return self.equal and not self.lost_deletes and not self.repeated_ids

    @property
    def equal(self) -> bool:
        """True if counts and hashes of both engines are equal, and no file has a wrong number of rows."""
        same = self.duckdb_rows == self.spark_rows and all(column.equal for column in self.columns)
        return same and not self.wrong_counts

    def __str__(self) -> str:
        verdict = "equal" if self.equal else "DIFFERENT"
        lines = [f"{escaped(self.table)} at snapshot {self.snapshot_id}: {verdict}"]
        lines.append(_line("rows", str(self.duckdb_rows), str(self.spark_rows)))
        lines += [_column_line(column) for column in self.columns]
        lines += [
            f"  wrong number of rows: {count.file_rows} in {escaped(count.path)}, {count.catalog_rows} in the catalog"
            for count in self.wrong_counts
        ]
        if self.lost_deletes:
            lines.append(
                f"  deleted rows that are visible again: {self.lost_deletes}; another tool rewrote their files while "
                "they were deleted: repeat the deletes"
            )
        if self.repeated_ids:
            lines.append(
                f"  rows with the row id of another row: {self.repeated_ids}; write the table again, so that updates "
                "find its rows: table.overwrite(table.scan())"
            )
        return "\n".join(lines)


def verify(lake: Lake, table: str) -> Verification:
    """Reads a table with DuckDB and with Spark, and compares counts, NULLs and order-independent hashes per column.

    DuckDB reads in this process, Spark in its executors; Spark collects no rows. First, the number of rows in each data
    file is compared with the catalog.
    """
    session, snapshot_id = lake._session, lake.snapshot_id  # noqa: SLF001 - reads by its engine
    plan = plan_scan(session.reader, table, snapshot_id, [])
    wrong_counts = _wrong_counts(session.reader, plan.table.full_name, plan.files)
    comparison = spark_operations(session.engine, "the comparison of DuckDB and Spark").check(table, snapshot_id)
    return Verification(
        table=plan.table.full_name,
        snapshot_id=snapshot_id,
        duckdb_rows=comparison.duckdb_rows,
        spark_rows=comparison.spark_rows,
        columns=comparison.columns,
        wrong_counts=wrong_counts,
        lost_deletes=lost_deletes(session.reader, snapshot_id).get((plan.table.schema_name, plan.table.name), 0),
        repeated_ids=_repeated_ids(session.reader, plan.table, snapshot_id),
    )


def _repeated_ids(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> int:
    if any(folded(column.name) == "rowid" for column in table.columns):
        return 0  # the column hides the ids
    name = qualified(reader.alias, table.schema_name, table.name)
    query = f"SELECT count(rowid) - count(DISTINCT rowid) FROM {name} AT (VERSION => {snapshot_id})"  # noqa: S608
    ((count,),) = reader.connection.rows(query)
    return int(count)


def _wrong_counts(reader: CatalogReader, table: str, files: Sequence[DataFile]) -> tuple[WrongCount, ...]:
    counts: dict[str, int] = {}
    with reader.lake_cursor() as cursor:
        for file in files:
            if "://" not in file.path and not Path(file.path).exists():
                continue
            # An encrypted file needs its key as a parameter.
            options = [] if file.encryption_key is None else [_DECRYPTED]
            parameters = [] if file.encryption_key is None else [file.encryption_key]
            source = files_sql("read_parquet", file.path, *options)
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


def _column_line(column: ColumnCheck) -> str:
    note = "" if column.is_hashed else f"  (only counted: {column.type})"
    return _line(f"{column.name}", _words(column.duckdb), _words(column.spark)) + note


def _words(fingerprint: Fingerprint) -> str:
    return f"{fingerprint.values} values, hash {fingerprint.hash:x}"


def _line(what: str, by_duckdb: str, by_spark: str) -> str:
    if by_duckdb == by_spark:
        return f"  {escaped(what)}: {by_duckdb}"
    return f"  {escaped(what)}: DuckDB {by_duckdb} != Spark {by_spark}"
