"""How the files of a lake are compressed, from the lake's options."""

from __future__ import annotations

from lakeconf.catalog.table import TableInfo
from lakeconf.connection import Connection
from lakeconf.engines.selection import full_name
from lakeconf.errors import UnsupportedError

# The codecs that Spark and DuckDB both write, by DuckLake's name.
_CODECS = {
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4": "lz4raw",
    "lz4_raw": "lz4raw",
}
_LEVELS = {"zstd": "parquet.compression.codec.zstd.level", "gzip": "zlib.compress.level"}
_ROW_GROUP = "parquet.block.size"
# DuckDB's own is snappy; this is smaller, and as fast to read.
_DEFAULT = "zstd"


def compression(writer: Connection, table: TableInfo) -> dict[str, str]:
    """The options of Spark's Parquet writer for a table.

    Args:
        writer: A connection whose default database is the lake.
        table: The table; its own options win over its schema's, and those over the lake's.

    Raises:
        UnsupportedError: The lake's files are encrypted, or compressed as Spark cannot.
    """
    ((alias,),) = writer.rows("SELECT current_database()")
    rows = writer.rows("SELECT option_name, value, scope, scope_entry FROM ducklake_options(?)", [alias])
    order = {"GLOBAL": 0, "SCHEMA": 1, "TABLE": 2}
    entries = {"GLOBAL": None, "SCHEMA": table.schema_name, "TABLE": full_name(table)}
    ordered = sorted(rows, key=lambda row: order[row[2]])
    found: dict[str, object] = {name: value for name, value, scope, entry in ordered if entries[scope] in (None, entry)}
    if str(found.get("encrypted", "false")).lower() == "true":
        raise UnsupportedError(
            f"the files of {full_name(table)} are encrypted, and Spark would write them in clear",
            hint="open the lake with DuckDB to write to it: store.open()",
        )
    codec = str(found.get("parquet_compression", _DEFAULT)).lower()
    if codec not in _CODECS:
        raise UnsupportedError(
            f"the lake's option parquet_compression is {codec!r}, which Spark does not write",
            hint=f"one that both have: {', '.join(sorted(_CODECS))}; or write with DuckDB",
        )
    options = {"compression": _CODECS[codec]}
    if codec in _LEVELS and "parquet_compression_level" in found:
        options[_LEVELS[codec]] = str(found["parquet_compression_level"])
    if "parquet_row_group_size_bytes" in found:
        options[_ROW_GROUP] = str(found["parquet_row_group_size_bytes"])
    return options
