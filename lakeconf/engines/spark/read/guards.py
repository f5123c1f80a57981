"""Checks that stop a scan if Spark reads something other than planned."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructType

from lakeconf.engines.spark.internals import frame_type, long_array, schema_type
from lakeconf.errors import UnsupportedError

_UNKNOWN = "lakeconf: Spark reads a file that is not in the plan of this scan; call scan() again for a new frame"
# SQL with the type of a number; its evaluation fails the job.
FAILURE = f"CAST(raise_error('{_UNKNOWN}') AS BIGINT)"
# The position of a row's file in the list of its relation; see `file_index`. Other files have larger numbers.
_NUMBER = "shiftright(unix_micros(_metadata.file_modification_time), 10)"


def file_number() -> Column:
    """The position of a row's file in the list of its relation, if the file is in the list."""
    return F.expr(_NUMBER)


def of_file(private: SparkSession, values: Sequence[int]) -> Column:
    """A property of a row's file; a row of an unknown file fails the job.

    Args:
        private: The session of the scan.
        values: The property of each file of the relation.
    """
    content = struct.pack(f"<{len(values)}q", *values)
    known = file_number().between(F.lit(0), F.lit(len(values) - 1))
    found = F.get(long_array(private, content), file_number().cast("int"))
    return F.when(known, found).otherwise(F.expr(FAILURE))


def join_known(frame: DataFrame, known: DataFrame, key: str, number: str) -> DataFrame:
    """Adds the properties of its file to each row; a row of an unknown file fails the job.

    Args:
        frame: Rows with the column `key`.
        known: A small frame with one row for each value of `key`.
        key: The column that identifies the file.
        number: A column of `known` that is never NULL.
    """
    joined = frame.join(F.broadcast(known), key, "left")
    return joined.where(F.col(number).isNotNull() | F.raise_error(F.lit(_UNKNOWN)).cast("boolean"))


def check_types(private: SparkSession, parts: Sequence[DataFrame], schema: StructType) -> None:
    """Checks that all parts of a union have the names and types of the plan: a union would cast the other parts.

    Args:
        private: The session of the scan.
        parts: The parts.
        schema: The schema that each part must have, except for nullability.

    Raises:
        UnsupportedError: A part differs.
    """
    planned = schema_type(private, schema)
    for part in parts:
        found = frame_type(part)
        if found != planned:
            raise UnsupportedError(
                f"Spark would read files of the table as {found}, but the table is {planned}",
                hint="read the table with DuckDB, and report this as a bug of lakeconf",
            )
