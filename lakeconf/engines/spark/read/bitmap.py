"""Deleted rows as a bitmap in the plan: the fastest method if the driver can read the delete files.

A join needs a job for its small side and a hash lookup for each row. With a bitmap, each row looks up the offset of its
file's bits, and then its bit, in two arrays that are sent with the tasks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.catalog.data_file import DataFile, DeleteFile
from lakeconf.connection.connection import Connection, connect
from lakeconf.ducklake import INTERNAL_SNAPSHOT_ID
from lakeconf.engines.spark.internals import long_array
from lakeconf.engines.spark.read.guards import of_file
from lakeconf.engines.spark.read.relation import check_local
from lakeconf.sql import literal

SNAPSHOT_COLUMN = INTERNAL_SNAPSHOT_ID.name
# Above these limits the plan would be large and planning slow, so the scan uses a join.
_MOST_POSITIONS, _MOST_ROWS, _MOST_FILES = 5_000_000, 1 << 26, 500
_PATTERN = re.compile(r"[*?\[]")


def bitmap_condition(private: SparkSession, files: Sequence[DataFile], snapshot_id: int) -> Column | None:
    """The condition for the rows of some files that are not deleted.

    Args:
        private: The session of the scan.
        files: The files, in the order of the relation whose rows the condition selects.
        snapshot_id: Deletes of later snapshots are not applied.

    Returns:
        The condition; None if the driver cannot read the delete files, or if they exceed the limits.

    Raises:
        StorageError: A delete file is missing, or differs from the one in the catalog.
    """
    if not _is_at_hand(files):
        return None
    check_local([file.delete_file for file in files if file.delete_file])
    bases, _ = _bases(files)
    row = of_file(private, list(bases.values())) + F.col("_metadata.row_index")
    word = F.get(long_array(private, _kept_bits(tuple(files), snapshot_id)), _shifted(row, F.lit(6)).cast("int"))
    return _shifted(word, row.bitwiseAND(F.lit(63)).cast("int")).bitwiseAND(F.lit(1)) != F.lit(1)


def _is_at_hand(files: Sequence[DataFile]) -> bool:
    deletes = [file.delete_file for file in files if file.delete_file]
    return (
        len(files) <= _MOST_FILES
        and sum(file.record_count for file in files) <= _MOST_ROWS
        and sum(file.delete_count for file in deletes) <= _MOST_POSITIONS
        and all(map(_is_readable, deletes))
    )


def _is_readable(file: DeleteFile) -> bool:
    """True if DuckDB reads it directly: a local, unencrypted Parquet file whose name is not a glob pattern."""
    is_plain = file.format == "parquet" and file.encryption_key is None
    return is_plain and file.path.startswith("/") and not _PATTERN.search(file.path)


def _shifted(value: Column, count: Column) -> Column:
    return F.call_function("shiftright", value, count)


def _bases(files: Sequence[DataFile]) -> tuple[dict[str, int], int]:
    """The number of the first bit of each file, by path, and the number of all bits."""
    bases, end = {}, 0
    for file in files:
        bases[file.path] = end
        end += -(-file.record_count // 64) * 64
    return bases, end


@functools.lru_cache(maxsize=4)
def _kept_bits(files: tuple[DataFile, ...], snapshot_id: int) -> bytes:
    """The bits of the files of the last scans, up to 8 MB each: delete files never change."""
    return _bits(files, *_bases(files), snapshot_id)


def _bits(files: Sequence[DataFile], bases: Mapping[str, int], end: int, snapshot_id: int) -> bytes:
    """One bit per row, set if the row is deleted, as little-endian words of 64 bits."""
    with_file = [file for file in files if file.delete_file]
    check_local([file.delete_file for file in with_file if file.delete_file])
    starts = {
        "filename": pa.array([file.delete_file.path for file in with_file if file.delete_file], pa.string()),
        "base": pa.array([bases[file.path] for file in with_file], pa.int64()),
        "record_count": pa.array([file.record_count for file in with_file], pa.int64()),
    }
    inlined = [bases[f.path] + position for f in files for position in f.inlined_deletes if position < f.record_count]
    with connect() as duckdb:
        duckdb.register("starts", pa.table(starts))
        duckdb.register("inlined", pa.table({"row": pa.array(inlined, pa.int64())}))
        paths = starts["filename"].to_pylist()
        rows = " UNION ALL ".join(["SELECT row FROM inlined", *_sources(duckdb, paths, snapshot_id)])
        words = duckdb.arrow(
            f"WITH words AS (SELECT row >> 6 AS word, bit_or(1::UBIGINT << (row & 63)::UBIGINT) AS bits "
            f"FROM ({rows}) GROUP BY ALL) "
            f"SELECT coalesce(bits, 0) AS bits FROM range({end // 64 + 1}) r(word) LEFT JOIN words USING (word) "
            "ORDER BY word"
        )
    bits = words.combine_chunks()["bits"].chunk(0)
    return bytes(bits.buffers()[1].slice(8 * bits.offset, 8 * len(bits)))


def _sources(duckdb: Connection, paths: Sequence[str], snapshot_id: int) -> list[str]:
    """SQL that reads the deleted rows in delete files, without deletes of later snapshots."""
    if not paths:
        return []
    having = f"SELECT file_name FROM parquet_schema({_listed(paths)}) WHERE name = ?"
    marked = {path for (path,) in duckdb.rows(having, [SNAPSHOT_COLUMN])}
    visible = f" AND ({SNAPSHOT_COLUMN} IS NULL OR {SNAPSHOT_COLUMN} <= {snapshot_id})"
    # A path that DuckDB reports in another form would lose deletes, so the query fails.
    row = "CASE WHEN base IS NULL THEN error('an unknown delete file: ' || filename) ELSE base + pos END AS row"
    return [
        f"SELECT {row} FROM read_parquet({_listed(part)}, filename = true, hive_partitioning = false) "
        f"LEFT JOIN starts USING (filename) WHERE (base IS NULL OR pos < record_count){condition}"
        for condition, part in ((visible, marked), ("", set(paths) - marked))
        if part
    ]


def _listed(paths: Iterable[str]) -> str:
    return f"[{', '.join(map(literal, sorted(paths)))}]"
