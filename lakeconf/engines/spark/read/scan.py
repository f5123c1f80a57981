"""Runs a scan plan with Spark's Parquet reader."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import Column
from lakeconf.ducklake import INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID
from lakeconf.engines.base import ROW_ID
from lakeconf.engines.spark.internals import Columns, active_session_kept, rebind
from lakeconf.engines.spark.read.bitmap import bitmap_condition
from lakeconf.engines.spark.read.column_reader import FIELD_ID, Reading, missing, quoted, reading, requested
from lakeconf.engines.spark.read.columns import IN_PATH, Found, is_reserved
from lakeconf.engines.spark.read.defaults import default_sql
from lakeconf.engines.spark.read.deletes import ROW, row_number, without_deleted
from lakeconf.engines.spark.read.fallback import fallback_frame
from lakeconf.engines.spark.read.file_columns import (
    BEGIN,
    FILE,
    FILENAME,
    ROW_ID_START,
    path_value,
    with_constants,
)
from lakeconf.engines.spark.read.groups import Group, groups
from lakeconf.engines.spark.read.guards import check_types, file_number
from lakeconf.engines.spark.read.inlined import inlined_frame
from lakeconf.engines.spark.read.relation import relation
from lakeconf.engines.spark.session import private_session, without_pushdown
from lakeconf.engines.spark.types import spark_schema
from lakeconf.errors import UnsupportedError

# Columns that a scan with row ids adds besides ROW_ID and FILENAME; FILE_ROW_NUMBER is NULL for inlined rows.
SNAPSHOT_ID = "__lakeconf_snapshot_id"
FILE_ROW_NUMBER = "__lakeconf_file_row_number"
# Each column with its SQL for inlined rows.
_VIRTUAL = (
    (StructField(ROW_ID, LongType()), INTERNAL_ROW_ID.name),
    (StructField(SNAPSHOT_ID, LongType()), INTERNAL_SNAPSHOT_ID.name),
    (StructField(FILENAME, StringType()), "CAST(NULL AS VARCHAR)"),
    (StructField(FILE_ROW_NUMBER, LongType()), "CAST(NULL AS BIGINT)"),
)
# Columns that DuckLake adds to files whose rows have several snapshots or their own row ids.
_STORED_ROW_ID = StructField("__lakeconf_stored_row_id", LongType(), metadata={FIELD_ID: INTERNAL_ROW_ID.field_id})
_STORED_SNAPSHOT = StructField(
    "__lakeconf_stored_snapshot", LongType(), metadata={FIELD_ID: INTERNAL_SNAPSHOT_ID.field_id}
)


def read(spark: SparkSession, plan: ScanPlan, inlined: pa.Table | None, *, row_ids: bool = False) -> DataFrame:
    """The rows of a plan as a frame of the user's session. Reads no rows yet.

    Args:
        spark: The user's session; its settings neither change nor affect the result.
        plan: What to read.
        inlined: The rows in the catalog, as `catalog.scan.inlined_rows` returns them; None if there are none.
        row_ids: True to add `ROW_ID`, `SNAPSHOT_ID`, `FILENAME` and `FILE_ROW_NUMBER`.

    Returns:
        A frame with exactly the plan's columns, and the added columns.

    Raises:
        StorageError: A file is missing, or differs from the one in the catalog.
        UnsupportedError: A column or a file cannot be read exactly.
        SparkError: The session uses Spark Connect.
    """
    reserved = [column.name for column in plan.columns if row_ids and is_reserved(column.name)]
    if reserved:
        raise UnsupportedError(
            f"the column {reserved[0]!r} has a name that lakeconf reserves for the ids of rows",
            hint="rename the column, or use DuckDB: store.open()",
        )
    private = private_session(spark)
    virtual = _VIRTUAL if row_ids else ()
    schema = StructType([*spark_schema(plan.columns).fields, *(field for field, _ in virtual)])
    with active_session_kept(spark):
        parts = [_frame(private, plan, group, row_ids=row_ids) for group in groups(private, plan)]
        if inlined is not None and inlined.num_rows:
            parts.append(inlined_frame(private, plan.columns, inlined, virtual))
        if not parts:
            parts.append(private.createDataFrame([], schema))
        check_types(private, parts, schema)
        return rebind(reduce(DataFrame.unionAll, parts), spark)


def _frame(private: SparkSession, plan: ScanPlan, group: Group, *, row_ids: bool) -> DataFrame:
    """The rows of one group of files."""
    if group.by_duckdb:
        return fallback_frame(private, plan, group, [field for field, _ in _VIRTUAL] if row_ids else [])
    readings = [_reading(column, place) for column, place in zip(plan.columns, group.places, strict=True)]
    has_internal = not group.is_mapped and (row_ids or group.snapshot_filter is not None)
    fields = _schema(plan.columns, group, readings)
    if has_internal:
        fields += [_STORED_ROW_ID, _STORED_SNAPSHOT]
    reader = private if group.can_filter else without_pushdown(private)
    rows = relation(reader, group.files, StructType(fields))
    frame = _with_positions(private, plan, group, rows, row_ids=row_ids)
    if has_internal and group.snapshot_filter is not None:
        frame = frame.where(F.col(_STORED_SNAPSHOT.name) <= group.snapshot_filter)
    if row_ids:
        frame = _with_row_ids(frame, has_stored=has_internal)
    columns = _columns(private, plan.columns, group, readings)
    return frame.select(*columns, *([field.name for field, _ in _VIRTUAL] if row_ids else []))


def _reading(column: Column, place: Found | None) -> Reading | None:
    return None if place is None or place == IN_PATH else reading(column, place)


def _schema(columns: Sequence[Column], group: Group, readings: Sequence[Reading | None]) -> list[StructField]:
    """The schema requested from Spark's reader."""
    fields = []
    for column, place, how in zip(columns, group.places, readings, strict=True):
        if place is None or how is None:
            continue
        absent = group.is_assumed and column.initial_default is not None
        fields.append(requested(place, how.type, default=default_sql(column) if absent else None))
    return fields


def _columns(
    private: SparkSession, columns: Sequence[Column], group: Group, readings: Sequence[Reading | None]
) -> list[SparkColumn]:
    """The columns of the plan, in their Spark types, with their names and without metadata."""
    made = Columns(private)
    values: list[SparkColumn] = []
    for column, place, how in zip(columns, group.places, readings, strict=True):
        value = missing(column) if place is None else made.named(quoted(place.name if how else path_value(column)))
        if how is not None and how.convert is not None:
            value = how.convert(value)
        values.append(made.renamed(value, column.name))
    return values


def _with_positions(
    private: SparkSession, plan: ScanPlan, group: Group, rows: DataFrame, *, row_ids: bool
) -> DataFrame:
    """The rows that are not deleted, with the columns that identify them."""
    in_path = [column for column, place in zip(plan.columns, group.places, strict=True) if place == IN_PATH]
    is_there = bitmap_condition(private, group.files, plan.snapshot_id) if group.has_deletes else None
    is_joined = group.has_deletes and is_there is None
    # Spark provides `_metadata` only below the first join.
    added = {}
    if is_joined:
        added[ROW] = row_number(private, len(group.files))
    if row_ids:
        added[FILE_ROW_NUMBER] = F.col("_metadata.row_index")
    if row_ids or in_path:
        added[FILE] = file_number()
    frame = rows if is_there is None else rows.where(is_there)
    frame = frame.withColumns(added) if added else frame
    if FILE in added:
        frame = with_constants(private, frame, plan, group.files, in_path)
    return without_deleted(private, frame, group.files, plan.snapshot_id) if is_joined else frame


def _with_row_ids(frame: DataFrame, *, has_stored: bool) -> DataFrame:
    row_id, snapshot = F.col(ROW_ID_START) + F.col(FILE_ROW_NUMBER), F.col(BEGIN)
    if has_stored:
        row_id = F.coalesce(F.col(_STORED_ROW_ID.name), row_id)
        snapshot = F.coalesce(F.col(_STORED_SNAPSHOT.name), snapshot)
    return frame.withColumns({ROW_ID: row_id, SNAPSHOT_ID: snapshot})
