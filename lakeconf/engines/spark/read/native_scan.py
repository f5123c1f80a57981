"""Scans with Spark's Parquet reader: frames of files and of inlined rows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StructField, StructType

from lakeconf.catalog.column_types import all_types
from lakeconf.catalog.pruning.scan_plan import ScanPlan
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import Connection, connect
from lakeconf.ducklake import INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID
from lakeconf.engines.engine import FILE_ROW_NUMBER, ROW_ID
from lakeconf.engines.spark.hadoop import spark_paths
from lakeconf.engines.spark.internals import Columns, active_session_kept, has_user_types, rebind
from lakeconf.engines.spark.read.column_places import IN_PATH, is_reserved
from lakeconf.engines.spark.read.column_reader import (
    FIELD_ID,
    Reading,
    default_sql,
    missing,
    quoted,
    reading,
    requested,
)
from lakeconf.engines.spark.read.file_index import OPTIONS, relation
from lakeconf.engines.spark.read.groups import BEGIN, FILE, ROW_ID_START, Group, groups, path_value, with_constants
from lakeconf.engines.spark.read.parts import (
    SNAPSHOT_ID,
    FileAccess,
    FilePart,
    in_executors,
    pickled,
    virtual_fields,
    with_deletes,
)
from lakeconf.engines.spark.read.scan_source import (
    ROW,
    bitmap_condition,
    check_types,
    file_number,
    of_file,
    row_number,
    without_deleted,
)
from lakeconf.engines.spark.sessions import private_session, without_pushdown
from lakeconf.engines.spark.spark_types import duckdb_schema, exact_cast, spark_schema
from lakeconf.errors import LakeconfError, QueryError, SchemaError, UnsupportedError
from lakeconf.sql import identifier, literal

# The SQL of each of `virtual_fields` for inlined rows.
_VIRTUAL_SQL = (
    INTERNAL_ROW_ID.name,
    INTERNAL_SNAPSHOT_ID.name,
    "CAST(NULL AS VARCHAR)",
    "CAST(NULL AS BIGINT)",
    "CAST(NULL AS BIGINT)",
)
# Columns that DuckLake adds to files whose rows have several snapshots or their own row ids.
_STORED_ROW_ID = StructField("__lakeconf_stored_row_id", LongType(), metadata={FIELD_ID: INTERNAL_ROW_ID.field_id})
_STORED_SNAPSHOT = StructField(
    "__lakeconf_stored_snapshot", LongType(), metadata={FIELD_ID: INTERNAL_SNAPSHOT_ID.field_id}
)
# Rows that DuckDB computes pass through the driver, whose Java has a GiB by default, and have several copies there.
MOST_COMPUTED_BYTES = 128 * 2**20
_BATCH_ROWS = 20_000
# DuckDB types that Spark's reader refuses in a failing job, or reads as other types.
_FOREIGN = re.compile(r"\b(UUID|TIME|TIMESTAMP_\w+|U\w*INT\w*|HUGEINT|INTERVAL|JSON|VARIANT|GEOMETRY|ENUM|UNION|BIT)\b")


def inlined_frame(
    private: SparkSession, columns: Sequence[Column], rows: pa.Table, virtual: Sequence[tuple[StructField, str]]
) -> DataFrame:
    """Creates a frame of inlined rows."""
    schema = StructType([*spark_schema(columns).fields, *(field for field, _ in virtual)])
    table = exact_rows(columns, rows, {field.name: sql for field, sql in virtual})
    with _refused():
        return private.createDataFrame(table, schema)


def exact_rows(
    columns: Sequence[Column],
    rows: pa.Table,
    virtual: Mapping[str, str] | None = None,
    *,
    condition: str = "true",
    time_zone: str = "UTC",
) -> pa.Table:
    """Inlined rows with the types that Spark accepts."""
    refuse_timetz(columns)
    added = virtual or {}
    if any(sql.isidentifier() and sql not in rows.column_names for sql in added.values()):
        raise UnsupportedError(
            "the catalog contains rows of the table, and a column named 'rowid' or 'snapshot_id' hides their ids",
            hint="move the rows to a file: CALL ducklake_flush_inlined_data(…)",
        )
    values = [(exact_cast(identifier(column.name), column), column.name) for column in columns]
    values += [(sql, name) for name, sql in added.items()]
    selected = ", ".join(f"{sql} AS {identifier(name)}" for sql, name in values)
    with _refused(), connect() as duckdb:
        duckdb.execute(f"SET TimeZone = {literal(time_zone)}")
        duckdb.register("inlined_rows", rows)
        return duckdb.arrow(f"SELECT {selected} FROM inlined_rows WHERE {condition}")


def refuse_timetz(columns: Sequence[Column]) -> None:
    """Rejects columns of rows in the catalog whose values lose a part on the way to Spark."""
    hint = "move the rows to a file, CALL ducklake_flush_inlined_data(…), or omit the column"
    _refuse(columns, "timetz", "TIMETZ in the catalog, whose offsets would be lost in Spark", hint)


def refuse_columns(columns: Sequence[Column]) -> None:
    """Rejects columns that cannot be passed from DuckDB to Spark."""
    hint = "omit the column with scan(columns=…) or the option columns, or read the table with DuckDB"
    _refuse(columns, "variant", "VARIANT, which DuckDB cannot pass on to Spark", hint)


def _refuse(columns: Sequence[Column], kind: str, what: str, hint: str) -> None:
    for column in columns:
        if kind in all_types(column):
            raise UnsupportedError(f"the column {column.name!r} holds {what}", hint=hint)


def computed(spark: SparkSession, connection: Connection, columns: Sequence[Column], query: str) -> DataFrame:
    """The rows of a query of DuckDB, which pass through the memory of this process."""
    rows = computed_rows(connection, columns, query)
    private = private_session(spark)
    with active_session_kept(spark), _refused("a computed row"):
        return rebind(private.createDataFrame(rows if rows.num_rows else [], spark_schema(columns)), spark)


def computed_rows(connection: Connection, columns: Sequence[Column], query: str) -> pa.Table:
    """The rows of a query of DuckDB with the types that Spark accepts."""
    refuse_columns(columns)
    values = (f"{exact_cast(identifier(column.name), column)} AS {identifier(column.name)}" for column in columns)
    batches, size = [], 0
    for batch in connection.batches(f"SELECT {', '.join(values)} FROM ({query})", _BATCH_ROWS):
        batches.append(batch)
        size += batch.nbytes
        if size > MOST_COMPUTED_BYTES:
            raise UnsupportedError(
                f"DuckDB computes more than {MOST_COMPUTED_BYTES / 2**20:,.0f} MiB for Spark",
                hint="select fewer columns and rows, or write the rows to a table with DuckDB and read that",
            )
    return pa.Table.from_batches(batches) if batches else pa.table({})


@contextlib.contextmanager
def _refused(what: str = "an inlined row") -> Iterator[None]:
    """Raises the error for a value that Spark cannot hold."""
    try:
        yield
    except (QueryError, SchemaError, PySparkException) as error:
        raise UnsupportedError(
            f"{what} has a value that Spark cannot hold: {error}", hint="read it with DuckDB"
        ) from error


def read(
    spark: SparkSession, access: FileAccess, plan: ScanPlan, inlined: pa.Table | None, *, row_ids: bool = False
) -> DataFrame:
    """The rows of a plan as a frame of the user's session. Reads no rows yet."""
    private = private_session(spark)
    with active_session_kept(spark):
        return rebind(scanned(private, access, plan, inlined, row_ids=row_ids), spark)


def scanned(
    private: SparkSession, access: FileAccess, plan: ScanPlan, inlined: pa.Table | None, *, row_ids: bool = False
) -> DataFrame:
    """Like `read`, as a frame of the session that reads the files."""
    reserved = [column.name for column in plan.columns if row_ids and is_reserved(column.name)]
    if reserved:
        raise UnsupportedError(
            f"the column {reserved[0]!r} has a name that lakeconf reserves for the ids of rows",
            hint="rename the column, or use DuckDB: store.open()",
        )
    virtual = virtual_fields() if row_ids else []
    schema = StructType([*spark_schema(plan.columns).fields, *virtual])
    parts = [
        _by_duckdb(private, access, plan, group, schema, row_ids=row_ids)
        if group.by_duckdb
        else _frame(private, plan, group, row_ids=row_ids)
        for group in groups(private, plan)
    ]
    if inlined is not None and inlined.num_rows:
        parts.append(inlined_frame(private, plan.columns, inlined, list(zip(virtual, _VIRTUAL_SQL, strict=False))))
    if not parts:
        parts.append(private.createDataFrame([], schema))
    check_types(private, parts, schema)
    return reduce(DataFrame.unionAll, parts)


def _by_duckdb(
    private: SparkSession, access: FileAccess, plan: ScanPlan, group: Group, schema: StructType, *, row_ids: bool
) -> DataFrame:
    """The rows of files that Spark cannot read."""
    refuse_columns(plan.columns)
    # The relation compares the sizes of all files with the catalog. It reads no content.
    files = with_deletes(group.files)
    rows = relation(private, files, source="binaryFile").select(of_file(private, range(len(files))).alias("file"))
    part = FilePart(access, replace(plan, files=()), row_ids)
    sent = private.sparkContext.broadcast(pickled(part, dict(enumerate(group.files)), schema))
    return in_executors(rows, sent, schema)


def _frame(private: SparkSession, plan: ScanPlan, group: Group, *, row_ids: bool) -> DataFrame:
    """The rows of one group of files."""
    readings = [
        None if place is None or place == IN_PATH else reading(column, place)
        for column, place in zip(plan.columns, group.places, strict=True)
    ]
    has_stored = not group.is_mapped and (row_ids or group.snapshot_filter is not None)
    stored = [_STORED_ROW_ID, _STORED_SNAPSHOT] if has_stored else []
    fields = [*_schema(plan.columns, group, readings), *stored]
    reader = private if group.can_filter else without_pushdown(private)
    rows = relation(reader, group.files, StructType(fields))
    frame = _with_positions(private, plan, group, rows, row_ids=row_ids)
    row_id, snapshot = (F.col(field.name) for field in stored) if has_stored else (None, None)
    if snapshot is not None and group.snapshot_filter is not None:
        frame = frame.where(snapshot <= group.snapshot_filter)
    if row_ids:
        frame = _with_row_ids(frame, row_id, snapshot)
    columns = _columns(private, plan.columns, group, readings)
    return frame.select(*columns, *([field.name for field in virtual_fields()] if row_ids else []))


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
    values: list[SparkColumn] = []
    factory = Columns(private)
    for column, place, how in zip(columns, group.places, readings, strict=True):
        value = missing(column) if place is None else factory.named(quoted(place.name if how else path_value(column)))
        if how is not None and how.convert is not None:
            value = how.convert(value)
        values.append(factory.renamed(value, column.name))
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
        added[ROW] = row_number(private, group.files)
    if row_ids:
        added[FILE_ROW_NUMBER] = F.col("_metadata.row_index")
    if row_ids or in_path:
        added[FILE] = file_number()
    frame = rows if is_there is None else rows.where(is_there)
    frame = frame.withColumns(added) if added else frame
    if FILE in added:
        frame = with_constants(private, frame, plan, group.files, in_path)
    return without_deleted(private, frame, group.files, plan.snapshot_id) if is_joined else frame


def _with_row_ids(frame: DataFrame, row_id: SparkColumn | None, snapshot: SparkColumn | None) -> DataFrame:
    """The rows with their ids and snapshots, which some files contain."""
    by_place, by_file = F.col(ROW_ID_START) + F.col(FILE_ROW_NUMBER), F.col(BEGIN)
    ids = by_place if row_id is None else F.coalesce(row_id, by_place)
    return frame.withColumns({ROW_ID: ids, SNAPSHOT_ID: by_file if snapshot is None else F.coalesce(snapshot, by_file)})


def read_files(spark: SparkSession, paths: Sequence[str], types: Mapping[str, str]) -> DataFrame | None:
    """The rows of Parquet files."""
    is_local_cluster = str(spark.sparkContext.master).startswith("local")
    if not is_local_cluster and any("://" not in path for path in paths):
        return None
    if any("=" in path for path in paths):
        return None  # Spark reads the names of folders as values of columns
    if any(_FOREIGN.search(kind.replace("WITH TIME ZONE", "")) for kind in types.values()):
        return None
    private = private_session(spark)
    with active_session_kept(spark):
        try:
            frame = private.read.options(mergeSchema="true", **OPTIONS).parquet(*spark_paths(paths))
            if has_user_types(frame):  # a file names any class that it likes
                return None
            inferred = duckdb_schema(frame)
            # Spark leaves out files that are missing while it lists them, and those whose names it ignores.
            if len(frame.inputFiles()) != len(paths):
                return None
        except (LakeconfError, PySparkException, Py4JJavaError):
            return None
        return rebind(frame.select(*map(quoted, types)), spark) if _plain(inferred) == _plain(types) else None


def _plain(types: Mapping[str, str]) -> dict[str, str]:
    """The types without the quotes that DuckDB writes around some field names."""
    return {name: kind.replace('"', "") for name, kind in types.items()}
