"""Groups the files of a scan that Spark reads in the same way, and adds columns that are constant in a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from lakeconf.catalog.data_file import DataFile, NameMapping
from lakeconf.catalog.pruning.scan_plan import ScanPlan
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import connect
from lakeconf.engines.engine import FILE_ID, FILENAME
from lakeconf.engines.file_names import is_staged, is_written_name
from lakeconf.engines.spark.read.column_places import (
    IN_PATH,
    ROW_INDEX,
    STORED_NAMES,
    ColumnPlace,
    assumed,
    by_field_id,
    by_name,
    is_reserved,
    needs_footer,
)
from lakeconf.engines.spark.read.column_reader import reading
from lakeconf.engines.spark.read.file_schemas import LEGACY_CALENDAR, MILLISECONDS, Stored, footers
from lakeconf.engines.spark.read.scan_source import join_known
from lakeconf.engines.spark.spark_types import duckdb_type, is_shared, spark_type
from lakeconf.engines.spark.versions import keeps_structs, reads_file_with
from lakeconf.errors import StorageError, UnsupportedError
from lakeconf.sql import folded, identifier, spark_folded

# The join column, with the number of the file.
FILE = "__lakeconf_file"
ROW_ID_START = "__lakeconf_row_id_start"
BEGIN = "__lakeconf_begin"
_NULL_IN_PATH = "__HIVE_DEFAULT_PARTITION__"


def known_contents(plan: ScanPlan) -> dict[str, Stored]:
    """The schema of each file whose columns lakeconf wrote with the types of the plan, by its path.

    DuckLake matches registered files by name, and its name mapping has an entry for each column of a file. Only the
    columns of the plan are in the result.
    """
    if not all(is_shared(column) and not _was_promoted(column) for column in plan.columns):
        return {}
    schemas = {number: _schema(plan.columns, mappings) for number, mappings in plan.name_mappings.items()}
    return {file.path: schema for file in plan.files if (schema := _schema_of(plan, file, schemas)) is not None}


def _schema_of(plan: ScanPlan, file: DataFile, schemas: dict[int, Stored | None]) -> Stored | None:
    if file.mapping_id is None or not is_staged(plan.table, file.path):
        return None
    return schemas[file.mapping_id]


def _was_promoted(column: Column) -> bool:
    return bool(column.former_types or column.later_types) or any(map(_was_promoted, column.children))


def _schema(columns: Sequence[Column], mappings: Sequence[NameMapping]) -> Stored | None:
    fields = _fields(columns, mappings)
    return None if fields is None else Stored("", None, "struct", fields)


def _fields(columns: Sequence[Column], mappings: Sequence[NameMapping]) -> tuple[Stored, ...] | None:
    """The columns that a mapping has; None if it is not sufficient for one of them."""
    fields = []
    by_id = {mapping.field_id: mapping for mapping in mappings if not mapping.in_path}
    for column in columns:
        if column.field_id in by_id:
            mapping = by_id[column.field_id]
            children = _fields(column.children, mapping.children)
            # A field without a mapping can show whether a struct is NULL, and a list needs its element.
            needed = min(len(column.children), 1) if column.type == "struct" else len(column.children)
            if children is None or len(children) < needed:
                return None
            fields.append(Stored(mapping.source_name, None, column.type, children))
    return tuple(fields)


@dataclass(frozen=True)
class Group:
    """Files that are read in the same way."""

    places: tuple[ColumnPlace | None, ...]  # location of each column of the plan in the files; None if they lack it
    is_mapped: bool  # True if their columns are matched by name
    is_assumed: bool  # True if their footers have not been read
    by_duckdb: bool  # True if Spark's reader cannot read them, and DuckDB does
    has_deletes: bool  # True if they have deleted rows
    snapshot_filter: int | None  # as `DataFile.snapshot_filter`
    can_filter: bool = True  # False if Spark would filter row groups incorrectly
    files: tuple[DataFile, ...] = ()


def groups(private: SparkSession, plan: ScanPlan) -> list[Group]:
    """Groups the files of a plan; reads footers only if the catalog does not contain the required information."""
    contents = _contents(private, plan)
    alike: defaultdict[tuple[object, ...], list[DataFile]] = defaultdict(list)
    for file in plan.files:
        # Equal schemas are one object.
        schema = id(contents.get(file.path))
        state = (file.encryption_key is None, _has_deletes(file), _has_vector(file), file.snapshot_filter)
        alike[schema, file.mapping_id, state].append(file)
    merged: defaultdict[Group, list[DataFile]] = defaultdict(list)
    for files in alike.values():
        merged[_group(plan, files[0], contents.get(files[0].path))] += files
    return [replace(group, files=tuple(files)) for group, files in merged.items()]


def _has_deletes(file: DataFile) -> bool:
    return file.delete_file is not None or bool(file.inlined_deletes)


def _has_vector(file: DataFile) -> bool:
    """True if its deletes are in a format that Spark's Parquet reader does not read."""
    return file.delete_file is not None and file.delete_file.format != "parquet"


def _group(plan: ScanPlan, file: DataFile, content: Stored | None) -> Group:
    """The group of a file, without its files."""
    fields = None if content is None else content.children
    places = tuple(map(assumed, plan.columns)) if fields is None else _places(plan, file, fields)
    is_converted = content is not None and content.name.startswith(LEGACY_CALENDAR)
    is_read = file.encryption_key is None and not (_has_vector(file) or is_converted) and is_readable(plan, places)
    return Group(
        places=places,
        is_mapped=file.mapping_id is not None,
        is_assumed=fields is None,
        by_duckdb=not is_read,
        has_deletes=_has_deletes(file),
        snapshot_filter=file.snapshot_filter,
        can_filter=not any(place is not None and _has_milliseconds(place) for place in places),
    )


def _contents(private: SparkSession, plan: ScanPlan) -> dict[str, Stored]:
    """The schemas of the files whose columns are not all known otherwise, by path."""
    if not _has_readable_files(plan):
        return {}  # DuckDB reads all files
    look = any(needs_footer(column, keeps_structs=keeps_structs(private)) for column in plan.columns)
    contents = known_contents(plan)
    opened = [
        file
        for file in plan.files
        if (look or file.mapping_id is not None or _is_foreign(plan, file))
        and file.encryption_key is None
        and file.path not in contents
    ]
    schemas = footers(private, [(file.path, file.file_size_bytes) for file in opened]) if opened else []
    return contents | {file.path: stored for file, stored in zip(opened, schemas, strict=True)}


def _is_foreign(plan: ScanPlan, file: DataFile) -> bool:
    """True if neither DuckLake nor lakeconf names its files so: it may lack field ids, which Spark expects."""
    below = file.path.removeprefix(plan.table.path)
    return below == file.path or not is_written_name(below)


def _places(plan: ScanPlan, file: DataFile, fields: Sequence[Stored]) -> tuple[ColumnPlace | None, ...]:
    if file.mapping_id is None:
        if fields and all(field.field_id is None for field in fields):
            raise UnsupportedError(
                f"the file {file.path} has no field ids, and the catalog has no names for its columns; such files "
                "are in lakes that are older than DuckLake 0.2",
                hint="read the table with DuckDB, and write it to a new table",
            )
        return tuple(by_field_id(column, fields) for column in plan.columns)
    return mapped_places(plan, file, fields)


def mapped_places(plan: ScanPlan, file: DataFile, fields: Sequence[Stored]) -> tuple[ColumnPlace | None, ...]:
    """The location of each column of the plan in a file with a name mapping."""
    assert file.mapping_id is not None  # noqa: S101 - the caller has checked it
    mappings = plan.name_mappings[file.mapping_id]
    return tuple(by_name(column, mappings, fields) for column in plan.columns)


def _has_readable_files(plan: ScanPlan) -> bool:
    """False if Spark can read no column of some files, because of the type or the name of another one."""
    has_stored_name = any(column.name.lower() in STORED_NAMES for column in plan.table.columns)
    return reads_file_with(plan.table.types) and not has_stored_name  # the types of dropped columns count, too


def is_readable(plan: ScanPlan, places: Sequence[ColumnPlace | None]) -> bool:
    """True if Spark's reader returns what DuckDB returns for columns at these places."""
    if not _has_readable_files(plan):
        return False
    # The session that runs the scan may ignore the case of names.
    names = [spark_folded(place.name) for place in places if place is not None and place != IN_PATH]
    return len(set(names)) == len(names) and all(
        place is None
        or place == IN_PATH
        or (
            (place.field_id is not None or not is_reserved(place.name))
            and column.name.lower() != ROW_INDEX
            and reading(column, place) is not None
        )
        for column, place in zip(plan.columns, places, strict=True)
    )


def _has_milliseconds(place: ColumnPlace) -> bool:
    """True if timestamps are stored in milliseconds: Spark rounds the value of a filter down to compare it."""
    return place.type == MILLISECONDS or any(at is not None and _has_milliseconds(at) for at in place.children)


def path_value(column: Column) -> str:
    """The name of the column with the value of a Hive partition column."""
    return f"__lakeconf_path_{column.field_id}"


def with_constants(
    private: SparkSession, frame: DataFrame, plan: ScanPlan, files: Sequence[DataFile], in_path: Sequence[Column]
) -> DataFrame:
    """Adds the columns above, `FILENAME` and `FILE_ID` to a frame that has `FILE`."""
    texts = {path_value(column): [path_text(plan, file, column) for file in files] for column in in_path}
    table = pa.table(
        {
            FILE: pa.array(range(len(files)), pa.int64()),
            FILENAME: pa.array([file.path for file in files], pa.string()),
            FILE_ID: pa.array([file.data_file_id for file in files], pa.int64()),
            ROW_ID_START: pa.array([file.row_id_start for file in files], pa.int64()),
            BEGIN: pa.array([file.begin_snapshot for file in files], pa.int64()),
            **{name: pa.array(values, pa.string()) for name, values in texts.items()},
        }
    )
    # Without a schema, Spark converts a TIMESTAMP to one with a time zone.
    types: dict[str, DataType] = {FILENAME: StringType()}
    types |= {path_value(column): spark_type(column) for column in in_path}
    schema = StructType([StructField(name, types.get(name, LongType())) for name in table.column_names])
    return join_known(frame, private.createDataFrame(_cast(table, in_path), schema), FILE, BEGIN)


def _cast(table: pa.Table, in_path: Sequence[Column]) -> pa.Table:
    """Casts the strings from the paths to the types of their columns, with DuckDB."""
    if not in_path:
        return table
    # DuckDB does not validate JSON from a path.
    casts = ", ".join(
        f"CAST(CAST({identifier(path_value(column))} AS "
        f"{'VARCHAR' if column.type == 'json' else duckdb_type(column, for_spark=False)}) "
        f"AS {duckdb_type(column, for_spark=True)}) AS {identifier(path_value(column))}"
        for column in in_path
    )
    with connect() as duckdb:
        duckdb.execute("SET TimeZone = 'UTC'")
        duckdb.register("files", table)
        return duckdb.arrow(f"SELECT * REPLACE ({casts}) FROM files")


def path_text(plan: ScanPlan, file: DataFile, column: Column) -> str | None:
    """The text of a Hive partition column in the path of a file; None for NULL."""
    assert file.mapping_id is not None  # noqa: S101 - only a mapping says that a value is in the path
    mapping = next(m for m in plan.name_mappings[file.mapping_id] if m.field_id == column.field_id)
    values = _values(file.path, exact=mapping.source_name)
    if not values:
        raise StorageError(f"the path of {file.path} has no value for {column.name!r}: no folder {column.name}=…")
    # As in DuckDB, the first folder counts, and these values are NULL.
    if values[0].upper() == "NULL" or values[0] == _NULL_IN_PATH:
        return None
    if not values[0] and column.type not in ("varchar", "json"):
        return None
    try:
        return unquote(values[0], errors="strict")
    except UnicodeDecodeError:
        raise StorageError(f"the value of {column.name!r} in the path of {file.path} is not UTF-8") from None


def _values(path: str, *, exact: str) -> list[str]:
    """The raw values of a key in the folders of a path; folders with the key in another case come last."""
    folders = [part.split("=") for part in path.split("/")[:-1]]
    pairs = [(unquote(folder[0]), folder[1]) for folder in folders if len(folder) == 2]
    same = [value for key, value in pairs if key == exact]
    return same + [value for key, value in pairs if key != exact and folded(key) == folded(exact)]
