"""Reads over Spark Connect: settings that could change rows, files, and public calls only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType
from source_tree import all_imports, sources
from spark_rows import scan

from lakeconf.engines.spark.connect.source import ConnectSource, _check_types, check_reading, settings_of
from lakeconf.errors import SparkError, StorageError, UnsupportedError

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession


def test_files_are_listed_once(connect: SparkSession, files: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    files.run("CREATE TABLE lake.t (a INTEGER)", *(f"INSERT INTO lake.t VALUES ({n}), (9)" for n in range(3)))
    files.run("ALTER TABLE lake.t ADD COLUMN b INTEGER DEFAULT 7", "DELETE FROM lake.t WHERE a = 1")
    jobs, listing = [], ConnectSource._listing

    def counted(source: ConnectSource, given: Any) -> Any:
        jobs.append(len(given))
        return listing(source, given)

    monkeypatch.setattr(ConnectSource, "_listing", counted)
    assert sorted(tuple(row) for row in scan(connect, files, "t").collect()) == [(0, 7), (2, 7), (9, 7), (9, 7), (9, 7)]
    assert jobs == [4]


def test_names_with_characters_of_patterns_and_escapes(connect: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (a INTEGER)")
    for number, name in enumerate(("a*b", "a?b", "[a]", "{a,b}", "a%20b", "ü b", "a:b")):
        path = files.folder / f"{name}.parquet"
        files.run(f"COPY (SELECT {number}::INTEGER AS a) TO '{path}'")
        escaped = str(path).replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
        files.run(f"CALL ducklake_add_data_files('lake', 't', '{escaped}')")
    assert sorted(row.a for row in scan(connect, files, "t").collect()) == list(range(7))


def test_file_that_is_registered_twice_is_refused(connect: SparkSession, files: Lake) -> None:
    path = files.folder / "a.parquet"
    files.run("CREATE TABLE lake.t (a INTEGER)", f"COPY (SELECT 1::INTEGER AS a) TO '{path}'")
    files.run(*[f"CALL ducklake_add_data_files('lake', 't', '{path}')"] * 2)
    with pytest.raises(StorageError, match="twice, and Spark would read it once"):
        scan(connect, files, "t")


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


def test_default_settings_are_accepted(connect: SparkSession) -> None:
    check_reading(settings_of(connect))
    check_reading({"spark.sql.parquet.enableVectorizedReader": "TRUE", "spark.sql.sources.useV1SourceList": "Parquet"})


@pytest.mark.parametrize("setting", CHANGED)
def test_setting_that_could_change_rows_is_refused(connect: SparkSession, setting: str) -> None:
    connect.conf.set(setting, CHANGED[setting])
    with pytest.raises(UnsupportedError, match=f"{setting} = {CHANGED[setting]}") as raised:
        check_reading(settings_of(connect))
    assert f"spark.conf.unset('{setting}')" in str(raised.value)


def test_server_that_does_not_answer(connect: SparkSession) -> None:
    stopped = connect.newSession()
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
