from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType
from spark_rows import scan

from lakeconf.engines.spark.connect.source import ConnectSource, _check_types
from lakeconf.errors import StorageError, UnsupportedError

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
