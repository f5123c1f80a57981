"""Columns that are constant in a file: its name and id, its first row id, the values in its path."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import Column
from lakeconf.connection.connection import connect
from lakeconf.engines.positions import FILE_ID, FILENAME
from lakeconf.engines.spark.read.guards import join_known
from lakeconf.engines.spark.types import duckdb_type, spark_type
from lakeconf.errors import StorageError
from lakeconf.sql import folded, identifier

# The join column, with the number of the file.
FILE = "__lakeconf_file"
ROW_ID_START = "__lakeconf_row_id_start"
BEGIN = "__lakeconf_begin"
_NULL_IN_PATH = "__HIVE_DEFAULT_PARTITION__"


def path_value(column: Column) -> str:
    """The name of the column with the value of a Hive partition column."""
    return f"__lakeconf_path_{column.field_id}"


def with_constants(
    private: SparkSession,
    frame: DataFrame,
    plan: ScanPlan,
    files: Sequence[DataFile],
    in_path: Sequence[Column],
) -> DataFrame:
    """Adds the columns above, `FILENAME` and `FILE_ID` to a frame that has `FILE`.

    Args:
        private: The session of the scan.
        frame: Rows of `files`.
        plan: The plan.
        files: The files, in the order of the relation.
        in_path: The columns whose values are in the paths.
    """
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
    """Casts the texts from the paths to the types of their columns, with DuckDB."""
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
