"""Runs the plan of a change feed with Spark's Parquet reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StructField, StructType

from lakeconf.catalog.changes_plan import BEGIN, END, ROW_ID, ChangesPlan, Deletes
from lakeconf.catalog.data_file import DeleteFile
from lakeconf.ducklake import INTERNAL_SNAPSHOT_ID
from lakeconf.engines import engine
from lakeconf.engines.engine import FILE_ROW_NUMBER, FILENAME
from lakeconf.engines.spark.internals import active_session_kept, rebind
from lakeconf.engines.spark.read import native_scan
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.read.file_index import relation
from lakeconf.engines.spark.read.native_scan import inlined_frame
from lakeconf.engines.spark.read.parts import SNAPSHOT_ID, FileAccess
from lakeconf.engines.spark.read.scan_source import file_number, join_known
from lakeconf.engines.spark.sessions import private_session
from lakeconf.engines.spark.spark_types import spark_schema
from lakeconf.errors import UnsupportedError

_KEY = ["snapshot_id", "rowid"]
_KEY_FIELDS = [StructField(name, LongType()) for name in _KEY]
_BOTH = "__lakeconf_both"
# Columns for deleted rows: snapshot in the delete file; position, deleting snapshot, and end of the data file.
_STORED = StructField(INTERNAL_SNAPSHOT_ID.name, LongType())
_POSITION, _DELETED, _END = FILE_ROW_NUMBER, "__lakeconf_deleted", "__lakeconf_end"


def read_changes(spark: SparkSession, access: FileAccess, plan: ChangesPlan, inlined: pa.Table) -> DataFrame:
    """The changes of a plan as a frame of the user's session. Reads no rows yet."""
    private = private_session(spark)
    with active_session_kept(spark):
        inserted, deleted = _inserted(private, access, plan, inlined), _deleted(private, access, plan, inlined)
        return rebind(_typed(private, plan, inserted, deleted), spark)


def _typed(
    private: SparkSession, plan: ChangesPlan, inserted: DataFrame | None, deleted: DataFrame | None
) -> DataFrame:
    """Both kinds of changes with their types: a row deleted and inserted in one snapshot was updated."""
    names = [quoted(column.name) for column in plan.inserted.columns]
    parts = []
    for rows, others, alone, both in (
        (inserted, deleted, "insert", "update_postimage"),
        (deleted, inserted, "delete", "update_preimage"),
    ):
        if rows is None:
            continue
        kind = F.lit(alone)
        joined = rows
        if others is not None:
            joined = rows.join(others.select(_KEY).distinct().withColumn(_BOTH, F.expr("true")), _KEY, "left")
            kind = F.when(F.col(_BOTH), both).otherwise(alone)
        parts.append(joined.select(*_KEY, kind.alias("change_type"), *names))
    if parts:
        return reduce(DataFrame.unionAll, parts)
    none = private.createDataFrame([], StructType([*_KEY_FIELDS, *spark_schema(plan.inserted.columns).fields]))
    return none.select(*_KEY, F.lit("insert").alias("change_type"), *names)


def _inserted(private: SparkSession, access: FileAccess, plan: ChangesPlan, inlined: pa.Table) -> DataFrame | None:
    parts = []
    if plan.inserted.files:
        rows = native_scan.scanned(private, access, plan.inserted, None, row_ids=True)
        parts.append(_keyed(plan, rows, SNAPSHOT_ID))
    parts += _inlined(private, plan, inlined, BEGIN)
    return reduce(DataFrame.unionAll, parts) if parts else None


def _deleted(private: SparkSession, access: FileAccess, plan: ChangesPlan, inlined: pa.Table) -> DataFrame | None:
    parts = []
    if plan.deleted.files:
        rows = native_scan.scanned(private, access, plan.deleted, None, row_ids=True)
        parts.append(_keyed(plan, _with_deleted(private, rows, plan.deletes), _DELETED))
    parts += _inlined(private, plan, inlined, END)
    return reduce(DataFrame.unionAll, parts) if parts else None


def _keyed(plan: ChangesPlan, rows: DataFrame, snapshot: str) -> DataFrame:
    """The rows that changed in the range: the key of the change, followed by the table's columns."""
    changed = rows.where(F.col(snapshot).between(plan.since, plan.until))
    if plan.compactions:
        changed = changed.where(~F.col(snapshot).isin(*plan.compactions))
    key = (F.col(snapshot).alias("snapshot_id"), F.col(engine.ROW_ID).alias("rowid"))
    return changed.select(*key, *(quoted(column.name) for column in plan.inserted.columns))


def _inlined(private: SparkSession, plan: ChangesPlan, rows: pa.Table, snapshot: str) -> list[DataFrame]:
    """The inlined rows whose snapshot in a column is in the range."""
    versions = rows.column(snapshot).to_pylist()
    within = [version is not None and plan.since <= version <= plan.until for version in versions]
    chosen = rows.filter(pa.array(within, pa.bool_()))
    if not chosen.num_rows:
        return []
    frame = inlined_frame(
        private, plan.inserted.columns, chosen, list(zip(_KEY_FIELDS, (snapshot, ROW_ID), strict=True))
    )
    return [frame.select(*_KEY, *(quoted(column.name) for column in plan.inserted.columns))]


def _with_deleted(private: SparkSession, rows: DataFrame, deletes: Sequence[Deletes]) -> DataFrame:
    """The deleted rows, with the deleting snapshot in `_DELETED`."""
    positions = _positions(private, deletes)
    ends = {each.path: each.end_snapshot for each in deletes if each.end_snapshot is not None}
    if not ends:
        # The plan has files, and none of them has ended: there are positions.
        return rows if positions is None else rows.join(positions, [FILENAME, _POSITION])
    lost = pa.table({FILENAME: pa.array(list(ends), pa.string()), _END: pa.array(list(ends.values()), pa.int64())})
    frame = rows.join(F.broadcast(private.createDataFrame(lost)), FILENAME, "left")
    if positions is None:
        return frame.withColumnRenamed(_END, _DELETED)
    joined = frame.join(positions, [FILENAME, _POSITION], "left")
    # A row that was deleted before its file ended was not deleted by the end of the file.
    return joined.withColumn(_DELETED, F.least(_DELETED, _END))


def _positions(private: SparkSession, deletes: Sequence[Deletes]) -> DataFrame | None:
    """The deleted rows of the files: file, position, and the first snapshot that deleted each."""
    parts = []
    owners = {file: (each.path, begin) for each in deletes for file, begin in each.files}
    if owners:
        parts.append(_in_files(private, owners))
    in_catalog = [(each.path, *pair) for each in deletes for pair in each.inlined]
    if in_catalog:
        paths, positions, snapshots = zip(*in_catalog, strict=True)
        table = pa.table(
            {
                FILENAME: pa.array(paths, pa.string()),
                _POSITION: pa.array(positions, pa.int64()),
                _DELETED: pa.array(snapshots, pa.int64()),
            }
        )
        parts.append(private.createDataFrame(table))
    if not parts:
        return None
    return reduce(DataFrame.unionAll, parts).groupBy(FILENAME, _POSITION).agg(F.min(_DELETED).alias(_DELETED))


def _in_files(private: SparkSession, owners: Mapping[DeleteFile, tuple[str, int]]) -> DataFrame:
    """The positions in delete files; `owners` has the path of the data file and the first snapshot of each."""
    for file in owners:
        if file.encryption_key is not None:
            raise UnsupportedError(f"the delete file {file.path} is encrypted, and Spark cannot read it")
    rows = relation(private, list(owners), StructType([StructField("pos", LongType()), _STORED]))
    table = pa.table(
        {
            "file": pa.array(range(len(owners)), pa.int64()),
            FILENAME: pa.array([path for path, _ in owners.values()], pa.string()),
            "begin": pa.array([begin for _, begin in owners.values()], pa.int64()),
        }
    )
    positions = rows.select(F.col("pos").alias(_POSITION), _STORED.name, file_number().alias("file"))
    joined = join_known(positions, private.createDataFrame(table), "file", "begin")
    return joined.select(FILENAME, _POSITION, F.coalesce(_STORED.name, "begin").alias(_DELETED))
