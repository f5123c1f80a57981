"""Files that are read in the same way form a group; values in paths; errors about codecs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.data_file import DataFile, NameMapping
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.engines.spark.read import groups as module
from lakeconf.engines.spark.read.groups import Group, groups, path_text
from lakeconf.engines.spark.write.storage import missing_codec
from lakeconf.errors import StorageError

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


def test_missing_codec_and_its_file_are_named() -> None:
    for text in (MISSING, OTHER_WORDS):
        error = missing_codec(RuntimeError(FILE + text.format("Brotli")))
        assert error is not None
        named = "the file s3a://b/a%20b/x.parquet: it is compressed with BROTLI, and Spark has no such codec"
        assert error.message == f"Spark cannot read {named}"
        assert error.hint == (
            "read the table with DuckDB: store.open(); or set the lake's option parquet_compression to 'zstd' and "
            "write the table again"
        )
    error = missing_codec(RuntimeError(MISSING.format("Lzo")))
    assert error is not None
    assert error.message.startswith("Spark cannot read a file: it is compressed with LZO,")
    for text in ("", FILE, "org.apache.hadoop.io.compress.BrotliCodec failed", "Codec was not found"):
        assert missing_codec(RuntimeError(text)) is None


def column(type_name: str = "varchar", field_id: int = 4) -> Column:
    return Column(field_id, "P", type_name, nullable=True, initial_default=None)


def plan_of(*columns: Column, source_name: str = "p") -> ScanPlan:
    mappings = tuple(NameMapping(source_name, each.field_id, in_path=True) for each in columns)
    other = NameMapping("other", 1)
    table = TableInfo(1, "main", "t", columns, "/t/")
    return ScanPlan(5, table, columns, (), {3: (other, *mappings)}, ())


def file_of(path: str) -> DataFile:
    return DataFile(1, path, 10, 100, row_id_start=7, begin_snapshot=2, mapping_id=3)


@pytest.mark.parametrize(
    "path", ["/t/f.parquet", "/t/q=7/f.parquet", "/t/p=1=2/f.parquet", "/t/a/p=7", "/t/p/f.parquet"]
)
def test_path_without_the_value_is_rejected(path: str) -> None:
    with pytest.raises(StorageError) as refused:
        path_text(plan_of(column()), file_of(path), column())
    assert refused.value.message == f"the path of {path} has no value for 'P': no folder P=…"


def test_value_that_is_not_utf_8_is_rejected() -> None:
    with pytest.raises(StorageError, match=r"^the value of 'P' in the path of /t/p=%FF/f\.parquet is not UTF-8$"):
        path_text(plan_of(column()), file_of("/t/p=%FF/f.parquet"), column())
