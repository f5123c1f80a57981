"""The change feed on Spark: equals DuckDB's `table_changes`, or the correct changes where DuckDB has known bugs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalog_lake import lake
from spark_changes import assert_changes_alike, changes

from lakeconf.connection.connection import load_extension
from lakeconf.errors import StorageError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_lake import Lake
    from pyspark.sql import SparkSession

TABLE = "CREATE TABLE lake.t (a INTEGER, b VARCHAR)"
MANY = "INSERT INTO lake.t SELECT i, 'x' || i FROM range({}, {}) r(i)"
FEW = "INSERT INTO lake.t VALUES (1000, 'in'), (1001, 'in'), (1002, 'in')"
MERGE = "CALL ducklake_merge_adjacent_files('lake')"
REWRITE = "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.0)"
FLUSH = "CALL ducklake_flush_inlined_data('lake')"
BASE = (TABLE, MANY.format(0, 50), FEW)
# With DuckLake's default settings, which inline small changes in the catalog.
USUAL = {
    "inserts, small and large": [MANY.format(50, 60), FEW],
    "nothing at all": ["CREATE TABLE lake.other (a INTEGER)"],
    "deletes in the catalog, several on one file": [
        "DELETE FROM lake.t WHERE a IN (3, 1000)",
        "DELETE FROM lake.t WHERE a IN (4, 1001)",
    ],
    "updates of rows in files and in the catalog": [
        "UPDATE lake.t SET b = 'new' WHERE a IN (7, 1001)",
        "UPDATE lake.t SET b = 'newer' WHERE a IN (7, 1001)",
    ],
    "rows inserted and deleted in the range": [
        "INSERT INTO lake.t VALUES (2000, 'short')",
        "DELETE FROM lake.t WHERE a = 2000",
    ],
    "insert, update and delete in one snapshot": [
        "BEGIN; DELETE FROM lake.t WHERE a IN (1, 1000); UPDATE lake.t SET b = 'u' WHERE a IN (2, 1001); "
        "INSERT INTO lake.t VALUES (3000, 'i'); COMMIT"
    ],
    "a schema that evolves": [
        *("ALTER TABLE lake.t ADD COLUMN c INTEGER DEFAULT 42", "DELETE FROM lake.t WHERE a IN (1, 1000)"),
        *("ALTER TABLE lake.t RENAME COLUMN b TO bb", "ALTER TABLE lake.t ALTER COLUMN a TYPE BIGINT"),
        *("INSERT INTO lake.t VALUES (5000000000, 'y', 1)", "UPDATE lake.t SET bb = 'u' WHERE a IN (2, 1001)"),
        *("ALTER TABLE lake.t DROP COLUMN bb", "ALTER TABLE lake.t ADD COLUMN bb INTEGER"),
        "DELETE FROM lake.t WHERE a IN (5, 1002)",
    ],
    "inlined rows that were flushed": ["DELETE FROM lake.t WHERE a = 1000", FLUSH],
    "deletes after a flush, of rows of several snapshots": [
        "INSERT INTO lake.t VALUES (1003, 'in')",
        "DELETE FROM lake.t WHERE a = 1000",
        FLUSH,
        "DELETE FROM lake.t WHERE a IN (1001, 1003)",
    ],
    "an update that was flushed, then deleted": [
        "UPDATE lake.t SET b = 'u' WHERE a IN (1000, 1001)",
        FLUSH,
        "DELETE FROM lake.t WHERE a = 1000",
        "DELETE FROM lake.t WHERE a > 1000",
    ],
    "a table overwritten": [
        "DELETE FROM lake.t WHERE a = 3",
        "BEGIN; DELETE FROM lake.t; INSERT INTO lake.t SELECT i, 'o' FROM range(20) r(i); COMMIT",
    ],
    "files rewritten after deletes in the catalog": [
        "DELETE FROM lake.t WHERE a IN (3, 4)",
        REWRITE,
        "DELETE FROM lake.t WHERE a = 5",
    ],
    "a name that is made anew": [
        "ALTER TABLE lake.t RENAME TO old",
        TABLE,
        MANY.format(0, 20),
        "DELETE FROM lake.t WHERE a = 1",
    ],
}
# Without inlined changes.
FILES = {
    "delete files, several on one file": [
        "DELETE FROM lake.t WHERE a IN (3, 1000)",
        "DELETE FROM lake.t WHERE a IN (4, 5)",
        "UPDATE lake.t SET b = 'u' WHERE a < 10",
    ],
    "a file that is deleted whole": ["DELETE FROM lake.t WHERE a = 3", "DELETE FROM lake.t WHERE a < 50"],
    "files that were merged": [FEW, FEW, MERGE],
    "deletes from files that were merged": [
        FEW,
        FEW,
        MERGE,
        "DELETE FROM lake.t WHERE rowid IN (51, 55, 58)",
        "DELETE FROM lake.t WHERE a > 1000",
    ],
    "files that were rewritten": [
        "DELETE FROM lake.t WHERE a < 20",
        REWRITE,
        "DELETE FROM lake.t WHERE a = 30",
        REWRITE,
    ],
    "updates that were rewritten and merged": ["UPDATE lake.t SET b = 'u' WHERE a IN (3, 1000)", REWRITE, FEW, MERGE],
}


@pytest.mark.parametrize("case", USUAL)
def test_changes_of_a_lake_with_inlining(spark: SparkSession, usual: Lake, case: str) -> None:
    usual.run(*BASE, *USUAL[case])
    assert_changes_alike(spark, usual, [(4 if case == "a name that is made anew" else 1, usual.newest)])


@pytest.mark.parametrize("case", FILES)
def test_changes_of_a_lake_without_inlining(spark: SparkSession, files: Lake, case: str) -> None:
    files.run(*BASE, *FILES[case])
    assert_changes_alike(spark, files, [(1, files.newest)])


def test_changes_of_every_range_of_a_history(spark: SparkSession, usual: Lake) -> None:
    usual.run(*BASE, "UPDATE lake.t SET b = 'u' WHERE a IN (7, 1001)", "DELETE FROM lake.t WHERE a < 30")
    versions = range(2, usual.newest + 1)
    assert_changes_alike(spark, usual, [(since, until) for since in versions for until in versions if since <= until])


def test_changes_on_every_catalog(spark: SparkSession, source: Lake) -> None:
    source.run(
        "CREATE TABLE lake.t (a BIGINT, b VARCHAR, d DOUBLE, n STRUCT(x INTEGER, y TIMESTAMPTZ[]))",
        "INSERT INTO lake.t VALUES (1, 'ü', 'nan', {'x': 1, 'y': ['2024-01-01 00:00:00+00']}), (2, NULL, NULL, NULL)",
        "INSERT INTO lake.t SELECT i, 'f' || i, i / 3, NULL FROM range(100, 140) r(i)",
        "ALTER TABLE lake.t ADD COLUMN c DATE DEFAULT '2024-02-29'",
        "UPDATE lake.t SET b = 'u' WHERE a IN (1, 100)",
        "DELETE FROM lake.t WHERE a IN (2, 101)",
    )
    assert_changes_alike(spark, source, [(1, source.newest)])


def test_changes_of_registered_files(spark: SparkSession, files: Lake) -> None:
    folder = files.folder / "p=7"
    folder.mkdir()
    files.run(
        "CREATE TABLE lake.t (a BIGINT, b VARCHAR, p INTEGER)",
        f"COPY (SELECT 'x' || i AS B, i AS A FROM range(30) r(i)) TO '{folder}/added.parquet' (FORMAT parquet)",
        f"CALL ducklake_add_data_files('lake', 't', '{folder}/added.parquet', hive_partitioning => true)",
        "DELETE FROM lake.t WHERE a IN (3, 4)",
        "UPDATE lake.t SET b = 'u' WHERE a = 5",
    )
    assert_changes_alike(spark, files, [(1, files.newest)])


def test_changes_of_encrypted_files(spark: SparkSession, tmp_path: Path) -> None:
    with lake("duckdb", tmp_path, options=", ENCRYPTED") as encrypted:
        load_extension(encrypted.connection, "httpfs")
        encrypted.run(*BASE, "DELETE FROM lake.t WHERE a IN (3, 1000)", "UPDATE lake.t SET b = 'u' WHERE a = 5")
        assert_changes_alike(spark, encrypted, [(1, encrypted.newest)])
        encrypted.run("CALL lake.set_option('data_inlining_row_limit', 0)", "DELETE FROM lake.t WHERE a = 6")
        with pytest.raises(UnsupportedError, match=r"the delete file .* is encrypted"):
            changes(spark, encrypted, encrypted.newest, encrypted.newest)


def test_error_names_the_missing_file(spark: SparkSession, usual: Lake) -> None:
    usual.run(*BASE)
    (path,) = (usual.folder / "data").rglob("*.parquet")
    path.unlink()
    with pytest.raises(StorageError, match=f"{path.name} is missing"):
        changes(spark, usual, 1, 2)
