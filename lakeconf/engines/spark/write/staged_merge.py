"""Stages the per-row actions of a merge or an update for the commit."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import NullType

from lakeconf.catalog.table import Column
from lakeconf.engines.base import Staged, StagingRequest
from lakeconf.engines.spark.hadoop import spark_paths
from lakeconf.engines.spark.internals import active_session_kept, rebind
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.session import private_session
from lakeconf.engines.spark.types import is_shared, spark_type
from lakeconf.engines.spark.write.files import (
    staged_source,
    writing_session,
)
from lakeconf.engines.spark.write.placeholders import without_placeholders
from lakeconf.engines.spark.write.storage import LakeStorage
from lakeconf.engines.spark.write.struct_fields import in_order
from lakeconf.engines.staging import staging_folder
from lakeconf.sql import folded


def conformed(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Selects these columns of a table from a frame and casts them to the types of the table's scan."""
    rebound = rebind(frame, writing_session(frame.sparkSession))
    by_name = {folded(name): name for name in frame.columns}
    values = [_value(rebound, by_name[folded(column.name)], column) for column in columns]
    return rebind(rebound.select(*values), frame.sparkSession)


def stage_rows(storage: LakeStorage, frame: DataFrame, request: StagingRequest) -> Staged:
    """Writes a frame to a staging folder below the table's folder. Its files are read once and never registered.

    Args:
        storage: The storage of the files.
        frame: The frame.
        request: The table that the rows are about, with the columns of the frame and the types that DuckDB casts them
            to.

    Raises:
        SparkError: The job failed.
        UnsupportedError: The lake's files are encrypted, or Spark does not support their compression.
    """
    with storage.removed_after_errors(request):
        checked = _checked(rebind(frame, writing_session(frame.sparkSession)))
        files = storage.write(checked, request, temporary=True)
        source = staged_source(storage.writer, files, request.types)
    folder = staging_folder(request.table, request.token)
    return Staged(source, files=tuple(files), folder=folder, keeps_files=False)


def staged_frame(spark: SparkSession, staged: Staged, condition: str, columns: Sequence[str]) -> DataFrame:
    """The rows of staged files that satisfy a condition, as a frame of the user's session."""
    private = private_session(spark)
    with active_session_kept(spark):
        read = private.read.parquet(*spark_paths(staged.files)).where(condition)
        return rebind(read.select(*map(quoted, columns)), spark)


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
