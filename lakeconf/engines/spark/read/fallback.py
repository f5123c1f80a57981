"""DuckDB SQL that reads a table's columns from one Parquet file."""

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
from lakeconf.engines.spark.read.column_reader import IN_PATH, Found
from lakeconf.engines.spark.read.executor_code import POSITION
from lakeconf.engines.spark.read.file_index import File
from lakeconf.engines.spark.read.groups import Group, path_text
from lakeconf.engines.spark.read.scan_source import Source
from lakeconf.engines.spark.types import duckdb_type, exact_cast, spark_schema
from lakeconf.errors import UnsupportedError
from lakeconf.sql import identifier, literal


def constant_sql(text: str | None, column: Column) -> str:
    """Casts a text from the catalog or from a path to the column's type."""
    # DuckDB does not validate this JSON; a cast would.
    type_ = "VARCHAR" if column.type == "json" else duckdb_type(column, for_spark=False)
    return f"CAST({'NULL' if text is None else literal(text)} AS {type_})"


def column_sql(column: Column, place: Found) -> str:
    """A column of the file, cast to its type in the table."""
    return f"CAST({_nested(identifier(place.name), column, place, 0)} AS {duckdb_type(column, for_spark=False)})"


def by_id_source(columns: Sequence[Column]) -> str:
    """The FROM clause for an encrypted file: columns are matched by field id and get their names in the table.

    Its parameters (`?`) are the file and the key.
    """
    fields = [(c.field_id, c.name, duckdb_type(c, for_spark=False), c.initial_default) for c in columns]
    fields += [(*internal, "BIGINT", None) for internal in (INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID)]
    entries = ", ".join(
        f"{field_id}: {{'name': {literal(name)}, 'type': {literal(type_)}, "
        f"'default_value': {'NULL' if default is None else literal(default)}}}"
        for field_id, name, type_, default in fields
    )
    config = "encryption_config = {footer_key_value: from_base64(?)}"
    return f"read_parquet(?, {config}, schema = MAP {{{entries}}})"


def row_id_sql(file: DataFile, stored: str | None) -> str:
    """The row id; `stored` is the column that contains it for some rows, or None."""
    position = "NULL" if file.row_id_start is None else f"{POSITION} + {file.row_id_start}"
    return f"CAST({_either(stored, position)} AS BIGINT)"


def snapshot_sql(file: DataFile, stored: str | None) -> str:
    """The snapshot of a row; `stored` is the column that contains it for some rows, or None."""
    return f"CAST({_either(stored, str(file.begin_snapshot))} AS BIGINT)"


def _either(stored: str | None, otherwise: str) -> str:
    return otherwise if stored is None else f"coalesce({identifier(stored)}, {otherwise})"


def _nested(value: str, column: Column, place: Found, depth: int) -> str:
    if column.type == "struct":
        return _struct(value, column, place, depth)
    inner = [at for at in place.children if at is not None]
    if len(inner) != len(column.children):
        return "NULL"
    item = f"item{depth}"
    if column.type == "list":
        return f"list_transform({value}, lambda {item}: {_nested(item, column.children[0], inner[0], depth + 1)})"
    if column.type == "map":
        parts = zip(("key", "value"), column.children, inner, strict=True)
        entry = ", ".join(f"{part} := {_nested(f'{item}.{part}', at, found, depth + 1)}" for part, at, found in parts)
        return f"map_from_entries(list_transform(map_entries({value}), lambda {item}: struct_pack({entry})))"
    return value


def _struct(value: str, column: Column, place: Found, depth: int) -> str:
    fields = []
    for child, at in zip(column.children, place.children, strict=True):
        if at is None:
            sql = constant_sql(child.initial_default, child)
        else:
            sql = _nested(f"struct_extract({value}, {literal(at.name)})", child, at, depth)
        fields.append(f"{identifier(child.name)} := {sql}")
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({', '.join(fields)}) END"


def fallback_frame(source: Source, plan: ScanPlan, group: Group, virtual: Sequence[StructField]) -> DataFrame:
    """The rows of a group that Spark cannot read.

    Args:
        source: Reads the bytes of the files.
        virtual: The additional columns of the frame: row id, snapshot, file name and id, and position, or none.
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
