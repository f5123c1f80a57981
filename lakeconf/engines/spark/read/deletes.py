"""Removes deleted rows from a frame of data files: the positions in delete files and in the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StructField, StructType

from lakeconf.catalog.data_file import DataFile, DeleteFile
from lakeconf.engines.spark.read import executor_code
from lakeconf.engines.spark.read.bitmap import SNAPSHOT_COLUMN
from lakeconf.engines.spark.read.guards import UNKNOWN_FILE_SQL, join_known
from lakeconf.engines.spark.read.relation import Relation, relation

# One long identifies a row: the upper half is a number of the file, the lower half the row's position in the file.
ROW, MARK = "__lakeconf_row", "__lakeconf_mark"
POSITION_BITS = 32
# Positions are grouped in words of 32 bits, so that neighbouring rows share a lookup.
_WORD_BITS, _MASK = 5, 31
_WORD, _BITS, _KNOWN = "__lakeconf_word", "__lakeconf_bits", "__lakeconf_known"
# Maximum numbers of positions that one task groups, and that are broadcast to every executor.
_BY_ONE_TASK, _BROADCAST = 2_000_000, 20_000_000
_FEW_FILES = 100


def with_marked_rows(private: SparkSession, frame: DataFrame, marks: Mapping[str, int]) -> DataFrame:
    """Computes `ROW` from a position and the mark of its file; a row of an unknown file fails the job.

    Args:
        private: The session of the scan.
        frame: Rows with `MARK`, and with the position in `ROW`.
        marks: The mark of each file of the frame.
    """
    row = f"shiftleft({MARK}, {POSITION_BITS}) + {ROW}"
    if len(marks) <= _FEW_FILES:
        known = ", ".join(f"{mark}L" for mark in marks.values())
        return frame.withColumn(ROW, F.expr(f"CASE WHEN {MARK} IN ({known}) THEN {row} ELSE {UNKNOWN_FILE_SQL} END"))
    table = pa.table({MARK: pa.array(list(marks.values()), pa.int64())}).append_column(
        _KNOWN, pa.array([1] * len(marks), pa.int64())
    )
    return join_known(frame, private.createDataFrame(table), MARK, _KNOWN).withColumn(ROW, F.expr(row))


def without_deleted(
    private: SparkSession,
    frame: DataFrame,
    files: Sequence[DataFile],
    marks: Mapping[str, int] | None,
    snapshot_id: int,
) -> DataFrame:
    """The rows of a frame that are not deleted.

    Args:
        private: The session of the scan.
        frame: All rows of `files`, with the column `ROW`.
        files: The files, which are those of the frame.
        marks: The upper half of `ROW` for each file; default: the file's index in `files`.
        snapshot_id: Deletes of later snapshots are not applied.
    """
    numbers = marks or {file.path: index for index, file in enumerate(files)}
    bases = {path: number << POSITION_BITS for path, number in numbers.items()}
    count = sum(
        len(file.inlined_deletes) + (file.delete_file.delete_count if file.delete_file else 0) for file in files
    )
    words = _words(_deleted(private, files, bases, snapshot_id), count)
    if count <= _BROADCAST:
        words = F.broadcast(words)
    joined = frame.join(words, F.expr(f"shiftright({ROW}, {_WORD_BITS}) = {_WORD}"), "left")
    return joined.where(f"{_BITS} IS NULL OR (shiftright({_BITS}, cast({ROW} & {_MASK} AS int)) & 1) = 0")


def _words(deleted: DataFrame, count: int) -> DataFrame:
    if count <= _BY_ONE_TASK:
        # Spark can then group them without a shuffle.
        deleted = deleted.coalesce(1)
    bits = F.expr(f"bit_or(shiftleft(1L, cast(row & {_MASK} AS int))) AS {_BITS}")
    return deleted.groupBy(F.expr(f"shiftright(row, {_WORD_BITS}) AS {_WORD}")).agg(bits)


def _deleted(private: SparkSession, files: Sequence[DataFile], bases: Mapping[str, int], snapshot_id: int) -> DataFrame:
    """The deleted rows, in one column `row`."""
    parts = []
    in_files = {file.delete_file: bases[file.path] for file in files if file.delete_file is not None}
    in_parquet = {file: base for file, base in in_files.items() if file.format == "parquet"}
    if in_parquet:
        parts.append(_in_parquet(private, in_parquet, snapshot_id))
    if len(in_parquet) < len(in_files):
        parts.append(_in_vectors(private, {file: in_files[file] for file in in_files if file not in in_parquet}))
    in_catalog = [bases[file.path] + position for file in files for position in file.inlined_deletes]
    if in_catalog:
        parts.append(private.createDataFrame(pa.table({"row": pa.array(in_catalog, pa.int64())})))
    return reduce(DataFrame.unionAll, parts)


def _in_parquet(private: SparkSession, bases: Mapping[DeleteFile, int], snapshot_id: int) -> DataFrame:
    schema = StructType([StructField("pos", LongType()), StructField(SNAPSHOT_COLUMN, LongType())])
    opened = relation(private, list(bases), schema)
    frame = opened.frame.where(f"{SNAPSHOT_COLUMN} IS NULL OR {SNAPSHOT_COLUMN} <= {snapshot_id}")
    if opened.marks is not None and len(bases) <= _FEW_FILES:
        # For so few files, a join takes longer to set up than a CASE.
        cases = " ".join(f"WHEN {opened.marks[file.path]} THEN {base}L" for file, base in bases.items())
        return frame.selectExpr(f"CASE {opened.mark_sql} {cases} ELSE {UNKNOWN_FILE_SQL} END + pos AS row")
    positions = frame.selectExpr("pos", "_metadata.file_path AS name")
    return _with_base(private, positions, opened, bases).selectExpr("base + pos AS row")


def _in_vectors(private: SparkSession, bases: Mapping[DeleteFile, int]) -> DataFrame:
    opened = relation(private, list(bases), source="binaryFile")
    contents = opened.frame.select("content", F.col("_metadata.file_path").alias("name"))
    found = _with_base(private, contents, opened, bases).select("base", "content")
    return found.mapInArrow(executor_code.puffin_reader, StructType([StructField("row", LongType())]))


def _with_base(private: SparkSession, frame: DataFrame, opened: Relation, bases: Mapping[DeleteFile, int]) -> DataFrame:
    """Adds `base`, the `ROW` of the data file's first row."""
    table = pa.table(
        {
            "name": pa.array([opened.names[file.path] for file in bases], pa.string()),
            "base": pa.array(list(bases.values()), pa.int64()),
        }
    )
    return join_known(frame, private.createDataFrame(table), "name", "base")
