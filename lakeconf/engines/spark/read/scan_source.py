"""Where Spark reads the rows of a scan from, without deleted ones."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StructField, StructType

from lakeconf.catalog.data_file import DataFile, DeleteFile
from lakeconf.catalog.file_footers import files_with
from lakeconf.connection.connection import Connection, connect
from lakeconf.ducklake import INTERNAL_SNAPSHOT_ID
from lakeconf.engines.spark.internals import frame_type, long_array, schema_type
from lakeconf.engines.spark.read.file_index import check_local, relation
from lakeconf.errors import UnsupportedError
from lakeconf.sql import files_sql

_UNKNOWN = "lakeconf: Spark reads a file that is not in the plan of this scan; call scan() again for a new frame"
# SQL with the type of a number; its evaluation fails the job.
FAILURE = f"CAST(raise_error('{_UNKNOWN}') AS BIGINT)"
# The position of a row's file in the list of its relation; see `file_index`. Other files have larger numbers.
_NUMBER = "shiftright(unix_micros(_metadata.file_modification_time), 10)"
SNAPSHOT_COLUMN = INTERNAL_SNAPSHOT_ID.name
# Above these limits the plan would be large and planning slow, so the scan uses a join.
_MOST_POSITIONS, _MOST_ROWS, _MOST_FILES = 5_000_000, 1 << 26, 500
# One long identifies a row: the upper half is the number of the file, the lower half the row's position in the file.
ROW = "__lakeconf_row"
POSITION_BITS = 32
# Positions are grouped in words of 32 bits, so that neighbouring rows share a lookup.
_WORD_BITS, _MASK = 5, 31
_WORD, _BITS = "__lakeconf_word", "__lakeconf_bits"
# Maximum numbers of positions that one task groups, and that are broadcast to every executor.
_BY_ONE_TASK, _BROADCAST = 2_000_000, 20_000_000
# The maximum number of delete files that one task opens.
_FEW_FILES = 16


def file_number() -> Column:
    """The position of a row's file in the list of its relation, if the file is in the list."""
    return F.expr(_NUMBER)


def of_file(private: SparkSession, values: Sequence[int]) -> Column:
    """A property of a row's file; a row of an unknown file fails the job."""
    content = struct.pack(f"<{len(values)}q", *values)
    is_known = file_number().between(F.lit(0), F.lit(len(values) - 1))
    value = F.get(long_array(private, content), file_number().cast("int"))
    return F.when(is_known, value).otherwise(F.expr(FAILURE))


def join_known(frame: DataFrame, properties: DataFrame, key: str, number: str) -> DataFrame:
    """Adds the properties of its file to each row; a row of an unknown file fails the job."""
    joined = frame.join(F.broadcast(properties), key, "left")
    return joined.where(F.col(number).isNotNull() | F.raise_error(F.lit(_UNKNOWN)).cast("boolean"))


def check_types(private: SparkSession, parts: Sequence[DataFrame], schema: StructType) -> None:
    """Checks that all parts of a union have the names and types of the plan: a union would cast the other parts."""
    planned = schema_type(private, schema)
    for part in parts:
        part_type = frame_type(part)
        if part_type != planned:
            raise UnsupportedError(
                f"Spark would read files of the table as {part_type}, but the table is {planned}",
                hint="read the table with DuckDB, and report this as a bug of lakeconf",
            )


def bitmap_condition(private: SparkSession, files: Sequence[DataFile], snapshot_id: int) -> Column | None:
    """The condition for the rows of some files that are not deleted."""
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
        and all(file.path.startswith("/") for file in deletes)  # DuckDB reads them directly
    )


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
    marked = files_with(duckdb, sorted(paths), SNAPSHOT_COLUMN)
    visible = f" AND ({SNAPSHOT_COLUMN} IS NULL OR {SNAPSHOT_COLUMN} <= {snapshot_id})"
    # A path that DuckDB reports in another form would lose deletes, so the query fails.
    row = "CASE WHEN base IS NULL THEN error('an unknown delete file: ' || filename) ELSE base + pos END AS row"
    return [
        f"SELECT {row} FROM {files_sql('read_parquet', sorted(part), 'filename = true')} "
        f"LEFT JOIN starts USING (filename) WHERE (base IS NULL OR pos < record_count){condition}"
        for condition, part in ((visible, marked), ("", set(paths) - marked))
        if part
    ]


def without_deleted(private: SparkSession, frame: DataFrame, files: Sequence[DataFile], snapshot_id: int) -> DataFrame:
    """The rows of a relation that are not deleted."""
    bases = {file.path: number << POSITION_BITS for number, file in enumerate(files)}
    count = sum(file.deleted for file in files)
    has_few = count <= _BY_ONE_TASK and sum(file.delete_file is not None for file in files) <= _FEW_FILES
    words = _words(_deleted(private, files, bases, snapshot_id), by_one_task=has_few)
    if count <= _BROADCAST:
        words = F.broadcast(words)
    joined = frame.join(words, F.expr(f"shiftright({ROW}, {_WORD_BITS}) = {_WORD}"), "left")
    return joined.where(f"{_BITS} IS NULL OR (shiftright({_BITS}, cast({ROW} & {_MASK} AS int)) & 1) = 0")


def row_number(private: SparkSession, files: Sequence[DataFile]) -> Column:
    """The value of `ROW`; a row of an unknown file fails the job."""
    bases = [number << POSITION_BITS for number in range(len(files))]
    return of_file(private, bases) + F.col("_metadata.row_index")


def _words(deleted: DataFrame, *, by_one_task: bool) -> DataFrame:
    if by_one_task:
        # Spark can then group them without a shuffle.
        deleted = deleted.coalesce(1)
    bits = F.expr(f"bit_or(shiftleft(1L, cast(row & {_MASK} AS int))) AS {_BITS}")
    return deleted.groupBy(F.expr(f"shiftright(row, {_WORD_BITS}) AS {_WORD}")).agg(bits)


def _deleted(private: SparkSession, files: Sequence[DataFile], bases: Mapping[str, int], snapshot_id: int) -> DataFrame:
    """The deleted rows, in one column `row`."""
    parts = []
    in_files = {file.delete_file: bases[file.path] for file in files if file.delete_file is not None}
    if in_files:
        parts.append(_in_files(private, in_files, snapshot_id))
    in_catalog = [bases[file.path] + position for file in files for position in file.inlined_deletes]
    if in_catalog:
        parts.append(private.createDataFrame(pa.table({"row": pa.array(in_catalog, pa.int64())})))
    return reduce(DataFrame.unionAll, parts)


def _in_files(private: SparkSession, bases: Mapping[DeleteFile, int], snapshot_id: int) -> DataFrame:
    schema = StructType([StructField("pos", LongType()), StructField(SNAPSHOT_COLUMN, LongType())])
    frame = relation(private, list(bases), schema)
    visible = frame.where(f"{SNAPSHOT_COLUMN} IS NULL OR {SNAPSHOT_COLUMN} <= {snapshot_id}")
    return visible.select((of_file(private, list(bases.values())) + F.col("pos")).alias("row"))
