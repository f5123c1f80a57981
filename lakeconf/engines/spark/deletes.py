"""Deleted rows: the positions that delete files and the catalog name, taken out of a frame of data files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StructField, StructType

from lakeconf.catalog.data_file import DataFile, DeleteFile
from lakeconf.engines.spark import worker
from lakeconf.engines.spark.relation import Relation, relation

# A row of a file is one long: what tells the file from the others, and the row's position in it.
ROW = "__lakeconf_row"
_POSITION_BITS = 32
# Positions come in words of 64, so that neighbouring rows look in one place.
_WORD_BITS = 6
_WORD, _BITS = "__lakeconf_word", "__lakeconf_bits"
_FEW, _BROADCAST_LIMIT = 2_000_000, 20_000_000
_SNAPSHOT_COLUMN = "_ducklake_internal_snapshot_id"


def without_deleted(
    private: SparkSession, frame: DataFrame, files: Sequence[DataFile], snapshot_id: int, *, by_size: bool
) -> DataFrame:
    """The rows of a frame that no delete names.

    Args:
        private: The session of the scan.
        frame: All rows of `files`, with the column `ROW`.
        files: The files, which are those of the frame.
        snapshot_id: Deletes of later snapshots are not applied.
        by_size: True where `ROW` has the size of the file, False where it has the place of the file in `files`.
    """
    bases = {
        file.path: (file.file_size_bytes if by_size else index) << _POSITION_BITS for index, file in enumerate(files)
    }
    count = sum(file.delete_file.delete_count for file in files if file.delete_file)
    deleted = _deleted(private, files, bases, snapshot_id)
    if count <= _FEW:
        # One task, so that Spark need not shuffle to group them.
        deleted = deleted.coalesce(1)
    words = deleted.groupBy(F.shiftright("row", _WORD_BITS).alias(_WORD)).agg(
        F.bit_or(F.expr("shiftleft(1L, cast(row & 63 AS int))")).alias(_BITS)
    )
    if count <= _BROADCAST_LIMIT:
        words = F.broadcast(words)
    joined = frame.join(words, F.shiftright(ROW, _WORD_BITS) == F.col(_WORD), "left")
    return joined.where(f"{_BITS} IS NULL OR (shiftright({_BITS}, cast({ROW} & 63 AS int)) & 1) = 0")


def _deleted(private: SparkSession, files: Sequence[DataFile], bases: Mapping[str, int], snapshot_id: int) -> DataFrame:
    """One column, `row`: the deleted rows."""
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
    schema = StructType([StructField("pos", LongType()), StructField(_SNAPSHOT_COLUMN, LongType())])
    opened = relation(private, list(bases), schema)
    visible = F.col(_SNAPSHOT_COLUMN).isNull() | (F.col(_SNAPSHOT_COLUMN) <= snapshot_id)
    positions = opened.frame.where(visible).select("pos", F.col("_metadata.file_path").alias("name"))
    return _with_base(private, positions, opened, bases).select((F.col("base") + F.col("pos")).alias("row"))


def _in_vectors(private: SparkSession, bases: Mapping[DeleteFile, int]) -> DataFrame:
    opened = relation(private, list(bases), source="binaryFile")
    contents = opened.frame.select("content", F.col("_metadata.file_path").alias("name"))
    found = _with_base(private, contents, opened, bases).select("base", "content")
    return found.mapInArrow(worker.puffin_reader, StructType([StructField("row", LongType())]))


def _with_base(private: SparkSession, frame: DataFrame, opened: Relation, bases: Mapping[DeleteFile, int]) -> DataFrame:
    """Adds `base`, what the rows of the data file begin with."""
    table = pa.table(
        {
            "name": pa.array([opened.names[file.path] for file in bases], pa.string()),
            "base": pa.array(list(bases.values()), pa.int64()),
        }
    )
    return frame.join(F.broadcast(private.createDataFrame(table)), "name")
