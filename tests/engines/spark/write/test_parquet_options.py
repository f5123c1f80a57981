"""The options of Spark's Parquet writer follow those of the lake, its schemas and its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalog_lake import Lake

from lakeconf.catalog.tables import TableInfo
from lakeconf.engines.spark.write.parquet_options import parquet_options, uses_partition_folders
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf.connection.connection import Connection

USUAL = ("compression", "maxRecordsPerFile")
TABLE = TableInfo(2, "s", "t", (), "/data/s/t/")


@pytest.fixture
def writer(usual: Lake) -> Iterator[Connection]:
    """A connection whose default database is the lake."""
    usual.run("CREATE SCHEMA lake.s", "CREATE TABLE lake.s.t (a INTEGER)", "CREATE TABLE lake.s.u (a INTEGER)")
    usual.run("CREATE SCHEMA lake.r", "CREATE TABLE lake.r.t (a INTEGER)")
    with usual.connection.cursor() as cursor:
        cursor.execute("USE lake")
        yield cursor


def set_option(writer: Connection, name: str, value: object, place: str = "") -> None:
    writer.execute(f"CALL lake.set_option('{name}', '{value}'{place})")


def codec(writer: Connection, table: TableInfo = TABLE) -> str:
    return parquet_options(writer, table, 8)["compression"]


def rows_per_file(writer: Connection, size: str, row_width: int = 1) -> int:
    set_option(writer, "target_file_size", size)
    return int(parquet_options(writer, TABLE, row_width)["maxRecordsPerFile"])


def test_option_of_a_table_overrides_that_of_its_schema_and_of_the_lake(writer: Connection) -> None:
    set_option(writer, "parquet_compression", "gzip", ", schema => 's', table_name => 't'")
    set_option(writer, "parquet_compression", "snappy", ", schema => 's'")
    set_option(writer, "parquet_compression", "uncompressed")
    places = {("s", "t"): "gzip", ("s", "u"): "snappy", ("r", "t"): "none"}
    found = {(schema, name): codec(writer, TableInfo(1, schema, name, (), "/d/")) for schema, name in places}
    assert found == places


def test_codec_that_spark_cannot_write_is_rejected(writer: Connection) -> None:
    set_option(writer, "parquet_compression", "brotli")
    with pytest.raises(UnsupportedError, match="parquet_compression is 'brotli', which Spark cannot write") as refused:
        parquet_options(writer, TABLE, 8)
    assert "gzip, lz4, lz4_raw, snappy, uncompressed, zstd" in str(refused.value.hint)


def test_levels_apply_to_codecs_with_levels_and_groups_have_their_size(writer: Connection) -> None:
    set_option(writer, "parquet_row_group_size_bytes", "1MB")
    set_option(writer, "parquet_compression_level", 7)
    names = {"zstd": "parquet.compression.codec.zstd.level", "gzip": "zlib.compress.level"}
    for name, option in names.items():
        set_option(writer, "parquet_compression", name)
        assert parquet_options(writer, TABLE, 512)[option] == "7"
    set_option(writer, "parquet_compression", "snappy")
    options = parquet_options(writer, TABLE, 512)
    assert set(options) == {*USUAL, "parquet.block.size"}
    assert options["parquet.block.size"] == "1000000"


def test_rows_per_file_follow_the_rows_of_the_table(writer: Connection) -> None:
    full = TableInfo(2, "s", "t", (), "/data/s/t/", bytes_per_row=2.5)
    assert parquet_options(writer, full, 1000)["maxRecordsPerFile"] == str(512_000_000 * 2 // 5)
    assert rows_per_file(writer, "1KB", row_width=300) == 3
    assert rows_per_file(writer, "1KB", row_width=3000) == 1


@pytest.mark.parametrize(
    ("text", "size"), [("700B", 700), ("3KB", 3000), ("2MB", 2_000_000), ("1GiB", 1 << 30), ("1TB", 10**12)]
)
def test_sizes_that_the_lake_has(writer: Connection, text: str, size: int) -> None:
    """The extension stores a size as bytes; other programs may have written it as text."""
    assert rows_per_file(writer, text) == size


def test_sizes_that_are_texts_in_the_catalog(usual: Lake, writer: Connection) -> None:
    sizes = {"1.5 KiB": 1536, " 2 k ": 2000, "2kib": 2048, "3M": 3_000_000, "1MiB": 1 << 20}
    sizes |= {"1G": 10**9, "1TiB": 1 << 40, "10iB": 10}
    set_option(writer, "target_file_size", "1KB")
    for text, size in sizes.items():
        usual.metadata(f"UPDATE ducklake_metadata SET value = '{text}' WHERE key = 'target_file_size'")
        assert parquet_options(writer, TABLE, 1)["maxRecordsPerFile"] == str(size), text


@pytest.mark.parametrize("text", ["", "big", "10 PB", "-5", "5MB!"])
def test_text_that_is_no_size_is_rejected(usual: Lake, writer: Connection, text: str) -> None:
    set_option(writer, "target_file_size", "1KB")
    usual.metadata(f"UPDATE ducklake_metadata SET value = '{text}' WHERE key = 'target_file_size'")
    with pytest.raises(UnsupportedError) as refused:
        parquet_options(writer, TABLE, 8)
    assert refused.value.message == f"the lake's option target_file_size is {text!r}, which is not a size"
    assert refused.value.hint == "use a value such as 512MB"


def test_partition_folders_follow_the_options_of_the_table(writer: Connection) -> None:
    other = TableInfo(3, "s", "u", (), "/data/s/u/")
    assert uses_partition_folders(writer, TABLE)
    set_option(writer, "hive_file_pattern", 0)
    assert not uses_partition_folders(writer, TABLE)
    set_option(writer, "hive_file_pattern", 1, ", schema => 's', table_name => 't'")
    assert uses_partition_folders(writer, TABLE)
    assert not uses_partition_folders(writer, other)


def test_option_of_a_table_with_a_dot_in_its_name(writer: Connection) -> None:
    writer.execute('CREATE SCHEMA lake."a.b"; CREATE TABLE lake."a.b"."c""d" (a INTEGER)')
    table = TableInfo(3, "a.b", 'c"d', (), "/data/x/y/")
    set_option(writer, "hive_file_pattern", 0, ", schema => 'a.b', table_name => 'c\"d'")
    assert not uses_partition_folders(writer, table)
