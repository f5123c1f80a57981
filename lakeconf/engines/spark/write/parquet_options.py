"""Options for writing files, from the lake's options: compression and size."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lakeconf.catalog.tables import TableInfo
from lakeconf.connection.connection import Connection
from lakeconf.errors import UnsupportedError

# The codecs that both Spark and DuckDB write, by DuckLake's name.
_CODECS = {
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4": "lz4_raw",
    "lz4_raw": "lz4_raw",
}
_LEVELS = {"zstd": "parquet.compression.codec.zstd.level", "gzip": "zlib.compress.level"}
_ROW_GROUP = "parquet.block.size"
# DuckLake's default.
_TARGET_FILE_SIZE = "512MB"
_SIZE = re.compile(r"([\d.]+)\s*([KMGT]?)(I?)B?", re.IGNORECASE)
# DuckDB's default is snappy; zstd is smaller and as fast to read.
_DEFAULT = "zstd"
# Of a file and, behind `#`, of a column. DuckDB finds no BLOB by a Bloom filter.
_FORCED = {"parquet.column.statistics.enabled": "true", "parquet.bloom.filter.enabled": "false"}


def parquet_options(writer: Connection, table: TableInfo, row_width: int) -> dict[str, str]:
    """The options of Spark's Parquet writer for a table.

    A task starts a new file before a file exceeds `target_file_size`, estimated from the rows of the table. Rows do not
    move between tasks for this.
    """
    settings = lake_options(writer, table)
    if str(settings.get("encrypted", "false")).lower() == "true":
        raise UnsupportedError(
            f"the files of {table.full_name} are encrypted, and Spark would write them unencrypted",
            hint="open the lake with DuckDB to write to it: store.open()",
        )
    codec = str(settings.get("parquet_compression", _DEFAULT)).lower()
    if codec not in _CODECS:
        raise UnsupportedError(
            f"the lake's option parquet_compression is {codec!r}, which Spark cannot write",
            hint=f"use a codec that both support: {', '.join(sorted(_CODECS))}; or write with DuckDB",
        )
    target = _bytes(str(settings.get("target_file_size", _TARGET_FILE_SIZE)))
    rows_per_file = max(int(target / (table.bytes_per_row or row_width)), 1)
    options = {"compression": _CODECS[codec], "maxRecordsPerFile": str(rows_per_file)}
    if codec in _LEVELS and "parquet_compression_level" in settings:
        options[_LEVELS[codec]] = str(settings["parquet_compression_level"])
    if "parquet_row_group_size_bytes" in settings:
        options[_ROW_GROUP] = str(settings["parquet_row_group_size_bytes"])
    return options


def bounds_options(settings: Iterable[str]) -> dict[str, str]:
    """The options with which footers have bounds, whatever the settings of a session are; `settings` are their names.

    Spark's default has none of strings above 4 KiB. Without them, DuckLake forgets the bounds of the whole table,
    takes those of the next insert instead, and DuckDB skips the rows outside them.
    """
    columns = {
        key.removeprefix("spark.hadoop."): value
        for key in settings
        for name, value in _FORCED.items()
        if f"{name}#" in key
    }
    return {"parquet.statistics.truncate.length": "256", **_FORCED, **columns}


def uses_partition_folders(writer: Connection, table: TableInfo) -> bool:
    """False if the lake's options tell DuckLake to write the files of all partitions to one folder."""
    return str(lake_options(writer, table).get("hive_file_pattern", "true")).lower() == "true"


def lake_options(writer: Connection, table: TableInfo) -> dict[str, object]:
    """The lake's options for a table."""
    query = "SELECT option_name, value, scope, scope_entry FROM ducklake_options(?)"
    rows = writer.rows(query, [writer.database])
    order = {"GLOBAL": 0, "SCHEMA": 1, "TABLE": 2}
    # DuckLake does not quote the names.
    entries = {"GLOBAL": None, "SCHEMA": table.schema_name, "TABLE": f"{table.schema_name}.{table.name}"}
    ordered = sorted(rows, key=lambda row: order[row[2]])
    return {name: value for name, value, scope, entry in ordered if entries[scope] in (None, entry)}


def _bytes(text: str) -> float:
    """Parses a size in a format of DuckDB: a number of bytes, `512MB`, `1.5 GiB`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UnsupportedError(
            f"the lake's option target_file_size is {text!r}, which is not a size", hint="use a value such as 512MB"
        )
    number, unit, binary = match.groups()
    return float(number) * float(1024 if binary else 1000) ** " KMGT".index(unit.upper() or " ")
