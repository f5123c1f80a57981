"""Files of partitioned tables: Spark writes files with one partition each, and they are moved to DuckLake's folders.

Spark only separates the rows of different partitions. DuckDB computes the partition values from the statistics in the
files' footers, so a registered file has the values that DuckDB itself would record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.catalog.column_types import duckdb_name
from lakeconf.catalog.data_file import NULL_VALUE, FolderKey
from lakeconf.catalog.file_footers import are_text_sql, chunks_sql, is_path_sql
from lakeconf.connection.connection import Connection
from lakeconf.engines.engine import StagingRequest
from lakeconf.engines.file_names import placed_path
from lakeconf.engines.schema_check import RESERVED
from lakeconf.engines.spark.hadoop import spark_uri
from lakeconf.engines.spark.internals import move_file
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.write.storage import LakeStorage, remove_folder
from lakeconf.errors import StorageError
from lakeconf.sql import literal

# With these settings, Spark splits a large partition among several tasks.
_SPLITS = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled")
GROUP = f"{RESERVED}group_"
# The longest name of a folder in common file systems.
_LONGEST_NAME = 255
# Moves that run at the same time: in a bucket, each waits for the server.
_THREADS = 16


def grouped(frame: DataFrame, keys: Sequence[FolderKey]) -> DataFrame:
    """Adds a column for each key that separates its values, and distributes the rows by these columns."""
    for setting in _SPLITS:
        frame.sparkSession.conf.set(setting, "true")
    groups = {f"{GROUP}{index}": _group(key) for index, key in enumerate(keys)}
    return frame.withColumns(groups).hint("rebalance", *groups)


def _group(key: FolderKey) -> SparkColumn:
    value = F.col(quoted(key.column.name))
    if key.transform == "identity":
        # If two values have the same hash, the footers of their file show it.
        return F.xxhash64(value)
    parts = {"year": F.year, "month": F.month, "day": F.dayofmonth, "hour": F.hour}
    return parts[key.transform](value)


def folders(writer: Connection, paths: Sequence[str], keys: Sequence[FolderKey]) -> dict[str, str]:
    """The folder of each file below the folder of its table, as DuckLake names it, with a trailing slash.

    Leaves out files that must not be registered: those whose statistics do not prove their partition, and those whose
    value would be read as NULL or is too long for a folder.
    """
    if not paths:
        return {}
    parts = " UNION ALL ".join(_values_sql(index, key) for index, key in enumerate(keys))
    return dict(
        writer.rows(f"""
            WITH chunk AS MATERIALIZED ({chunks_sql(paths)}), part AS (
                SELECT file_name, number, any_value(part) AS part FROM ({parts}) GROUP BY file_name, number
                HAVING count(part) = count(*) AND count(DISTINCT encode(part)) = 1
            )
            SELECT file_name, string_agg(part, '' ORDER BY number) FROM part
            GROUP BY file_name HAVING count(*) = {len(keys)}""")
    )


def _values_sql(number: int, key: FolderKey) -> str:
    """The query for the part of the path of each row group, such as `day=2024-01-01/`; NULL if it is not certain."""
    type_name = duckdb_name(key.column.type)
    low, high = (f"TRY_CAST({bound} AS {type_name})" for bound in ("low", "high"))
    if key.transform != "identity":
        low, high = f"{key.transform}({low})", f"{key.transform}({high})"
    low, high = f"CAST({low} AS VARCHAR)", f"CAST({high} AS VARCHAR)"
    if key.column.type == "timestamptz":
        # DuckDB writes these bounds and DuckLake its folders in UTC; a cast uses the time zone of the session, without
        # the seconds of its offset.
        low, high = "low", "high"
    is_certain = f"nulls = 0 AND encode({low}) = encode({high})"
    if key.column.type == "varchar":
        is_certain += f" AND encode(upper({low})) <> encode('NULL') AND encode({low}) <> encode({literal(NULL_VALUE)})"
        is_certain += f" AND {are_text_sql(low)}"
    name = f"url_encode({literal(key.name)})"
    value = f"CASE WHEN nulls = row_count THEN {literal(NULL_VALUE)} WHEN {is_certain} THEN url_encode({low}) END"
    return f"""
        SELECT file_name, {number} AS number,
            CASE WHEN length(folder) <= {_LONGEST_NAME} THEN folder || '/' END AS part
        FROM (
            SELECT file_name, {name} || '=' || {value} AS folder FROM chunk WHERE {is_path_sql(key.column.name)}
        )"""


@contextmanager
def placed(storage: LakeStorage, folder_of: Mapping[str, str], request: StagingRequest) -> Iterator[dict[str, str]]:
    """Moves staged files to their folders, and removes them if the block raises."""
    moved = {
        path: placed_path(request.table, folder_of[path], request.token, number)
        for number, path in enumerate(sorted(folder_of))
    }
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda pair: _move(storage, *pair), moved.items()))
        yield moved
    except BaseException:
        with suppress(Exception):
            for target in moved.values():
                remove_folder(storage.spark, target)
        raise


def _move(storage: LakeStorage, source: str, target: str) -> None:
    if not move_file(storage.spark, spark_uri(source), spark_uri(target)):
        raise StorageError(f"Spark cannot move a staged file to {target}")
