"""Runs a scan plan with Spark's Parquet reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from lakeconf.engines.positions import FILE_ID, FILE_ROW_NUMBER, FILENAME
from lakeconf.engines.spark.internals import active_session_kept, rebind
from lakeconf.engines.spark.read.classic_source import ClassicSource
from lakeconf.engines.spark.read.column_reader import FIELD_ID, Reading, missing, quoted, reading, requested
from lakeconf.engines.spark.read.columns import IN_PATH, Found, is_reserved
from lakeconf.engines.spark.read.defaults import default_sql
from lakeconf.engines.spark.read.deletes import ROW, row_number, without_deleted
from lakeconf.engines.spark.read.fallback import fallback_frame
from lakeconf.engines.spark.read.file_columns import (
    BEGIN,
    FILE,
    ROW_ID_START,
    path_value,
    with_constants,
)
from lakeconf.engines.spark.read.groups import Group, groups
from lakeconf.engines.spark.read.inlined import inlined_frame
from lakeconf.engines.spark.read.source import Source
from lakeconf.engines.spark.session import private_session
from lakeconf.engines.spark.types import spark_schema
from lakeconf.errors import UnsupportedError

# A column that a scan with row ids adds besides ROW_ID and those of positions.
SNAPSHOT_ID = "__lakeconf_snapshot_id"
# Each column with its SQL for inlined rows.
_VIRTUAL = (
    (StructField(ROW_ID, LongType()), INTERNAL_ROW_ID.name),
    (StructField(SNAPSHOT_ID, LongType()), INTERNAL_SNAPSHOT_ID.name),
    (StructField(FILENAME, StringType()), "CAST(NULL AS VARCHAR)"),
    (StructField(FILE_ID, LongType()), "CAST(NULL AS BIGINT)"),
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
        row_ids: True to add `ROW_ID`, `SNAPSHOT_ID`, `FILENAME`, `FILE_ID` and `FILE_ROW_NUMBER`.

    Returns:
        A frame with exactly the plan's columns, and the added columns.

    Raises:
        StorageError: A file is missing, or differs from the one in the catalog.
        UnsupportedError: A column or a file cannot be read exactly.
        SparkError: The session uses Spark Connect.
    """
    private = private_session(spark)
    with active_session_kept(spark):
        return rebind(scanned(ClassicSource(private), plan, inlined, row_ids=row_ids), spark)


def scanned(source: Source, plan: ScanPlan, inlined: pa.Table | None, *, row_ids: bool = False) -> DataFrame:
    """Like `read`, as a frame of the session that reads the files.

    Args:
        source: Reads the files.
        plan: As for `read`.
        inlined: As for `read`.
        row_ids: As for `read`.
    """
    reserved = [column.name for column in plan.columns if row_ids and is_reserved(column.name)]
    if reserved:
        raise UnsupportedError(
            f"the column {reserved[0]!r} has a name that lakeconf reserves for the ids of rows",
            hint="rename the column, or use DuckDB: store.open()",
        )
    virtual = _VIRTUAL if row_ids else ()
    schema = StructType([*spark_schema(plan.columns).fields, *(field for field, _ in virtual)])
    found = _limited(source, groups(source, plan, row_ids=row_ids), row_ids=row_ids)
    parts = [_frame(source, plan, group, row_ids=row_ids) for group in found]
    if inlined is not None and inlined.num_rows:
        parts.append(inlined_frame(source.session, plan.columns, inlined, virtual))
    if not parts:
        parts.append(source.session.createDataFrame([], schema))
    source.check_types(parts, schema)
    return reduce(DataFrame.unionAll, parts)


def _limited(source: Source, found: Sequence[Group], *, row_ids: bool) -> Iterator[Group]:
    """The groups, each with as many files as a relation may have that tells them apart."""
    for group in found:
        is_apart = row_ids or group.has_deletes or group.by_duckdb or IN_PATH in group.places
        most = source.most_files if is_apart and source.most_files is not None else len(group.files)
        for start in range(0, len(group.files), most):
            yield replace(group, files=group.files[start : start + most])


def _frame(source: Source, plan: ScanPlan, group: Group, *, row_ids: bool) -> DataFrame:
    """The rows of one group of files."""
    if group.by_duckdb:
        return fallback_frame(source, plan, group, [field for field, _ in _VIRTUAL] if row_ids else [])
    readings = [_reading(column, place) for column, place in zip(plan.columns, group.places, strict=True)]
    stored = _stored(source, group, row_ids=row_ids)
    fields = [*_schema(plan.columns, group, readings), *(field for field in stored if field is not None)]
    rows = source.relation(group.files, StructType(fields), can_filter=group.can_filter)
    frame = _with_positions(source, plan, group, rows, row_ids=row_ids)
    row_id, snapshot = (None if field is None else F.col(field.name) for field in stored)
    if snapshot is not None and group.snapshot_filter is not None:
        frame = frame.where(snapshot <= group.snapshot_filter)
    if row_ids:
        frame = _with_row_ids(frame, row_id, snapshot)
    columns = _columns(source, plan.columns, group, readings)
    return frame.select(*columns, *([field.name for field, _ in _VIRTUAL] if row_ids else []))


def _stored(source: Source, group: Group, *, row_ids: bool) -> tuple[StructField | None, StructField | None]:
    """The columns with row ids and snapshots to request; None for each that is not needed or not in the files."""
    if group.is_mapped or not (row_ids or group.snapshot_filter is not None):
        return None, None
    if not source.by_name:
        return _STORED_ROW_ID, _STORED_SNAPSHOT
    names = {place.name.lower() for place in group.places if place is not None}
    hidden = [name for name in group.internal if name is not None and name.lower() in names]
    if hidden or (group.snapshot_filter is not None and group.internal[1] is None):
        raise UnsupportedError(
            f"{group.files[0].path} does not tell which snapshot or id its rows have",
            hint="read the table with DuckDB: store.open()",
        )
    row_id, snapshot = (None if name is None else StructField(name, LongType()) for name in group.internal)
    return row_id, snapshot


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
    source: Source, columns: Sequence[Column], group: Group, readings: Sequence[Reading | None]
) -> list[SparkColumn]:
    """The columns of the plan, in their Spark types, with their names and without metadata."""
    values: list[SparkColumn] = []
    for column, place, how in zip(columns, group.places, readings, strict=True):
        value = missing(column) if place is None else source.named(quoted(place.name if how else path_value(column)))
        if how is not None and how.convert is not None:
            value = how.convert(value)
        values.append(source.renamed(value, column.name))
    return values


def _with_positions(source: Source, plan: ScanPlan, group: Group, rows: DataFrame, *, row_ids: bool) -> DataFrame:
    """The rows that are not deleted, with the columns that identify them."""
    in_path = [column for column, place in zip(plan.columns, group.places, strict=True) if place == IN_PATH]
    is_there = source.kept_rows(group.files, plan.snapshot_id) if group.has_deletes else None
    is_joined = group.has_deletes and is_there is None
    # Spark provides `_metadata` only below the first join.
    added = {}
    if is_joined:
        added[ROW] = row_number(source, group.files)
    if row_ids:
        added[FILE_ROW_NUMBER] = F.col("_metadata.row_index")
    if row_ids or in_path:
        added[FILE] = source.file_number(group.files)
    frame = rows if is_there is None else rows.where(is_there)
    frame = frame.withColumns(added) if added else frame
    if FILE in added:
        frame = with_constants(source.session, frame, plan, group.files, in_path)
    return without_deleted(source, frame, group.files, plan.snapshot_id) if is_joined else frame


def _with_row_ids(frame: DataFrame, row_id: SparkColumn | None, snapshot: SparkColumn | None) -> DataFrame:
    """The rows with their ids and snapshots, which some files contain."""
    by_place, by_file = F.col(ROW_ID_START) + F.col(FILE_ROW_NUMBER), F.col(BEGIN)
    ids = by_place if row_id is None else F.coalesce(row_id, by_place)
    return frame.withColumns({ROW_ID: ids, SNAPSHOT_ID: by_file if snapshot is None else F.coalesce(snapshot, by_file)})
