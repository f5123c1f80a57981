"""Removes deleted rows from a frame of data files: the positions in delete files and in the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StructField, StructType

from lakeconf.catalog.data_file import DataFile, DeleteFile
from lakeconf.engines.spark.read import executor_code
from lakeconf.engines.spark.read.bitmap import SNAPSHOT_COLUMN
from lakeconf.engines.spark.read.source import Source

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


def without_deleted(source: Source, frame: DataFrame, files: Sequence[DataFile], snapshot_id: int) -> DataFrame:
    """The rows of a relation that are not deleted.

    Args:
        source: Reads the delete files.
        frame: All rows of `files`, with the column `ROW`, which `row_number` computes.
        files: The files, in the order of the relation.
        snapshot_id: Deletes of later snapshots are not applied.
    """
    bases = {file.path: number << POSITION_BITS for number, file in enumerate(files)}
    count = sum(
        len(file.inlined_deletes) + (file.delete_file.delete_count if file.delete_file else 0) for file in files
    )
    has_few = count <= _BY_ONE_TASK and sum(file.delete_file is not None for file in files) <= _FEW_FILES
    words = _words(_deleted(source, files, bases, snapshot_id), by_one_task=has_few)
    if count <= _BROADCAST:
        words = F.broadcast(words)
    joined = frame.join(words, F.expr(f"shiftright({ROW}, {_WORD_BITS}) = {_WORD}"), "left")
    return joined.where(f"{_BITS} IS NULL OR (shiftright({_BITS}, cast({ROW} & {_MASK} AS int)) & 1) = 0")


def row_number(source: Source, files: Sequence[DataFile]) -> Column:
    """The value of `ROW`; a row of an unknown file fails the job.

    Args:
        source: Reads the files.
        files: The files of the relation.
    """
    bases = [number << POSITION_BITS for number in range(len(files))]
    return source.of_file(files, bases) + F.col("_metadata.row_index")


def _words(deleted: DataFrame, *, by_one_task: bool) -> DataFrame:
    if by_one_task:
        # Spark can then group them without a shuffle.
        deleted = deleted.coalesce(1)
    bits = F.expr(f"bit_or(shiftleft(1L, cast(row & {_MASK} AS int))) AS {_BITS}")
    return deleted.groupBy(F.expr(f"shiftright(row, {_WORD_BITS}) AS {_WORD}")).agg(bits)


def _deleted(source: Source, files: Sequence[DataFile], bases: Mapping[str, int], snapshot_id: int) -> DataFrame:
    """The deleted rows, in one column `row`."""
    parts = []
    in_files = {file.delete_file: bases[file.path] for file in files if file.delete_file is not None}
    in_parquet = {file: base for file, base in in_files.items() if file.format == "parquet"}
    if in_parquet:
        parts.append(_in_parquet(source, in_parquet, snapshot_id))
    if len(in_parquet) < len(in_files):
        parts.append(_in_vectors(source, {file: in_files[file] for file in in_files if file not in in_parquet}))
    in_catalog = [bases[file.path] + position for file in files for position in file.inlined_deletes]
    if in_catalog:
        parts.append(source.session.createDataFrame(pa.table({"row": pa.array(in_catalog, pa.int64())})))
    return reduce(DataFrame.unionAll, parts)


def _in_parquet(source: Source, bases: Mapping[DeleteFile, int], snapshot_id: int) -> DataFrame:
    schema = StructType([StructField("pos", LongType()), StructField(SNAPSHOT_COLUMN, LongType())])
    frame = source.relation(list(bases), schema)
    visible = frame.where(f"{SNAPSHOT_COLUMN} IS NULL OR {SNAPSHOT_COLUMN} <= {snapshot_id}")
    return visible.select((source.of_file(list(bases), list(bases.values())) + F.col("pos")).alias("row"))


def _in_vectors(source: Source, bases: Mapping[DeleteFile, int]) -> DataFrame:
    contents = source.relation(list(bases), format_name="binaryFile")
    found = contents.select(source.of_file(list(bases), list(bases.values())).alias("base"), "content")
    return found.mapInArrow(executor_code.puffin_reader, StructType([StructField("row", LongType())]))
