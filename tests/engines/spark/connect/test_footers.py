"""DuckDB and Spark's Parquet library describe the schema of a file alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeconf.engines.spark.connect.source import stored_schemas
from lakeconf.engines.spark.read import file_index as module
from lakeconf.engines.spark.read.file_index import Stored, footers
from lakeconf.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_lake import Lake
    from pyspark.sql import SparkSession

VALUES = (
    "true::BOOLEAN, 1::TINYINT, 1::SMALLINT, 1::INTEGER, 1::BIGINT, 1::UTINYINT, 1::USMALLINT, 1::UINTEGER, "
    "1::UBIGINT, 1::HUGEINT, 1::FLOAT, 1::DOUBLE, 1::DECIMAL(5,2), 1::DECIMAL(30,3), 'a'::VARCHAR, '{}'::JSON, "
    "'a'::BLOB, uuid(), DATE '2024-01-01', TIME '10:00', '10:00:00+01'::TIMETZ, TIMESTAMP '2024-01-01', "
    "'2024-01-01'::TIMESTAMP_S, '2024-01-01'::TIMESTAMP_MS, '2024-01-01'::TIMESTAMP_NS, '2024-01-01'::TIMESTAMPTZ, "
    "INTERVAL 3 DAY, {'x': 1, 'y': {'z': 'a'}}, [1], [[{'x': 1}]], MAP {1: {'x': 2}}, 'a'::ENUM('a', 'b')"
)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """No footer is known."""
    monkeypatch.setattr(module, "_cache", type(module._cache)())


def both(private: SparkSession, lake: Lake, path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Stored]:
    """The schema of a file as DuckDB and as Spark's Parquet library describe it, without the name of its writer."""

    files = [(str(path), path.stat().st_size)]
    (by_duckdb,) = stored_schemas(lake.reader, files)
    monkeypatch.setattr(module, "_cache", type(module._cache)())
    (by_spark,) = footers(private, files)
    return [by_duckdb, Stored("", None, "struct", by_spark.children)]


@pytest.fixture
def private(spark: SparkSession) -> Any:
    from lakeconf.engines.spark.internals import active_session_kept
    from lakeconf.engines.spark.session import private_session

    with active_session_kept(spark):
        yield private_session(spark)


def test_types_that_duckdb_writes(
    private: SparkSession, files: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a [b]*.parquet"
    files.run(f"COPY (SELECT {VALUES}) TO '{path}' (FORMAT parquet, FIELD_IDS 'auto')")
    by_duckdb, by_spark = both(private, files, path, monkeypatch)
    assert by_duckdb == by_spark
    assert len(by_duckdb.children) == VALUES.count("::") + VALUES.count("uuid()") + 8


@pytest.mark.parametrize("int96", [False, True])
def test_types_that_arrow_writes(
    private: SparkSession, files: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, int96: bool
) -> None:
    rows = pa.table(
        {
            "naive": pa.array([1], pa.timestamp("ms")),
            "zoned": pa.array([1], pa.timestamp("ms", tz="UTC")),
            "nanos": pa.array([1], pa.timestamp("ns", tz="UTC")),
            "clock": pa.array([1], pa.time32("ms")),
            "fine": pa.array([1], pa.time64("ns")),
            "half": pa.array([1.0], pa.float16()),
            "large": pa.array(["a"], pa.large_string()),
            "fixed": pa.array([b"abc"], pa.binary(3)),
            "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(rows, path, use_deprecated_int96_timestamps=int96)
    by_duckdb, by_spark = both(private, files, path, monkeypatch)
    assert by_duckdb == by_spark


def test_footers_are_read_once(files: Lake, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    files.run(f"COPY (SELECT 1 AS a) TO '{path}'")
    known = [(str(path), 1)]
    first = stored_schemas(files.reader, known)
    path.unlink()
    assert stored_schemas(files.reader, known) == first


def test_missing_file(files: Lake, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        stored_schemas(files.reader, [(str(tmp_path / "a.parquet"), 1)])
