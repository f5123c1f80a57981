"""Files that a staged commit adds: rows of merges, positions of deleted rows, and sorted rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from typing import Any, NamedTuple

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import NullType, StructField, StructType

from lakeconf.catalog.column_types import Fact, all_types, has, has_throughout
from lakeconf.catalog.file_footers import ColumnStatistics, Footer, read_footers
from lakeconf.catalog.sort_keys import SortKey
from lakeconf.catalog.tables import Column
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.engine import (
    FILE_ID,
    FILE_ROW_NUMBER,
    ROW_ID,
    PositionFiles,
    Staged,
    StagingRequest,
    staging_folder,
)
from lakeconf.engines.sorted_files import SortedFiles, SortRequest
from lakeconf.engines.spark.internals import active_session_kept, rebind
from lakeconf.engines.spark.read.column_reader import FIELD_ID, quoted
from lakeconf.engines.spark.read.file_index import relation
from lakeconf.engines.spark.sessions import private_session
from lakeconf.engines.spark.spark_types import is_shared, spark_type
from lakeconf.engines.spark.write.files import placed, staged_source, writing_session, written_value
from lakeconf.engines.spark.write.storage import LakeStorage, in_order, run_job, without_placeholders
from lakeconf.errors import SparkError
from lakeconf.sql import folded


def conformed(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Selects these columns of a table from a frame and casts them to the types of the table's scan."""
    rebound = rebind(frame, writing_session(frame.sparkSession))
    by_name = {folded(name): name for name in frame.columns}
    values = [_value(rebound, by_name[folded(column.name)], column) for column in columns]
    return rebind(rebound.select(*values), frame.sparkSession)


def stage_rows(storage: LakeStorage, frame: DataFrame, request: StagingRequest) -> Staged:
    """Writes a frame to a staging folder below the table's folder. Its files are read once and never registered."""
    with storage.removed_after_errors(request):
        checked = _checked(rebind(frame, writing_session(frame.sparkSession)))
        files = storage.write(checked, request, temporary=True)
        source = staged_source(storage.writer, list(files), request.types)
        rows = _read(storage.spark, list(starmap(_File, files.items())), checked)
    folder = staging_folder(request.table, request.token)
    return Staged(source, files=tuple(files), folder=folder, keeps_files=False, rows=rows)


def staged_frame(spark: SparkSession, staged: Staged, condition: str, columns: Sequence[str]) -> DataFrame:
    """The rows of staged files that satisfy a condition, as a frame of the user's session."""
    with active_session_kept(spark):
        return rebind(staged.rows.where(condition).select(*map(quoted, columns)), spark)


class _File(NamedTuple):
    path: str
    file_size_bytes: int


def _read(spark: SparkSession, files: Sequence[_File | Footer], written: DataFrame) -> DataFrame:
    """The rows of files as which Spark has written a frame; a job fails if a file is missing."""
    # By their names only: the columns of a user's frame may have the same field id.
    schema = StructType([StructField(field.name, field.dataType) for field in written.schema])
    with active_session_kept(spark):
        return relation(private_session(spark), files, schema)


def _checked(rows: DataFrame) -> DataFrame:
    """The rows, with a type for every column; a text that DuckLake would replace fails the job."""
    columns = []
    for field in rows.schema.fields:
        column = F.col(quoted(field.name))
        column = column.cast("string") if isinstance(field.dataType, NullType) else column
        columns.append(without_placeholders(column, field.dataType, field.name).alias(field.name))
    return rows.select(*columns)


def _value(frame: DataFrame, name: str, column: Column) -> SparkColumn:
    value = F.col(quoted(name))
    if is_shared(column):
        wanted = spark_type(column)
        value = in_order(value, frame.schema[name].dataType, wanted).cast(wanted)
    return value.alias(column.name)


_FOLDER = re.compile(rf"/{FILE_ID}=(\d+)/[^/]*$")


def sort_positions(storage: LakeStorage, rows: DataFrame, request: StagingRequest) -> PositionFiles:
    """Writes the positions of rows to a staging folder; see `SparkOperations.sort_positions`."""
    private = writing_session(storage.spark)
    # A task must write all positions of its data files, each in one file.
    private.conf.set("spark.sql.adaptive.enabled", "false")
    tasks = 2 * storage.spark.sparkContext.defaultParallelism
    ordered = rebind(rows, private).repartition(tasks, FILE_ID).sortWithinPartitions(FILE_ID, FILE_ROW_NUMBER)
    with storage.removed_after_errors(request):
        paths: dict[int, str] = {}
        written = storage.write(ordered, request, by=[FILE_ID], temporary=True)
        for path in written:
            found = _FOLDER.search(path)
            # A task without rows writes a file too, outside these folders.
            if found is not None and paths.setdefault(int(found[1]), path) != path:
                raise SparkError(f"Spark divided the deleted positions of one data file of {request.table.full_name}")
    folder = staging_folder(request.table, request.token)
    staged = Staged("", tuple(written), folder=folder, announced=False, row_count=0, keeps_files=False)
    return PositionFiles(staged, paths)


_FILE = "__lakeconf_file"


def is_writable(columns: Sequence[Column]) -> bool:
    """True if Spark writes the files of a table with these columns like DuckLake, and their bounds are known."""
    # Not lists and maps: Spark writes no field ids for their elements.
    return all(
        has_throughout(column, Fact.AS_SPARK, ("struct",)) and "blob" not in all_types(column) for column in columns
    )


def stage_sorted(storage: LakeStorage, frame: DataFrame, request: SortRequest) -> SortedFiles:
    """Writes the rows of a request."""
    table = request.table
    staging = StagingRequest(table, {}, request.token)
    rebound = rebind(frame, writing_session(frame.sparkSession))
    columns = [written_value(rebound, column.name, column, table) for column in table.columns]
    columns.append(F.col(ROW_ID).alias(INTERNAL_ROW_ID.name, metadata={FIELD_ID: INTERNAL_ROW_ID.field_id}))
    order = [_order(key) for key in request.keys]
    # Executors sort one range of rows each; a range is a file.
    rows = rebound.select(*columns).repartitionByRange(request.file_count, *order).sortWithinPartitions(*order)
    with storage.removed_after_errors(staging):
        written = list(storage.write(rows, staging))
        footers = [footer for footer in read_footers(storage.writer, written, table.columns) if footer.row_count]
        footers = _with_bounds(storage, footers, request, rows)
        paths = request.paths([footer.path.rpartition("/")[2] for footer in footers])
        targets = dict(zip([footer.path for footer in footers], paths, strict=True))
        if request.group.partition_id is not None:
            folders = {path: (request.group.folder or "").removeprefix(table.path) for path in targets}
            with placed(storage, folders, staging) as moved:
                targets = moved
        footers = [replace(footer, path=targets[footer.path]) for footer in footers]
        staged = Staged("", tuple(targets.values()), folder=request.folder, row_count=0)
        return SortedFiles(staged, tuple(footers))


def _order(key: SortKey) -> SparkColumn:
    column = F.col(quoted(key.column))
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def _with_bounds(
    storage: LakeStorage, footers: Sequence[Footer], request: SortRequest, rows: DataFrame
) -> list[Footer]:
    """Adds the bounds that footers do not have: DuckLake takes a table without bounds for one without values."""
    wanted = dict(_scanned(request.table.columns))
    if not wanted or not footers:
        return list(footers)
    found = _bounds(storage, _read(storage.spark, footers, rows), wanted, request.token)
    return [
        replace(
            footer,
            statistics=tuple(
                _bounded(one, wanted[one.field_id][1], found[footer.path.rpartition("/")[2]])
                if one.field_id in wanted
                else one
                for one in footer.statistics
            ),
        )
        for footer in footers
    ]


def _scanned(columns: Sequence[Column], parent: str = "") -> Iterator[tuple[int, tuple[str, Column]]]:
    """The columns whose bounds are not in a footer, by field id, with their paths in a frame."""
    for column in columns:
        path = f"{parent}{quoted(column.name)}"
        if not column.children and not has(column.type, Fact.IN_FOOTERS):
            yield column.field_id, (path, column)
        yield from _scanned(column.children, f"{path}.")


def _bounds(
    storage: LakeStorage, read: DataFrame, wanted: Mapping[int, tuple[str, Column]], token: str
) -> dict[str, dict[str, Any]]:
    """The bounds of each file, by its name: a job that reads these columns only."""
    values: list[SparkColumn] = []
    for field_id, (path, column) in wanted.items():
        value = F.col(path)
        is_flag = column.type == "boolean"
        number = value.cast("int") if is_flag else F.when(~F.isnan(value), value)
        values += [F.min(number).alias(f"low{field_id}"), F.max(number).alias(f"high{field_id}")]
        values += [] if is_flag else [F.max(F.isnan(value)).alias(f"nan{field_id}")]
    rows: list[Any] = []
    with active_session_kept(storage.spark):
        # The name of a file has no character that is escaped in a URI.
        name = F.element_at(F.split(F.input_file_name(), "/"), -1).alias(_FILE)
        grouped = read.groupBy(name).agg(*values)
        run_job(storage.spark, lambda: rows.extend(grouped.collect()), token)
    return {row[_FILE]: row.asDict() for row in rows}


def _bounded(statistics: ColumnStatistics, column: Column, found: Mapping[str, Any]) -> ColumnStatistics:
    low, high = found[f"low{column.field_id}"], found[f"high{column.field_id}"]
    contains_nan = None if column.type == "boolean" else bool(found[f"nan{column.field_id}"])
    if low is None or high is None:
        return replace(statistics, contains_nan=contains_nan)
    return replace(statistics, low=repr(low), high=repr(high), contains_nan=contains_nan)
