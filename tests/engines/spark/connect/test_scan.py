"""Scans and change feeds through Spark Connect return the rows of DuckDB, or refuse settings that could change them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType
from random_lakes import VALUES
from source_tree import all_imports, sources
from spark_changes import assert_changes_alike
from spark_rows import access_to, assert_alike, scan
from strength import PROVE

from lakeconf.catalog.changes_plan import plan_changes_with_inlined_rows
from lakeconf.engines.spark.connect.source import ConnectSource, _check_types, check_reading, read_changes, settings_of
from lakeconf.errors import SparkError, StorageError, UnsupportedError

if TYPE_CHECKING:
    from catalog_lake import AttachedLake


TYPES = {f"c{number}": (kind, values[-1]) for number, (kind, values) in enumerate(VALUES.items())} | {
    "f": ("FLOAT", "'-0.0'"),
    "old": ("TIMESTAMP_MS", "'1500-01-01 02:30:00.123'"),
    "ns": ("TIMESTAMP_NS", "'2024-03-10 02:30:00.123456'"),
    "n.a `q`": ("INTEGER", "7"),
}
COLUMNS = ", ".join(f'"{name}" {kind}' for name, (kind, _) in TYPES.items())
ROW = ", ".join(sql for _, sql in TYPES.values())


@pytest.mark.slow
def test_every_type_with_deletes_and_inlined_rows(connect: SparkSession, inlining_lake: AttachedLake) -> None:
    """The session's time zone is not UTC, and has no 02:30 on that day."""
    inlining_lake.run(f"CREATE TABLE lake.t ({COLUMNS})", f"INSERT INTO lake.t SELECT {ROW} FROM range(40)")
    inlining_lake.run("DELETE FROM lake.t WHERE rowid % 3 = 0", f"INSERT INTO lake.t VALUES ({ROW})")
    inlining_lake.run("INSERT INTO lake.t (c1) VALUES (1)", "DELETE FROM lake.t WHERE rowid IN (7, 41)")
    assert connect.conf.get("spark.sql.session.timeZone") == "America/New_York"
    assert_alike(connect, inlining_lake, "t", newest=2)


@pytest.mark.slow
def test_evolution(connect: SparkSession, file_lake: AttachedLake) -> None:
    """Names of other columns, promotions, defaults, and fields that are younger than their struct."""
    file_lake.run('CREATE TABLE lake.t (a INTEGER, b INTEGER, s STRUCT(x INTEGER), "F" FLOAT)')
    file_lake.run("INSERT INTO lake.t SELECT i, -i, CASE WHEN i % 2 = 0 THEN {'x': i} END, 0.1 FROM range(9) r(i)")
    file_lake.run("ALTER TABLE lake.t RENAME b TO c", "ALTER TABLE lake.t ADD COLUMN b VARCHAR DEFAULT 'new'")
    file_lake.run("ALTER TABLE lake.t ALTER a TYPE BIGINT", 'ALTER TABLE lake.t ALTER "F" TYPE DOUBLE')
    file_lake.run("ALTER TABLE lake.t ADD COLUMN s.y INTEGER DEFAULT 5", "ALTER TABLE lake.t DROP COLUMN s.x")
    file_lake.run("ALTER TABLE lake.t ADD COLUMN d DATE", "INSERT INTO lake.t (a, c) VALUES (3000000000, 1)")
    file_lake.run('ALTER TABLE lake.t RENAME "F" TO f', "DELETE FROM lake.t WHERE a = 3")
    assert_alike(connect, file_lake, "t")


def test_registered_files_with_partitions_in_their_paths(connect: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER, moment TIMESTAMP)")
    folder = file_lake.folder / "moment=2024-03-10 02%3A30%3A00"
    folder.mkdir()
    file_lake.run(f"COPY (SELECT i::INTEGER AS A, NULL::INTEGER AS extra FROM range(20) r(i)) TO '{folder}/x.parquet'")
    file_lake.run(
        f"CALL ducklake_add_data_files('lake', 't', '{folder}/x.parquet', hive_partitioning => true, "
        "ignore_extra_columns => true)",
        "DELETE FROM lake.t WHERE a = 4",
    )
    assert_alike(connect, file_lake, "t")


def test_deletion_vectors(connect: SparkSession, vectors: AttachedLake) -> None:
    vectors.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(100) r(i)", "DELETE FROM lake.t WHERE a % 7 = 0")
    assert_alike(connect, vectors, "t", newest=1)


def test_files_of_the_same_size_are_told_apart(connect: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", *(f"INSERT INTO lake.t VALUES ({n}), ({n})" for n in range(3)))
    file_lake.run("DELETE FROM lake.t WHERE rowid IN (0, 3)")
    paths = sorted((file_lake.folder / "data").rglob("*.parquet"))
    for path in paths:
        os.utime(path, (1, 1))
    assert_alike(connect, file_lake, "t", newest=1)


@pytest.mark.prove("duckdb", "sqlite")
def test_changes(connect: SparkSession, source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(30) r(i)", "DELETE FROM lake.t WHERE a % 5 = 0")
    source.run("INSERT INTO lake.t VALUES (100)", "UPDATE lake.t SET a = -a WHERE a IN (7, 100)")
    last = source.newest
    assert_changes_alike(connect, source, [(1, last), (2, 2), (3, last), (last, last)])


def test_column_named_like_sparks_metadata(connect: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run(
        "CREATE TABLE lake.t (_metadata INTEGER, a INTEGER)", "INSERT INTO lake.t SELECT i, i FROM range(9) r(i)"
    )
    file_lake.run("DELETE FROM lake.t WHERE a = 3")
    assert_alike(connect, file_lake, "t", row_ids=False)


def test_missing_file_raises(connect: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(9) r(i)", "INSERT INTO lake.t VALUES (9)")
    frame = scan(connect, file_lake, "t")
    path = sorted((file_lake.folder / "data").rglob("*.parquet"))[0]
    path.unlink()
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|PATH_NOT_FOUND"):
        frame.count()
    with pytest.raises(StorageError, match=f"{path} is missing, but the catalog lists it"):
        scan(connect, file_lake, "t")


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["*.parquet", "*-delete.parquet"])
def test_file_that_is_replaced_after_the_scan_fails_its_jobs(
    connect: SparkSession, file_lake: AttachedLake, pattern: str
) -> None:
    """A Parquet file without rows would be no rows without an error, or no deletes."""
    file_lake.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(9) r(i)", "DELETE FROM lake.t WHERE a = 4")
    frame = scan(connect, file_lake, "t")
    path = max((file_lake.folder / "data").rglob(pattern), key=lambda found: "delete" not in found.name)
    assert frame.count() == 8
    kind = "a" if pattern == "*.parquet" else "file_path, 1::BIGINT AS pos"
    file_lake.run(f"COPY (SELECT {kind} FROM read_parquet('{path}') LIMIT 0) TO '{path}.new' (FORMAT parquet)")
    path.with_name(f"{path.name}.new").replace(path)
    connect.catalog.refreshByPath(str(file_lake.folder / "data"))
    for job in (
        frame.collect,
        frame.count,
        lambda: frame.where("a = -1").collect(),
        lambda: frame.write.format("noop").mode("append").save(),
    ):
        with pytest.raises(Exception, match="a file of this scan is missing or was replaced"):
            job()
    with pytest.raises(StorageError, match="it was truncated or replaced"):
        scan(connect, file_lake, "t")


def test_file_of_the_same_size_that_replaces_another_fails_jobs(connect: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(9) r(i)")
    plan, inlined = plan_changes_with_inlined_rows(file_lake.reader, "t", 1, file_lake.newest)
    frame, changes = scan(connect, file_lake, "t"), read_changes(connect, access_to(file_lake), plan, inlined)
    assert changes.count() == 9
    (path,) = (file_lake.folder / "data").rglob("*.parquet")
    os.utime(path, (1, 1))
    for job in (frame.collect, changes.count):
        with pytest.raises(Exception, match="a file of this scan is missing or was replaced"):
            job()
    assert scan(connect, file_lake, "t").count() == 9


def test_file_that_is_missing_when_a_cached_frame_is_read_again_fails_jobs(
    connect: SparkSession, file_lake: AttachedLake
) -> None:
    """Spark lists the files of a cached frame again, and ignores those that are missing."""
    file_lake.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(9) r(i)", "INSERT INTO lake.t VALUES (9)")
    frame = scan(connect, file_lake, "t").cache()
    assert frame.count() == 10
    sorted((file_lake.folder / "data").rglob("*.parquet"))[0].unlink()
    connect.catalog.refreshByPath(str(file_lake.folder / "data"))
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|is missing or was replaced"):
        frame.count()
    frame.unpersist()


def test_file_that_spark_would_skip_raises(connect: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)")
    path = file_lake.folder / "_hidden.parquet"
    file_lake.run(f"COPY (SELECT 1 AS a) TO '{path}'", f"CALL ducklake_add_data_files('lake', 't', '{path}')")
    with pytest.raises(UnsupportedError, match="does not read files of this name"):
        scan(connect, file_lake, "t")


def test_encrypted_files_are_refused(connect: SparkSession, encrypted: AttachedLake) -> None:
    encrypted.run("CREATE TABLE lake.t AS SELECT 1 AS a")
    with pytest.raises(UnsupportedError, match="are encrypted, and a plan of Spark must not") as raised:
        scan(connect, encrypted, "t")
    ((key,),) = encrypted.metadata("SELECT encryption_key FROM ducklake_data_file")
    assert key not in str(raised.value)


def test_names_that_differ_only_by_the_case_of_other_letters_are_refused(
    connect: SparkSession, file_lake: AttachedLake
) -> None:
    """DuckDB compares only ASCII letters without case."""
    file_lake.run('CREATE TABLE lake.t ("Ä" INTEGER, "ä" INTEGER)', "INSERT INTO lake.t VALUES (1, 2)")
    with pytest.raises(UnsupportedError, match="names that differ only by case"):
        scan(connect, file_lake, "t")
    assert [tuple(row) for row in scan(connect, file_lake, "t", columns=["ä"]).collect()] == [(2,)]


HARMLESS = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "Asia/Kathmandu",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [[name] for name in HARMLESS] if PROVE else [list(HARMLESS)[::2], list(HARMLESS)[1::2]]
)
def test_settings_that_change_no_rows(connect: SparkSession, file_lake: AttachedLake, names: list[str]) -> None:
    some = {kind: sql for kind, sql in TYPES.values() if kind.startswith(("BLOB", "TIMESTAMP", "DATE", "HUGE"))}
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(some))
    rows = ", ".join(some.values())
    file_lake.run(f"CREATE TABLE lake.t ({columns})", f"INSERT INTO lake.t SELECT {rows} FROM range(9)")
    file_lake.run("DELETE FROM lake.t WHERE rowid = 3")
    for name in names:
        connect.conf.set(name, HARMLESS[name])
    assert_alike(connect, file_lake, "t", newest=1)


def test_files_are_listed_once(connect: SparkSession, file_lake: AttachedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", *(f"INSERT INTO lake.t VALUES ({n}), (9)" for n in range(3)))
    file_lake.run("ALTER TABLE lake.t ADD COLUMN b INTEGER DEFAULT 7", "DELETE FROM lake.t WHERE a = 1")
    jobs, listing = [], ConnectSource._listing

    def counted(source: ConnectSource, given: Any) -> Any:
        jobs.append(len(given))
        return listing(source, given)

    monkeypatch.setattr(ConnectSource, "_listing", counted)
    assert sorted(tuple(row) for row in scan(connect, file_lake, "t").collect()) == [
        (0, 7),
        (2, 7),
        (9, 7),
        (9, 7),
        (9, 7),
    ]
    assert jobs == [4]


def test_names_with_characters_of_patterns_and_escapes(connect: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)")
    for number, name in enumerate(("a*b", "a?b", "[a]", "{a,b}", "a%20b", "ü b", "a:b")):
        path = file_lake.folder / f"{name}.parquet"
        file_lake.run(f"COPY (SELECT {number}::INTEGER AS a) TO '{path}'")
        escaped = str(path).replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
        file_lake.run(f"CALL ducklake_add_data_files('lake', 't', '{escaped}')")
    assert sorted(row.a for row in scan(connect, file_lake, "t").collect()) == list(range(7))


def test_file_that_is_registered_twice_is_refused(connect: SparkSession, file_lake: AttachedLake) -> None:
    path = file_lake.folder / "a.parquet"
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", f"COPY (SELECT 1::INTEGER AS a) TO '{path}'")
    file_lake.run(*[f"CALL ducklake_add_data_files('lake', 't', '{path}')"] * 2)
    with pytest.raises(StorageError, match="twice, and Spark would read it once"):
        scan(connect, file_lake, "t")


def test_type_that_differs_is_refused(connect: SparkSession) -> None:
    planned = StructType([StructField("a", StructType([StructField("b", LongType())]), nullable=False)])
    _check_types([connect.createDataFrame([], planned)], planned)
    for other in ("a struct<B: bigint>", "a struct<b: int>", "a struct<b: bigint>, c int", "A struct<b: bigint>"):
        with pytest.raises(UnsupportedError, match="but the table is"):
            _check_types([connect.createDataFrame([], other)], planned)
    with pytest.raises(UnsupportedError, match="Spark cannot read files of the table"):
        _check_types([connect.range(1).select("missing")], planned)


CHANGED = {
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "false",
    "spark.sql.parquet.enableVectorizedReader": "false",
    "spark.sql.parquet.int96AsTimestamp": "false",
    "spark.sql.parquet.int96TimestampConversion": "true",
    "spark.sql.parquet.recordLevelFilter.enabled": "true",
    "spark.sql.retainGroupColumns": "false",
    "spark.sql.sources.useV1SourceList": "orc,json",
    "spark.sql.variant.allowReadingShredded": "false",
}


def test_setting_that_could_change_rows_is_refused(connect: SparkSession) -> None:
    for setting, value in CHANGED.items():
        connect.conf.set(setting, value)
        with pytest.raises(UnsupportedError, match=f"{setting} = {value}") as raised:
            check_reading(settings_of(connect))
        assert f"spark.conf.unset('{setting}')" in str(raised.value)
        connect.conf.unset(setting)
    check_reading(settings_of(connect))
    check_reading({"spark.sql.parquet.enableVectorizedReader": "TRUE", "spark.sql.sources.useV1SourceList": "Parquet"})


@pytest.mark.usefixtures("connect")
def test_server_that_does_not_answer(connect_url: str) -> None:
    stopped = SparkSession.builder.remote(connect_url).create()
    stopped.stop()
    with pytest.raises(SparkError, match="the Spark Connect server does not answer"):
        settings_of(stopped)


PACKAGE = "lakeconf.engines.spark.connect"
CONNECT = {name: path for name, path in sources().items() if name.startswith(PACKAGE)}
# Modules that make private calls of pyspark, or calls through py4j.
CLASSIC = ("py4j", "lakeconf.engines.spark.internals", "lakeconf.engines.spark.sessions", "pyspark.sql.connect")


def test_no_module_with_private_calls_is_imported() -> None:
    assert len(CONNECT) > 2
    found = [each for each in all_imports() if each.importer in CONNECT and each.imported.startswith(CLASSIC)]
    assert found == []
