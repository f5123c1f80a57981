"""Reads files with DuckDB inside the executors if Spark's reader cannot read them as DuckDB does.

Spark fetches their bytes, so DuckDB needs no access to the storage. Keys are sent in a broadcast, not in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructField, StructType

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import Column
from lakeconf.catalog.types import all_types
from lakeconf.ducklake import INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID
from lakeconf.engines.spark.read import executor_code
from lakeconf.engines.spark.read.columns import IN_PATH, Found
from lakeconf.engines.spark.read.file_columns import path_text
from lakeconf.engines.spark.read.groups import Group
from lakeconf.engines.spark.read.projection import (
    by_id_source,
    column_sql,
    constant_sql,
    row_id_sql,
    snapshot_sql,
)
from lakeconf.engines.spark.read.relation import File
from lakeconf.engines.spark.read.source import Source
from lakeconf.engines.spark.types import exact_cast, spark_schema
from lakeconf.errors import UnsupportedError
from lakeconf.sql import identifier, literal


def fallback_frame(source: Source, plan: ScanPlan, group: Group, virtual: Sequence[StructField]) -> DataFrame:
    """The rows of a group that Spark cannot read.

    Args:
        source: Reads the bytes of the files.
        plan: The plan.
        group: Files of the plan.
        virtual: The additional columns of the frame: row id, snapshot, file name and id, and position, or none.

    Raises:
        StorageError: A file is missing, or differs from the one in the catalog.
        UnsupportedError: DuckDB cannot return a column to Spark either.
    """
    _refuse(plan.columns, group)
    tasks = [_task(plan, group, file, [field.name for field in virtual]) for file in group.files]
    contents = _contents(source, group.files, "content").withColumnRenamed("owner", "task")
    deletes = {index: file.delete_file for index, file in enumerate(group.files) if file.delete_file}
    if deletes:
        listed = _contents(source, list(deletes.values()), "deletes", list(deletes))
        contents = contents.join(F.broadcast(listed), F.col("task") == F.col("owner"), "left").drop("owner")
    else:
        contents = contents.withColumn("deletes", F.lit(None).cast("binary"))
    schema = StructType([*spark_schema(plan.columns).fields, *virtual])
    shared = source.shared(tasks)
    return contents.select("task", "content", "deletes").mapInArrow(executor_code.reader_of(shared), schema)


def _refuse(columns: Sequence[Column], group: Group) -> None:
    for column in columns:
        if "variant" in all_types(column):
            raise UnsupportedError(
                f"the column {column.name!r} holds VARIANT in a file that only DuckDB can read: {group.files[0].path}",
                hint="omit the column with scan(columns=…), or read it with DuckDB",
            )
        if group.files[0].encryption_key is not None and not all(map(_is_plain, column.children)):
            raise UnsupportedError(
                f"fields in the column {column.name!r} were renamed, dropped or given a default, and its encrypted "
                "files do not record this",
                hint="omit the column with scan(columns=…), or read it with DuckDB",
            )


def _is_plain(column: Column) -> bool:
    return column.name_is_unique and column.initial_default is None and all(map(_is_plain, column.children))


def _contents(source: Source, files: Sequence[File], name: str, owners: Sequence[int] | None = None) -> DataFrame:
    """The bytes of some files in the column `name`, and their numbers in the column `owner`."""
    numbers = source.of_file(files, range(len(files)) if owners is None else owners)
    contents = source.relation(files, format_name="binaryFile")
    return contents.select(F.col("content").alias(name), numbers.alias("owner"))


def _task(plan: ScanPlan, group: Group, file: DataFile, virtual: Sequence[str]) -> executor_code.Task:
    if file.encryption_key is None:
        reading = "read_parquet(?)"
        columns = [_column(plan, file, column, at) for column, at in zip(plan.columns, group.places, strict=True)]
        row_id, snapshot = group.internal
    else:
        reading = by_id_source(plan.columns)
        columns = [identifier(column.name) for column in plan.columns]
        row_id, snapshot = INTERNAL_ROW_ID.name, INTERNAL_SNAPSHOT_ID.name
    casts = [exact_cast(sql, column) for sql, column in zip(columns, plan.columns, strict=True)]
    ids = [row_id_sql(file, row_id), snapshot_sql(file, snapshot)]
    added = [*ids, literal(file.path), f"{file.data_file_id}::BIGINT", executor_code.POSITION]
    names = [*(column.name for column in plan.columns), *virtual]
    selected = [f"{sql} AS {identifier(name)}" for sql, name in zip([*casts, *added], names, strict=False)]
    deletes = file.delete_file
    return executor_code.Task(
        path=file.path,
        select=", ".join(selected),
        source=reading,
        conditions=() if file.snapshot_filter is None else (f"{INTERNAL_SNAPSHOT_ID.name} <= {file.snapshot_filter}",),
        time_zone=plan.time_zone,
        snapshot_id=plan.snapshot_id,
        deleted=file.inlined_deletes,
        delete_format=None if deletes is None else deletes.format,
        key=file.encryption_key,
        delete_key=None if deletes is None else deletes.encryption_key,
    )


def _column(plan: ScanPlan, file: DataFile, column: Column, place: Found | None) -> str:
    if place is None:
        return constant_sql(column.initial_default, column)
    if place == IN_PATH:
        return constant_sql(path_text(plan, file, column), column)
    return column_sql(column, place)
