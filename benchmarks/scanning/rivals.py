"""Alternative ways to read a DuckLake into a Spark frame."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import lakeconf
from scanning.lakes import ALIAS, configuration

# The workers cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call, unused-ignore]
PEER = "ducklake-dataframe==1.0.0"


def duckdb_in_workers(
    spark: SparkSession, folder: Path, table: str, files: Sequence[str], schema: StructType, where: str | None = None
) -> DataFrame:
    """DuckDB reads the lake in Spark's Python workers, each a part of the data files; the caller must give the columns.

    Args:
        spark: The session.
        folder: The folder of the lake.
        table: The table.
        files: Its data files, in the form of DuckDB's `filename`.
        schema: The selected columns.
        where: The selected rows, as a DuckDB condition.
    """
    config = configuration(folder, read_only=True)
    query = f"SELECT {', '.join(schema.fieldNames())} FROM {table} WHERE filename = ? AND ({where or 'true'})"
    tasks = spark.range(0, len(files), 1, spark.sparkContext.defaultParallelism)
    return tasks.mapInArrow(_reader(config, query, list(files)), schema)


def _reader(
    config: dict[str, Any], query: str, files: list[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with lakeconf.init(config).get_store(ALIAS).connect() as con:
            con.execute("SET threads = 1")
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    path = files[number].replace("'", "''")
                    yield from con.execute(query.replace("?", f"'{path}'")).to_arrow_reader(100_000)

    return read


def peer() -> Any:
    """The module `ducklake_pyspark`, installed into a separate folder; None if it is unavailable."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "lakeconf-benchmarks" / PEER.replace("==", "-")
    if not folder.exists():
        print(f"Installing {PEER} into {folder}", file=sys.stderr)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        if subprocess.run([*pip, "--target", str(folder), PEER], check=False).returncode != 0:
            return None
    sys.path.append(str(folder))
    return import_module("ducklake_pyspark")
