"""Files of partitioned tables: Spark writes files with one partition each, and they are moved to DuckLake's folders.

Spark only separates the rows of different partitions. DuckDB computes the partition values from the statistics in the
files' footers, so a registered file has the values that DuckDB itself would record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.catalog.partition_folders import NULL_VALUE, FolderKey
from lakeconf.catalog.types import duckdb_name
from lakeconf.connection.connection import Connection
from lakeconf.engines.base import StagingRequest
from lakeconf.engines.schema_check import RESERVED
from lakeconf.engines.spark.hadoop import spark_uri
from lakeconf.engines.spark.internals import move_file
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.write.storage import LakeStorage, remove_folder
from lakeconf.engines.staging import placed_path
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
    """Adds a column for each key that separates its values, and distributes the rows by these columns.

    Args:
        frame: A frame of a private session, whose settings change.
        keys: The partition keys.
    """
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

    Args:
        writer: A connection that can access the files.
        paths: The files, each with rows of one partition.
        keys: The partition keys.

    Returns:
        The folders by path, without files that must not be registered: those whose statistics do not prove their
        partition, and those whose value would be read as NULL or is too long for a folder.
    """
    if not paths:
        return {}
    listed = ", ".join(map(literal, paths))
    parts = " UNION ALL ".join(_values_sql(index, key) for index, key in enumerate(keys))
    return dict(
        writer.rows(f"""
            WITH chunk AS MATERIALIZED (
                SELECT file_name, path_in_schema, stats_min_value AS low, stats_max_value AS high,
                    stats_null_count AS nulls, num_values AS row_count
                FROM parquet_metadata([{listed}])
            ), part AS (
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
        # DuckDB shows bytes that are no text in this form. Reading the rows, it refuses them.
        is_certain += rf" AND NOT contains({low}, '\x') AND NOT contains({low}, chr(0))"
    name = f"url_encode({literal(key.name)})"
    value = f"CASE WHEN nulls = row_count THEN {literal(NULL_VALUE)} WHEN {is_certain} THEN url_encode({low}) END"
    return f"""
        SELECT file_name, {number} AS number,
            CASE WHEN length(folder) <= {_LONGEST_NAME} THEN folder || '/' END AS part
        FROM (
            SELECT file_name, {name} || '=' || {value} AS folder
            FROM chunk WHERE encode(path_in_schema) = encode({literal(key.column.name)})
        )"""


@contextmanager
def placed(storage: LakeStorage, found: Mapping[str, str], request: StagingRequest) -> Iterator[dict[str, str]]:
    """Moves staged files to their folders, and removes them if the block raises.

    Args:
        storage: The storage of the files.
        found: The folder of each file, as `folders` returns them.
        request: The table and the token, which name the moved files.

    Returns:
        The new path of each file.

    Raises:
        StorageError: A file cannot be moved.
    """
    moved = {
        path: placed_path(request.table, found[path], request.token, number)
        for number, path in enumerate(sorted(found))
    }
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda pair: _move(storage, *pair), moved.items()))
        yield moved
    except BaseException:
        for target in moved.values():
            remove_folder(storage.spark, target)
        raise


def _move(storage: LakeStorage, source: str, target: str) -> None:
    if not move_file(storage.spark, spark_uri(source), spark_uri(target)):
        raise StorageError(f"Spark cannot move a staged file to {target}")
