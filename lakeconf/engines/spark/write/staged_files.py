"""Files that a staged commit adds: rows of merges and positions of deleted rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import starmap
from typing import NamedTuple

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import NullType, StructField, StructType

from lakeconf.catalog.file_footers import Footer
from lakeconf.catalog.tables import Column
from lakeconf.engines.engine import FILE_ID, FILE_ROW_NUMBER, PositionFiles, Staged, StagingRequest
from lakeconf.engines.file_names import staging_folder
from lakeconf.engines.spark.internals import active_session_kept, rebind
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.read.file_index import relation
from lakeconf.engines.spark.sessions import private_session
from lakeconf.engines.spark.spark_types import is_shared, spark_type
from lakeconf.engines.spark.write.files import staged_source, writing_session
from lakeconf.engines.spark.write.storage import LakeStorage
from lakeconf.engines.spark.write.written_values import in_order, without_placeholders
from lakeconf.errors import SparkError
from lakeconf.sql import folded

_FOLDER = re.compile(rf"/{FILE_ID}=(\d+)/[^/]*$")


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
        rows = _read(storage.spark, list(starmap(_WrittenFile, files.items())), checked)
    folder = staging_folder(request.table, request.token)
    return Staged(source, files=tuple(files), folder=folder, keeps_files=False, rows=rows)


def staged_frame(spark: SparkSession, staged: Staged, condition: str, columns: Sequence[str]) -> DataFrame:
    """The rows of staged files that satisfy a condition, as a frame of the user's session."""
    with active_session_kept(spark):
        return rebind(staged.rows.where(condition).select(*map(quoted, columns)), spark)


class _WrittenFile(NamedTuple):
    path: str
    file_size_bytes: int


def _read(spark: SparkSession, files: Sequence[_WrittenFile | Footer], written: DataFrame) -> DataFrame:
    """The rows of files as which Spark has written a frame; a job fails if a file is missing."""
    # By their names only: the columns of a user's frame may have the same field id.
    schema = StructType([StructField(field.name, field.dataType) for field in written.schema])
    with active_session_kept(spark):
        return relation(private_session(spark), files, schema)


def _checked(rows: DataFrame) -> DataFrame:
    """The rows, with a type for every column; a string that DuckLake would replace fails the job."""
    columns = []
    for field in rows.schema.fields:
        column = F.col(quoted(field.name))
        column = column.cast("string") if isinstance(field.dataType, NullType) else column
        columns.append(without_placeholders(column, field.dataType, field.name).alias(field.name))
    return rows.select(*columns)


def _value(frame: DataFrame, name: str, column: Column) -> SparkColumn:
    value = F.col(quoted(name))
    if is_shared(column):
        target = spark_type(column)
        value = in_order(value, frame.schema[name].dataType, target).cast(target)
    return value.alias(column.name)


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
            match = _FOLDER.search(path)
            # A task without rows writes a file too, outside these folders.
            if match is not None and paths.setdefault(int(match[1]), path) != path:
                raise SparkError(f"Spark divided the deleted positions of one data file of {request.table.full_name}")
    folder = staging_folder(request.table, request.token)
    staged = Staged("", tuple(written), folder=folder, announced=False, row_count=0, keeps_files=False)
    return PositionFiles(staged, paths)
