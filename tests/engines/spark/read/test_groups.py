"""Files that are read in the same way form a group; errors about codecs name the codec and the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.engines.spark.read import groups as module
from lakeconf.engines.spark.read.groups import Group, groups
from lakeconf.engines.spark.write.storage import missing_codec
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession


def of_table(private: SparkSession, lake: Lake, columns: list[str] | None = None) -> list[Group]:
    return groups(private, plan_scan(lake.reader, "t", lake.newest, columns))


def register(lake: Lake, select: str) -> None:
    path = lake.folder / "added.parquet"
    lake.run(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    lake.run(f"CALL ducklake_add_data_files('lake', 't', '{path}')")


def test_files_of_ducklake_need_no_footers(private: SparkSession, files: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    files.run("CREATE TABLE lake.t (a INTEGER)", *(f"INSERT INTO lake.t VALUES ({n})" for n in range(3)))
    files.run("DELETE FROM lake.t WHERE a = 7", "INSERT INTO lake.t SELECT * FROM range(9)")
    files.run("DELETE FROM lake.t WHERE a = 8")
    monkeypatch.setattr(module, "footers", None)
    found = of_table(private, files)
    assert sorted((len(group.files), group.has_deletes) for group in found) == [(1, True), (3, False)]
    for group in found:
        assert (group.is_assumed, group.is_mapped, group.by_duckdb, group.can_filter) == (True, False, False, True)
        assert group.snapshot_filter is None


def test_promoted_column_is_located_in_the_footers(private: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (a INTEGER, b DATE)", "INSERT INTO lake.t VALUES (1, NULL)")
    files.run("ALTER TABLE lake.t ALTER a TYPE BIGINT", "INSERT INTO lake.t VALUES (2, NULL)")
    types = sorted(group.places[0].type for group in of_table(private, files) if group.places[0])
    assert types == ["int32", "int64"]
    assert [group.is_assumed for group in of_table(private, files)] == [False, False]
    (unread,) = of_table(private, files, ["b"])
    assert unread.is_assumed


def test_registered_file_is_matched_by_name(private: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (a BIGINT, b VARCHAR)")
    register(files, "SELECT 'x' AS B, 1::BIGINT AS a")
    (found,) = of_table(private, files)
    assert (found.is_mapped, found.is_assumed, found.by_duckdb) == (True, False, False)
    assert [(place.name, place.field_id) for place in found.places if place] == [("a", None), ("B", None)]


def test_timestamps_in_milliseconds_are_not_filtered_by_statistics(private: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (z TIMESTAMPTZ, l TIMESTAMPTZ[])")
    for name, unit in (("ms", "ms"), ("us", "us")):
        zone = pa.timestamp(unit, "UTC")
        table = pa.table({"z": pa.array([0], pa.timestamp("us", "UTC")), "l": pa.array([[0]], pa.list_(zone))})
        pq.write_table(table, files.folder / f"{name}.parquet")
        files.run(f"CALL ducklake_add_data_files('lake', 't', '{files.folder}/{name}.parquet')")
    by_name = {group.files[0].path.rpartition("/")[2]: group.can_filter for group in of_table(private, files)}
    assert by_name == {"ms.parquet": False, "us.parquet": True}


def test_names_that_spark_reserves_are_read_by_duckdb(private: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (_metadata BIGINT, b BIGINT)")
    register(files, "SELECT 1::BIGINT AS _metadata, 2::BIGINT AS b")
    assert [group.by_duckdb for group in of_table(private, files)] == [True]
    assert [group.by_duckdb for group in of_table(private, files, ["b"])] == [False]


def test_file_without_field_ids_and_names_is_rejected(private: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (a BIGINT)")
    register(files, "SELECT 1::BIGINT AS a")
    files.metadata("UPDATE ducklake_data_file SET mapping_id = NULL")
    files.run("ALTER TABLE lake.t ALTER a TYPE HUGEINT")
    with pytest.raises(UnsupportedError, match="has no field ids, and the catalog has no names") as refused:
        of_table(private, files)
    assert refused.value.hint == "read the table with DuckDB, and write it to a new table"


# Messages of Spark 4.0 and of Spark 4.2.
MISSING = "Class org.apache.hadoop.io.compress.{}Codec was not found"
OTHER_WORDS = "java.lang.ClassNotFoundException: org.apache.hadoop.io.compress.{}Codec not found"
FILE = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file s3a://b/a%20b/x.parquet. SQLSTATE: KD001\n"


@pytest.mark.parametrize("text", [MISSING, OTHER_WORDS])
def test_missing_codec_and_its_file_are_named(text: str) -> None:
    error = missing_codec(RuntimeError(FILE + text.format("Brotli")))
    assert error is not None
    assert error.message == (
        "Spark cannot read the file s3a://b/a%20b/x.parquet: it is compressed with BROTLI, and Spark has no such codec"
    )
    assert error.hint == (
        "read the table with DuckDB: store.open(); or set the lake's option parquet_compression to 'zstd' and write "
        "the table again"
    )


def test_missing_codec_of_an_unknown_file() -> None:
    error = missing_codec(RuntimeError(MISSING.format("Lzo")))
    assert error is not None
    assert error.message.startswith("Spark cannot read a file: it is compressed with LZO,")


@pytest.mark.parametrize("text", ["", FILE, "org.apache.hadoop.io.compress.BrotliCodec failed", "Codec was not found"])
def test_other_errors_are_not_about_codecs(text: str) -> None:
    assert missing_codec(RuntimeError(text)) is None
