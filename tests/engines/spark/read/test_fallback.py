"""Files that DuckDB reads inside Spark's executors, and deletion vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from spark_rows import assert_alike, scan

from lakeconf.catalog.pruning.scan_plan import plan_scan

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession


def test_encrypted_files_are_read(spark: SparkSession, encrypted: Lake) -> None:
    encrypted.run("CREATE TABLE lake.t (a INTEGER, b VARCHAR, s STRUCT(x INTEGER), t TIME, u UUID, n TIMESTAMP_NS)")
    values = "i, 'it''s ' || i, {'x': i}, TIME '12:34:56.5', uuid(), TIMESTAMP_NS '2024-01-01 00:00:00.123456'"
    encrypted.run(*(f"INSERT INTO lake.t SELECT {values} FROM range({n}, {n + 40}) r(i)" for n in (0, 40)))
    encrypted.run("DELETE FROM lake.t WHERE a % 5 = 0", "DELETE FROM lake.t WHERE a % 7 = 0")
    encrypted.run("ALTER TABLE lake.t RENAME b TO c", "ALTER TABLE lake.t ADD COLUMN b INTEGER DEFAULT 9")
    encrypted.run("ALTER TABLE lake.t RENAME COLUMN s.x TO y", "ALTER TABLE lake.t ADD COLUMN s.z INTEGER DEFAULT 7")
    encrypted.run("INSERT INTO lake.t SELECT * FROM lake.t LIMIT 3", "UPDATE lake.t SET b = 8 WHERE a < 10")
    assert_alike(spark, encrypted, "t")
    encrypted.run("CALL ducklake_merge_adjacent_files('lake')")
    assert_alike(spark, encrypted, "t", newest=2)


def test_encryption_keys_are_not_in_the_plan_or_the_settings(spark: SparkSession, encrypted: Lake) -> None:
    encrypted.run(
        "CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)", "DELETE FROM lake.t WHERE a = 1"
    )
    plan = plan_scan(encrypted.reader, "t", encrypted.newest)
    keys = [plan.files[0].encryption_key, plan.files[0].delete_file and plan.files[0].delete_file.encryption_key]
    frame = scan(spark, encrypted, "t")
    assert frame.count() == 1
    shown = str(plan) + frame._jdf.queryExecution().toString() + str(spark.sparkContext.getConf().getAll())
    assert all(key and key not in shown for key in keys)


def test_promotion_that_spark_does_not_support(spark: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (a DECIMAL(5, 2), s STRUCT(l HUGEINT[], m MAP(INTEGER, INTEGER)))")
    struct = "{'l': [1, NULL, 100000000000000000000000000], 'm': MAP {1: 2}}"
    rows = f"(0.1, {struct}), (NULL, NULL), (9, {{'l': NULL, 'm': NULL}})"
    files.run(f"INSERT INTO lake.t VALUES {rows}", "ALTER TABLE lake.t ALTER a TYPE DOUBLE")
    files.run("ALTER TABLE lake.t ALTER s SET DATA TYPE STRUCT(l DOUBLE[], m MAP(BIGINT, DECIMAL(38, 0)), z VARCHAR)")
    files.run("ALTER TABLE lake.t ADD COLUMN s.w INTEGER DEFAULT 4", "DELETE FROM lake.t WHERE a = 9")
    files.run("INSERT INTO lake.t SELECT * FROM lake.t")
    assert_alike(spark, files, "t")


def test_promotion_to_json(spark: SparkSession, files: Lake) -> None:
    files.run(
        "CREATE TABLE lake.t (a INTEGER, b TIMESTAMP)", "INSERT INTO lake.t VALUES (1, '2024-01-01'), (NULL, NULL)"
    )
    files.run("ALTER TABLE lake.t ALTER a TYPE JSON", "ALTER TABLE lake.t ALTER b TYPE JSON")
    assert_alike(spark, files, "t")


@pytest.mark.parametrize("package", ["duckdb", "pydantic"])
def test_executors_without_a_package_raise_an_error(
    spark: SparkSession, encrypted: Lake, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    encrypted.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    (encrypted.folder / "no" / package).mkdir(parents=True)
    (encrypted.folder / "no" / package / "__init__.py").write_text("raise ImportError")
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", str(encrypted.folder / "no"))
    frame = scan(spark, encrypted, "t")
    with pytest.raises(Exception, match=r"executors, .* cannot import what it needs .* install lakeconf"):
        frame.collect()


def test_deletion_vectors_are_applied(spark: SparkSession, vectors: Lake) -> None:
    vectors.run("CREATE TABLE lake.t (a INTEGER)")
    vectors.run(*(f"INSERT INTO lake.t SELECT i FROM range({n}, {n + 100}) r(i)" for n in (0, 100)))
    vectors.run("DELETE FROM lake.t WHERE a % 3 = 0")
    assert vectors.metadata("SELECT DISTINCT format FROM ducklake_delete_file") == [("puffin",)]
    assert_alike(spark, vectors, "t")
    vectors.run("DELETE FROM lake.t WHERE a % 5 = 0")
    assert_alike(spark, vectors, "t")


def test_files_that_duckdb_reads_are_large_for_spark(spark: SparkSession, vectors: Lake) -> None:
    """A join would send a small frame to all executors."""
    vectors.run("CREATE TABLE lake.t AS SELECT i AS a, md5(i::VARCHAR) AS b FROM range(10000) r(i)")
    vectors.run("DELETE FROM lake.t WHERE a = 1")
    frame = scan(spark, vectors, "t")
    size = sum(file.file_size_bytes for file in plan_scan(vectors.reader, "t", vectors.newest).files)
    assert frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() > size / 2


def test_replaced_file_that_duckdb_reads_raises_an_error(spark: SparkSession, vectors: Lake) -> None:
    """A file without rows would be no rows without an error."""
    vectors.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(100) r(i)", "DELETE FROM lake.t WHERE a = 1")
    frame = scan(spark, vectors, "t")
    (path,) = (file.path for file in plan_scan(vectors.reader, "t", vectors.newest).files)
    vectors.run(f"COPY (SELECT 1 AS a LIMIT 0) TO '{path}' (FORMAT parquet)")
    with pytest.raises(Exception, match="it was truncated or replaced"):
        frame.collect()
