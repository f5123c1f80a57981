"""Checksums of the columns of a table, by which DuckDB and Spark are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fingerprint:
    """The checksum of a column as one engine reads it."""

    values: int  # number of values that are not NULL
    hash: int  # sum of the hashes of the values; does not depend on their order


@dataclass(frozen=True)
class ColumnCheck:
    """A comparison of a column between DuckDB and Spark.

    Attributes:
        name: Name of the column.
        type: DuckLake type of the column.
        duckdb: Checksum of the values that DuckDB reads.
        spark: Checksum of the values that Spark reads.
        is_hashed: False if the engines have no common text for the values, as for VARIANT: only the number of
            values is compared.
    """

    name: str
    type: str
    duckdb: Fingerprint
    spark: Fingerprint
    is_hashed: bool = True

    @property
    def equal(self) -> bool:
        """True if both engines read the same values."""
        return self.duckdb == self.spark


@dataclass(frozen=True)
class TableCheck:
    """A comparison of a table between DuckDB and Spark.

    Attributes:
        duckdb_rows: Number of rows that DuckDB reads.
        spark_rows: Number of rows that Spark reads.
        columns: The comparison of each column.
    """

    duckdb_rows: int
    spark_rows: int
    columns: tuple[ColumnCheck, ...]


def fingerprint_sql(column_count: int, source: str) -> str:
    """The query for the fingerprints of the columns `c0`, `c1`, … of `source`."""
    parts = ["count(*) AS row_count"]
    for index in range(column_count):
        hashes = f"CAST(md5_number_lower(CAST(c{index} AS VARCHAR)) AS HUGEINT)"
        parts.append(f"count(c{index}) AS values{index}")
        parts.append(f"CAST(coalesce(sum({hashes}), 0) AS DECIMAL(38, 0)) AS hash{index}")
    return f"SELECT {', '.join(parts)} FROM {source}"


def fingerprints(row: Sequence[int]) -> tuple[int, list[Fingerprint]]:
    """The number of rows and the fingerprints, from the row of `fingerprint_sql` or the sum of several such rows."""
    count, *rest = (int(value) for value in row)
    return count, [Fingerprint(values, total) for values, total in zip(rest[::2], rest[1::2], strict=True)]
