"""Files that are read in the same way form a group; errors about codecs name the codec and the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.engines.spark.read import groups as module
from lakeconf.engines.spark.read.groups import Group, groups
from lakeconf.engines.spark.write.storage import missing_codec

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession


def of_table(private: SparkSession, lake: Lake, columns: list[str] | None = None) -> list[Group]:
    return groups(private, plan_scan(lake.reader, "t", lake.newest, columns))


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
