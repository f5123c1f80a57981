"""Footers of Parquet files as fields with DuckLake's types."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jvm_calls import counted_calls

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.engines.spark.read import file_index as module
from lakeconf.engines.spark.read.file_index import MILLISECONDS, Stored, footers
from lakeconf.engines.spark.sessions import private_session
from lakeconf.engines.spark.versions import reads_file_with
from lakeconf.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_lake import Lake
    from pyspark.sql import SparkSession


TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT"),
    *("FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,0)", "VARCHAR", "JSON", "BLOB", "UUID", "DATE", "TIME", "TIMETZ"),
    *("TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ", "INTERVAL"),
    *(("GEOMETRY", "VARIANT") if reads_file_with(["variant"]) else ()),
)


def normal(stored: Stored) -> Stored:
    """`decimal(5, 2)` and `decimal(5,2)` are the same type."""
    return Stored(stored.name, stored.field_id, stored.type.replace(" ", ""), stored.children)


def read(spark: SparkSession, *paths: Path | str) -> list[Stored]:
    return footers(private_session(spark), [(str(path), Path(path).stat().st_size) for path in paths])


def test_types_that_ducklake_writes(spark: SparkSession, files: Lake) -> None:
    files.run(f"CREATE TABLE lake.t ({', '.join(f'c{number} {name}' for number, name in enumerate(TYPES))})")
    values = {"VARIANT": "1::VARIANT", "GEOMETRY": "'POINT(1 2)'::GEOMETRY"}
    files.run(f"INSERT INTO lake.t SELECT {', '.join(values.get(name, 'NULL') for name in TYPES)}")
    plan = plan_scan(files.reader, "t", files.newest)
    (found,) = read(spark, plan.files[0].path)
    assert (found.field_id, found.type) == (None, "struct")
    assert found.name.startswith("DuckDB version")
    fields = [normal(field) for field in found.children]
    in_files = {"int128": "float64"}
    expected = [(one.name, one.field_id, in_files.get(one.type, one.type.replace(" ", ""))) for one in plan.columns]
    assert [(field.name, field.field_id, field.type) for field in fields] == expected
    assert all(field.children == () for field in fields)


def test_types_of_other_writers(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        MILLISECONDS: pa.array([0], pa.timestamp("ms", "UTC")),
        "timestamp_ms": pa.array([0], pa.timestamp("ms")),
        "FIXED_LEN_BYTE_ARRAY": pa.array([b"abc"], pa.binary(3)),
        "INT32 TIME(MILLIS,false)": pa.array([0], pa.time32("ms")),
        "blob": pa.array([b"a"], pa.binary()),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    (found,) = read(spark, path)
    assert found.name.startswith("parquet-cpp-arrow")
    assert {field.name: (field.type, field.field_id) for field in found.children} == {
        name: (name, None) for name in columns
    }
    pq.write_table(pa.table({"x": pa.array([0], pa.timestamp("ns"))}), path, use_deprecated_int96_timestamps=True)
    assert read(spark, path)[0].children == (Stored("x", None, "INT96"),)


def test_lists_of_old_writers_are_no_lists(spark: SparkSession, tmp_path: Path) -> None:
    """Spark returns such a list in another way than DuckDB."""
    path = tmp_path / "a.parquet"
    metadata = "message m { optional group l (LIST) { repeated int32 array; } repeated int64 r; }"
    write_schema(spark, metadata, path)
    (found,) = read(spark, path)
    assert found.children == (
        Stored("l", None, "legacy LIST", (Stored("array", None, "REPEATED int32"),)),
        Stored("r", None, "REPEATED int64"),
    )


def write_schema(spark: SparkSession, schema: str, path: Path) -> None:
    """Writes a file without rows that has a schema of Parquet."""
    assert spark._jvm is not None
    jvm = spark._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set("parquet.example.schema", schema)
    target = jvm.org.apache.hadoop.fs.Path(f"file://{path}")
    kind = jvm.org.apache.parquet.schema.MessageTypeParser.parseMessageType(schema)
    out = jvm.org.apache.parquet.hadoop.ParquetFileWriter(configuration, kind, target)
    out.start()
    out.end(jvm.java.util.HashMap())


def test_files_with_one_schema_share_it_and_are_read_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_cache", type(module._cache)())
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for rows, path in enumerate(paths, start=1):
        pq.write_table(pa.table({"a": pa.array(range(rows))}), path)
    first, second, _ = read(spark, *paths)
    assert first is second
    sizes = {str(path): path.stat().st_size for path in paths}
    assert dict(module._cache) == dict.fromkeys(sizes.items(), first)

    def unread(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(module, "read_footers", unread)
    monkeypatch.setattr(module, "_CACHED_FILES", 2)
    assert read(spark, *paths)[1] is second
    assert len(module._cache) == 2


def test_file_that_is_not_parquet_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("damaged, and longer than a footer")
    with pytest.raises(StorageError, match=r"a file of the table is not Parquet, .*: .*a\.parquet") as failed:
        read(spark, tmp_path / "a.parquet")
    assert failed.value.__suppress_context__


def test_calls_into_the_jvm_do_not_depend_on_the_number_of_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_cache", type(module._cache)())
    for rows in range(1, 61):
        pq.write_table(pa.table({"a": range(rows)}), tmp_path / f"{rows}.parquet")
    paths = sorted(tmp_path.glob("*.parquet"))
    read(spark, paths[0])
    with counted_calls(spark) as few:
        read(spark, *paths[1:10])
    with counted_calls(spark) as many:
        read(spark, *paths[10:])
    assert len(few) == len(many)


def test_a_full_cache_forgets_files_of_another_thread_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED_FILES", 1)
    monkeypatch.setattr(module, "_cache", OrderedDict())
    known = Stored("known", None, "int32")
    assert module.remembered([("a", 1)], lambda _: [known]) == [known]

    def read(files: Sequence[tuple[str, int]]) -> list[Stored]:
        module.remembered([("c", 1)], lambda _: [known])  # what another thread does meanwhile
        return [known for _ in files]

    assert module.remembered([("a", 1), ("b", 1)], read) == [known, known]
