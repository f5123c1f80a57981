"""Reads a table of a lake with Spark and with DuckDB, and returns the differences."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from comparisons import count, way_of
from local_stores import store_of
from strength import PROVE

from lakeconf.backends.access import Access
from lakeconf.catalog.pruning.scan_plan import plan_with_inlined_rows
from lakeconf.engines.engine import FILE_ROW_NUMBER, FILENAME, ROW_ID
from lakeconf.engines.spark.connect.source import read as read_over_connect
from lakeconf.engines.spark.read.native_scan import read
from lakeconf.engines.spark.read.parts import SNAPSHOT_ID
from lakeconf.engines.spark.spark_types import duckdb_type
from lakeconf.errors import TableNotFoundError
from lakeconf.sql import identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from catalog_lake import AttachedLake
    from pyspark.sql import DataFrame, SparkSession

    from lakeconf.catalog.pruning.scan_plan import ScanPlan
    from lakeconf.catalog.tables import Column

VIRTUAL = {
    "rowid": ROW_ID,
    "snapshot_id": SNAPSHOT_ID,
    "CASE WHEN filename LIKE '%/%' THEN filename END": FILENAME,
    "CASE WHEN filename LIKE '%/%' THEN file_row_number END": FILE_ROW_NUMBER,
}


def scan(
    spark: SparkSession,
    lake: AttachedLake,
    table: str,
    version: int | None = None,
    columns: Sequence[str] | None = None,
    *,
    row_ids: bool = False,
) -> DataFrame:
    """A table as Spark reads it."""
    plan, inlined = plan_with_inlined_rows(lake.reader, table, lake.newest if version is None else version, columns)
    return planned_frame(spark, lake, plan, inlined, row_ids=row_ids)


def planned_frame(
    spark: SparkSession, lake: AttachedLake, plan: ScanPlan, inlined: pa.Table, *, row_ids: bool = False
) -> DataFrame:
    """The rows of a plan, through a classic session or one of Spark Connect."""
    if hasattr(spark, "sparkContext"):
        return read(spark, access_to(lake), plan, inlined, row_ids=row_ids)
    return read_over_connect(spark, access_to(lake), plan, inlined)


def access_to(lake: AttachedLake) -> Access:
    """How executors reach the files of a lake in a local folder."""
    return Access.of(store_of(lake.folder))


def assert_alike(
    spark: SparkSession, lake: AttachedLake, table: str, *, row_ids: bool = True, newest: int | None = None
) -> None:
    """Compares the rows of a table, and their ids, at every snapshot; `newest` limits their number without `prove`."""
    compared_versions = 0
    for version in reversed(lake.versions()):
        if (planned := _planned(lake, table, version)) is None:
            continue
        if newest is not None and not PROVE and compared_versions == newest:
            break
        differ = _differences(spark, lake, planned, version, row_ids=row_ids)
        assert not differ, f"{table} at version {version}: {differ}"
        compared_versions += 1
    assert compared_versions


def exists(lake: AttachedLake, table: str, version: int) -> bool:
    return _planned(lake, table, version) is not None


def differences(
    spark: SparkSession, lake: AttachedLake, table: str, version: int, *, row_ids: bool = True
) -> dict[str, list[tuple[str | None, ...]]]:
    """Rows that only Spark or only DuckDB returns, as text; empty if they agree. Both read the whole table."""
    planned = plan_with_inlined_rows(lake.reader, table, version)
    return _differences(spark, lake, planned, version, row_ids=row_ids)


def _planned(lake: AttachedLake, table: str, version: int) -> tuple[ScanPlan, pa.Table] | None:
    """The plan of a table and its inlined rows; None if it did not exist at this snapshot."""
    try:
        return plan_with_inlined_rows(lake.reader, table, version)
    except TableNotFoundError:
        return None


def _differences(
    spark: SparkSession, lake: AttachedLake, planned: tuple[ScanPlan, pa.Table], version: int, *, row_ids: bool
) -> dict[str, list[tuple[str | None, ...]]]:
    plan, inlined = planned
    row_ids = row_ids and hasattr(spark, "sparkContext")  # scans over Spark Connect have none
    frame = planned_frame(spark, lake, plan, inlined, row_ids=row_ids)
    source = f"lake.{identifier(plan.table.schema_name)}.{identifier(plan.table.name)} AT (VERSION => {version})"
    return compared(lake, plan.columns, frame, source, VIRTUAL if row_ids else {})


def compared(
    lake: AttachedLake,
    columns: Sequence[Column],
    frame: DataFrame,
    source: str,
    virtual: Mapping[str, str],
    way: str | None = None,
) -> dict[str, list[tuple[str | None, ...]]]:
    """Rows that only Spark's frame or only DuckDB's source has, as text; `virtual` maps SQL to further column names."""
    expected = [*(_text(column) for column in columns), *(f"CAST({sql} AS VARCHAR)" for sql in virtual)]
    given = [
        f"CAST({identifier(name)} AS VARCHAR)" for name in (*(column.name for column in columns), *virtual.values())
    ]
    with lake.reader.lake_cursor() as cursor:
        cursor.register("by_spark", _arrow(frame))
        by_duckdb = Counter(cursor.rows(f"SELECT {', '.join(expected)} FROM {source}"))
        by_spark = Counter(cursor.rows(f"SELECT {', '.join(given)} FROM by_spark"))
    only = {"only Spark": by_spark - by_duckdb, "only DuckDB": by_duckdb - by_spark}
    count(way or way_of(frame.sparkSession), "equal" if by_spark == by_duckdb else "wrong")
    return {who: list(rows.elements())[:5] for who, rows in only.items() if rows}


def _arrow(frame: DataFrame) -> object:
    # Arrow has no variant type; both sides are compared as JSON.
    variants = [field.name for field in frame.schema if field.dataType.typeName() == "variant"]
    if not variants:
        # The session may treat names as case-insensitive, so selecting columns by name could be ambiguous.
        return frame.toArrow()
    return frame.selectExpr(
        *(
            f"to_json(`{name}`) AS `{name}`" if name in variants else f"`{name.replace('`', '``')}`"
            for name in frame.columns
        )
    ).toArrow()


def _text(column: Column) -> str:
    name = identifier(column.name)
    if column.type == "variant":
        return f"CASE WHEN {name} IS NOT NULL THEN CAST(CAST({name} AS JSON) AS VARCHAR) END"
    if column.type == "geometry":
        return f"CAST(ST_AsWKB({name}) AS VARCHAR)"
    return f"CAST(CAST({name} AS {duckdb_type(column, for_spark=True)}) AS VARCHAR)"
