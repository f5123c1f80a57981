"""Variants of data files, also those that DuckDB reads; the change feed equals that of DuckDB, or is correct."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.parquet
import pytest
from catalog_lake import lake
from jvm_calls import execution_of
from spark_changes import assert_changes_alike, changes
from spark_rows import assert_alike, differences, scan

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.connection.connection import load_extension
from lakeconf.errors import StorageError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_lake import AttachedLake
    from pyspark.sql import SparkSession

TABLE = "CREATE TABLE lake.t (a INTEGER, b VARCHAR)"


def fill(lake: AttachedLake, *ranges: tuple[int, int]) -> None:
    """Creates a table with one file for each range."""
    lake.run(TABLE, *(f"INSERT INTO lake.t SELECT i, 'b' || i FROM range({a}, {b}) r(i)" for a, b in ranges))


def register(lake: AttachedLake, path: Path | str, select: str, options: str = "", call: str = "") -> None:
    """Writes a Parquet file with DuckDB and registers it."""
    lake.run(f"COPY ({select}) TO '{path}' (FORMAT parquet{options})")
    lake.run(f"CALL ducklake_add_data_files('lake', 't', '{path}'{call})")


@pytest.mark.slow
def test_tables_that_share_a_folder(spark: SparkSession, file_lake: AttachedLake) -> None:
    fill(file_lake, (0, 3))
    file_lake.run("ALTER TABLE lake.t RENAME TO u", TABLE, "INSERT INTO lake.t VALUES (7, 'seven')")
    assert_alike(spark, file_lake, "t")
    assert_alike(spark, file_lake, "u")
    file_lake.run("CREATE OR REPLACE TABLE lake.t (a INTEGER, b VARCHAR)", "INSERT INTO lake.t VALUES (8, 'eight')")
    assert_alike(spark, file_lake, "t")


@pytest.mark.slow
def test_updated_rows_keep_their_ids(spark: SparkSession, inlining_lake: AttachedLake) -> None:
    fill(inlining_lake, (0, 100))
    inlining_lake.run("UPDATE lake.t SET b = 'new' WHERE a > 70", "UPDATE lake.t SET b = 'newer' WHERE a IN (1, 2)")
    assert_alike(spark, inlining_lake, "t")


@pytest.mark.slow
def test_flushed_merged_and_rewritten_files(spark: SparkSession, inlining_lake: AttachedLake) -> None:
    inlining_lake.run(TABLE, *(f"INSERT INTO lake.t VALUES ({i}, 'small'), ({i + 10}, 'batch')" for i in range(4)))
    inlining_lake.run("DELETE FROM lake.t WHERE a = 1", "UPDATE lake.t SET b = 'changed' WHERE a = 2")
    inlining_lake.run("CALL ducklake_flush_inlined_data('lake')")
    assert_alike(spark, inlining_lake, "t")
    inlining_lake.run("INSERT INTO lake.t SELECT i, 'large' FROM range(100, 200) r(i)")
    inlining_lake.run("DELETE FROM lake.t WHERE a BETWEEN 120 AND 170", "CALL ducklake_merge_adjacent_files('lake')")
    inlining_lake.run("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.0)")
    assert_alike(spark, inlining_lake, "t")


@pytest.mark.slow
def test_registered_file_is_read_by_name_and_not_by_field_id(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run(TABLE)
    register(file_lake, file_lake.folder / "x.parquet", "SELECT 1 AS a, 'b' AS b", ", FIELD_IDS {a: 2, b: 1}")
    assert_alike(spark, file_lake, "t")
    file_lake.run(
        "ALTER TABLE lake.t RENAME a TO c", "ALTER TABLE lake.t RENAME b TO a", "ALTER TABLE lake.t RENAME c TO b"
    )
    register(file_lake, file_lake.folder / "y.parquet", "SELECT 5 AS b, 'new a' AS a")
    assert_alike(spark, file_lake, "t")
    assert scan(spark, file_lake, "t").where("a = 'b'").count() == 1
    assert scan(spark, file_lake, "t").where("a IS NULL").count() == 0


@pytest.mark.slow
def test_registered_file_without_a_column(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run(TABLE, "ALTER TABLE lake.t ADD COLUMN c VARCHAR DEFAULT 'dflt'")
    register(file_lake, file_lake.folder / "x.parquet", "SELECT 1 AS a, 'b' AS b", call=", allow_missing => true")
    register(
        file_lake,
        file_lake.folder / "y.parquet",
        "SELECT 1 AS a, 2 AS extra",
        call=", allow_missing => true, ignore_extra_columns => true",
    )
    assert_alike(spark, file_lake, "t")


@pytest.mark.slow
def test_registered_file_with_nested_columns(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run(
        "CREATE TABLE lake.t (s STRUCT(x INTEGER, y VARCHAR), l STRUCT(z INTEGER)[], m MAP(VARCHAR, STRUCT(w INTEGER)))"
    )
    row = "SELECT {'y': 'why', 'x': 1} AS S, [{'z': 3}, NULL] AS l, MAP {'k': {'w': 4}} AS m"
    register(file_lake, file_lake.folder / "x.parquet", row)
    file_lake.run(
        "ALTER TABLE lake.t RENAME COLUMN s.x TO xx", "ALTER TABLE lake.t ADD COLUMN l.element.q VARCHAR DEFAULT 'q'"
    )
    file_lake.run("INSERT INTO lake.t VALUES ({'xx': 5, 'y': 'z'}, [{'z': 1, 'q': 'r'}], NULL)")
    assert_alike(spark, file_lake, "t")


@pytest.mark.slow
def test_registered_file_with_narrower_types(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (i BIGINT, d DOUBLE, n DECIMAL(18, 4), u UBIGINT)")
    register(
        file_lake,
        file_lake.folder / "x.parquet",
        "SELECT 1::TINYINT AS i, 1.5::FLOAT AS d, 2.25::DECIMAL(5, 2) AS n, 7::UTINYINT AS u",
    )
    register(
        file_lake,
        file_lake.folder / "y.parquet",
        "SELECT 4000000000::UINTEGER AS i, 0.1::FLOAT AS d, 9::DECIMAL(9, 0) AS n, 7::UINTEGER AS u",
    )
    assert_alike(spark, file_lake, "t")


@pytest.mark.slow
def test_value_in_the_path_overrides_the_value_in_the_file(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER, p INTEGER)")
    (file_lake.folder / "p=7").mkdir()
    register(
        file_lake, file_lake.folder / "p=7" / "x.parquet", "SELECT 1 AS a, 9 AS p", call=", hive_partitioning => true"
    )
    assert scan(spark, file_lake, "t").collect() == [(1, 7)]
    assert_alike(spark, file_lake, "t")


@pytest.mark.slow
def test_partition_columns_are_read_from_the_data_files(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER, ts TIMESTAMP, b VARCHAR)")
    file_lake.run("ALTER TABLE lake.t SET PARTITIONED BY (b, year(ts), month(ts), bucket(4, a))")
    file_lake.run(
        "INSERT INTO lake.t SELECT i, TIMESTAMP '2024-01-01' + to_days(i * 20), 'p' || (i % 3) FROM range(20) r(i)"
    )
    file_lake.run("INSERT INTO lake.t VALUES (NULL, NULL, NULL), (1, NULL, '')", "DELETE FROM lake.t WHERE a = 5")
    assert_alike(spark, file_lake, "t")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    ["CODEC zstd", "CODEC gzip", "CODEC lz4_raw", "CODEC uncompressed", "PARQUET_VERSION v2", "ROW_GROUP_SIZE 2048"],
)
def test_codecs_and_other_parquet_options(spark: SparkSession, file_lake: AttachedLake, options: str) -> None:
    file_lake.run(TABLE)
    register(
        file_lake,
        file_lake.folder / "x.parquet",
        "SELECT i::INTEGER AS a, 'b' || i AS b FROM range(5000) r(i)",
        f", {options}",
    )
    file_lake.run("DELETE FROM lake.t WHERE a % 3 = 0")
    assert_alike(spark, file_lake, "t")


ODD_NAMES = [
    "a b", "c%20d", "e#f", "g?h", "ü€", "i+j", "k{l,m}", "m[n]", "o*p", "q:r", "_hidden", ".dotted", "w'x", 'y"z',
    "n\nl", "x._COPYING_", "~", "a;b; length=5", "_hidden/f", ".dotted/f", "p=1/f", "back\\slash", "$a&b=c", "100%",
]  # fmt: skip


@pytest.mark.slow
def test_files_and_folders_with_unusual_names(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run(TABLE)
    plain = file_lake.folder / "plain.parquet"
    for number, name in enumerate(ODD_NAMES):
        path = file_lake.folder / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        file_lake.run(f"COPY (SELECT i::INTEGER AS a, 'b{number}' AS b FROM range(10) r(i)) TO '{plain}'")
        plain.rename(path)
        text = re.sub(r"([*?\[])", r"[\1]", str(path).replace("'", "''"))
        file_lake.run(f"CALL ducklake_add_data_files('lake', 't', '{text}', hive_partitioning => false)")
    file_lake.run("DELETE FROM lake.t WHERE a = 0", "DELETE FROM lake.t WHERE a = 1")
    assert scan(spark, file_lake, "t").count() == 8 * len(ODD_NAMES)
    assert_alike(spark, file_lake, "t", newest=3)


@pytest.mark.slow
def test_filter_on_a_file_whose_statistics_omit_nan(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (f DOUBLE)")
    path = file_lake.folder / "arrow.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"f": [1.0, float("nan"), 2.0]}), path)
    assert file_lake.rows(f"SELECT stats_max_value FROM parquet_metadata('{path}')") == [("2.0",)]
    file_lake.run(f"CALL ducklake_add_data_files('lake', 't', '{path}')")
    assert scan(spark, file_lake, "t").where("f > 100").count() == 1
    assert_alike(spark, file_lake, "t")


# Settings of a session that writes Parquet files as former versions of Spark and Hive did, columns and values.
LEGACY = {"datetimeRebaseModeInWrite": "LEGACY", "int96RebaseModeInWrite": "LEGACY"}
OLD = "TIMESTAMP '1500-01-01 00:00:00' AS t"
FORMER = {
    "dates": (LEGACY, "t DATE", "DATE '1500-01-10' AS t"),
    "times": ({**LEGACY, "outputTimestampType": "TIMESTAMP_MICROS"}, "t TIMESTAMPTZ", OLD),
    "int96": ({**LEGACY, "outputTimestampType": "INT96"}, "t TIMESTAMP", OLD),
    "lists": ({"writeLegacyFormat": "true"}, "a INT[], m MAP(VARCHAR, INT)", "array(1, NULL) AS a, map('k', 1) AS m"),
}


@pytest.mark.slow
def test_files_of_former_writers_are_read_by_duckdb(spark: SparkSession, file_lake: AttachedLake) -> None:
    """Spark converts their dates and times, whatever its option says, and reads lists that DuckLake does not."""
    for name, (settings, columns, values) in FORMER.items():
        writing = spark.newSession()
        for key, value in settings.items():
            writing.conf.set(f"spark.sql.parquet.{key}", value)
        writing.sql(f"SELECT {values}").write.parquet(f"{file_lake.folder}/{name}")
        (path,) = (file_lake.folder / name).glob("*.parquet")
        file_lake.run(
            f"CREATE TABLE lake.{name} ({columns})", f"CALL ducklake_add_data_files('lake', '{name}', '{path}')"
        )
        assert scan(spark, file_lake, name).count() == 1
        assert_alike(spark, file_lake, name)


def test_missing_or_truncated_file_raises_an_error(spark: SparkSession, file_lake: AttachedLake) -> None:
    fill(file_lake, (0, 50))
    file_lake.run("DELETE FROM lake.t WHERE a < 20")
    ((path, deletes),) = file_lake.rows("SELECT data_file, delete_file FROM ducklake_list_files('lake', 't')")
    content = (file_lake.folder / path).read_bytes()
    (file_lake.folder / path).write_bytes(content[:-10])
    with pytest.raises(StorageError, match=f"{re.escape(path)} has {len(content) - 10} bytes"):
        scan(spark, file_lake, "t")
    (file_lake.folder / path).unlink()
    with pytest.raises(StorageError, match=f"{re.escape(path)} is missing"):
        scan(spark, file_lake, "t")
    (file_lake.folder / path).write_bytes(content)
    (file_lake.folder / deletes).unlink()
    with pytest.raises(StorageError, match=f"{re.escape(deletes)} is missing"):
        scan(spark, file_lake, "t")


@pytest.mark.slow
def test_encrypted_files_are_read(spark: SparkSession, encrypted: AttachedLake) -> None:
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


@pytest.mark.slow
def test_encryption_keys_are_not_in_the_plan_or_the_settings(spark: SparkSession, encrypted: AttachedLake) -> None:
    encrypted.run(
        "CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)", "DELETE FROM lake.t WHERE a = 1"
    )
    plan = plan_scan(encrypted.reader, "t", encrypted.newest)
    keys = [plan.files[0].encryption_key, plan.files[0].delete_file and plan.files[0].delete_file.encryption_key]
    frame = scan(spark, encrypted, "t")
    assert frame.count() == 1
    shown = str(plan) + execution_of(frame).toString() + str(spark.sparkContext.getConf().getAll())
    assert all(key and key not in shown for key in keys)


@pytest.mark.slow
def test_promotion_that_spark_does_not_support(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a DECIMAL(5, 2), s STRUCT(l HUGEINT[], m MAP(INTEGER, INTEGER)))")
    struct = "{'l': [1, NULL, 100000000000000000000000000], 'm': MAP {1: 2}}"
    rows = f"(0.1, {struct}), (NULL, NULL), (9, {{'l': NULL, 'm': NULL}})"
    file_lake.run(f"INSERT INTO lake.t VALUES {rows}", "ALTER TABLE lake.t ALTER a TYPE DOUBLE")
    file_lake.run(
        "ALTER TABLE lake.t ALTER s SET DATA TYPE STRUCT(l DOUBLE[], m MAP(BIGINT, DECIMAL(38, 0)), z VARCHAR)"
    )
    file_lake.run("ALTER TABLE lake.t ADD COLUMN s.w INTEGER DEFAULT 4", "DELETE FROM lake.t WHERE a = 9")
    file_lake.run("INSERT INTO lake.t SELECT * FROM lake.t")
    assert_alike(spark, file_lake, "t")


@pytest.mark.slow
def test_promotion_to_json(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run(
        "CREATE TABLE lake.t (a INTEGER, b TIMESTAMP)", "INSERT INTO lake.t VALUES (1, '2024-01-01'), (NULL, NULL)"
    )
    file_lake.run("ALTER TABLE lake.t ALTER a TYPE JSON", "ALTER TABLE lake.t ALTER b TYPE JSON")
    assert_alike(spark, file_lake, "t")


@pytest.mark.slow
@pytest.mark.parametrize("package", ["duckdb", "pydantic"])
def test_executors_without_a_package_raise_an_error(
    spark: SparkSession, encrypted: AttachedLake, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    encrypted.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    (encrypted.folder / "no" / package).mkdir(parents=True)
    (encrypted.folder / "no" / package / "__init__.py").write_text("raise ImportError")
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", str(encrypted.folder / "no"))
    frame = scan(spark, encrypted, "t")
    with pytest.raises(Exception, match=r"executors, .* cannot import what it needs .* install lakeconf"):
        frame.collect()


@pytest.mark.slow
def test_deletion_vectors_are_applied(spark: SparkSession, vectors: AttachedLake) -> None:
    vectors.run("CREATE TABLE lake.t (a INTEGER)")
    vectors.run(*(f"INSERT INTO lake.t SELECT i FROM range({n}, {n + 100}) r(i)" for n in (0, 100)))
    vectors.run("DELETE FROM lake.t WHERE a % 3 = 0")
    assert vectors.metadata("SELECT DISTINCT format FROM ducklake_delete_file") == [("puffin",)]
    assert_alike(spark, vectors, "t")
    forgotten = vectors.newest
    vectors.run("DELETE FROM lake.t WHERE a % 5 = 0")
    assert not differences(spark, vectors, "t", vectors.newest)
    # DuckDB shows the rows that had been deleted, see tests/upstream.
    with pytest.raises(UnsupportedError, match="forgot which rows"):
        plan_scan(vectors.reader, "t", forgotten)


def test_files_that_duckdb_reads_are_large_for_spark(spark: SparkSession, vectors: AttachedLake) -> None:
    """A join would send a small frame to all executors."""
    vectors.run("CREATE TABLE lake.t AS SELECT i AS a, md5(i::VARCHAR) AS b FROM range(10000) r(i)")
    vectors.run("DELETE FROM lake.t WHERE a = 1")
    frame = scan(spark, vectors, "t")
    size = sum(file.file_size_bytes for file in plan_scan(vectors.reader, "t", vectors.newest).files)
    assert execution_of(frame).optimizedPlan().stats().sizeInBytes() > size / 2


@pytest.mark.slow
def test_replaced_file_that_duckdb_reads_raises_an_error(spark: SparkSession, vectors: AttachedLake) -> None:
    """A file without rows would be no rows without an error."""
    vectors.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(100) r(i)", "DELETE FROM lake.t WHERE a = 1")
    frame = scan(spark, vectors, "t")
    (path,) = (file.path for file in plan_scan(vectors.reader, "t", vectors.newest).files)
    vectors.run(f"COPY (SELECT 1 AS a LIMIT 0) TO '{path}' (FORMAT parquet)")
    with pytest.raises(Exception, match="it was truncated or replaced"):
        frame.collect()


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


@pytest.mark.slow
@pytest.mark.parametrize("case", USUAL)
def test_changes_of_a_lake_with_inlining(spark: SparkSession, inlining_lake: AttachedLake, case: str) -> None:
    inlining_lake.run(*BASE, *USUAL[case])
    assert_changes_alike(spark, inlining_lake, [(4 if case == "a name that is made anew" else 1, inlining_lake.newest)])


@pytest.mark.slow
@pytest.mark.parametrize("case", FILES)
def test_changes_of_a_lake_without_inlining(spark: SparkSession, file_lake: AttachedLake, case: str) -> None:
    file_lake.run(*BASE, *FILES[case])
    assert_changes_alike(spark, file_lake, [(1, file_lake.newest)])


@pytest.mark.slow
def test_changes_of_every_range_of_a_history(spark: SparkSession, inlining_lake: AttachedLake) -> None:
    inlining_lake.run(*BASE, "UPDATE lake.t SET b = 'u' WHERE a IN (7, 1001)", "DELETE FROM lake.t WHERE a < 30")
    versions = range(2, inlining_lake.newest + 1)
    assert_changes_alike(
        spark, inlining_lake, [(since, until) for since in versions for until in versions if since <= until]
    )


@pytest.mark.slow
def test_changes_on_every_catalog(spark: SparkSession, source: AttachedLake) -> None:
    source.run(
        "CREATE TABLE lake.t (a BIGINT, b VARCHAR, d DOUBLE, n STRUCT(x INTEGER, y TIMESTAMPTZ[]))",
        "INSERT INTO lake.t VALUES (1, 'ü', 'nan', {'x': 1, 'y': ['2024-01-01 00:00:00+00']}), (2, NULL, NULL, NULL)",
        "INSERT INTO lake.t SELECT i, 'f' || i, i / 3, NULL FROM range(100, 140) r(i)",
        "ALTER TABLE lake.t ADD COLUMN c DATE DEFAULT '2024-02-29'",
        "UPDATE lake.t SET b = 'u' WHERE a IN (1, 100)",
        "DELETE FROM lake.t WHERE a IN (2, 101)",
    )
    assert_changes_alike(spark, source, [(1, source.newest)])


@pytest.mark.slow
def test_changes_of_registered_files(spark: SparkSession, file_lake: AttachedLake) -> None:
    folder = file_lake.folder / "p=7"
    folder.mkdir()
    file_lake.run(
        "CREATE TABLE lake.t (a BIGINT, b VARCHAR, p INTEGER)",
        f"COPY (SELECT 'x' || i AS B, i AS A FROM range(30) r(i)) TO '{folder}/added.parquet' (FORMAT parquet)",
        f"CALL ducklake_add_data_files('lake', 't', '{folder}/added.parquet', hive_partitioning => true)",
        "DELETE FROM lake.t WHERE a IN (3, 4)",
        "UPDATE lake.t SET b = 'u' WHERE a = 5",
    )
    assert_changes_alike(spark, file_lake, [(1, file_lake.newest)])


@pytest.mark.slow
def test_changes_of_encrypted_files(spark: SparkSession, tmp_path: Path) -> None:
    with lake("duckdb", tmp_path, options=", ENCRYPTED") as encrypted:
        load_extension(encrypted.connection, "httpfs")
        encrypted.run(*BASE, "DELETE FROM lake.t WHERE a IN (3, 1000)", "UPDATE lake.t SET b = 'u' WHERE a = 5")
        assert_changes_alike(spark, encrypted, [(1, encrypted.newest)])
        encrypted.run("CALL lake.set_option('data_inlining_row_limit', 0)", "DELETE FROM lake.t WHERE a = 6")
        with pytest.raises(UnsupportedError, match=r"the delete file .* is encrypted"):
            changes(spark, encrypted, encrypted.newest, encrypted.newest)


def test_error_names_the_missing_file(spark: SparkSession, inlining_lake: AttachedLake) -> None:
    inlining_lake.run(*BASE)
    (path,) = (inlining_lake.folder / "data").rglob("*.parquet")
    path.unlink()
    with pytest.raises(StorageError, match=f"{path.name} is missing"):
        changes(spark, inlining_lake, 1, 2)
