"""What is compared where two engines read the same rows: counts, and hashes that do not depend on any order.

There is one definition, in DuckDB's SQL: the sum of the lower halves of the MD5 of each value's text. Of rows that
Spark has read it is computed by DuckDB too, inside the executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fingerprint:
    """A column as one engine reads it.

    Attributes:
        values: How many of its values are not NULL.
        hash: The sum of the hashes of its values; the same for the same values in any order.
    """

    values: int
    hash: int


@dataclass(frozen=True)
class ColumnCheck:
    """A column as both engines read it.

    Attributes:
        name: Its name.
        type: DuckLake's name of its type.
        duckdb: What DuckDB reads.
        spark: What Spark reads.
        is_hashed: False where its values have no text that both engines share, such as a VARIANT's: only how many
            there are is compared.
    """

    name: str
    type: str
    duckdb: Fingerprint
    spark: Fingerprint
    is_hashed: bool = True

    @property
    def equal(self) -> bool:
        """True where both engines read the same."""
        return self.duckdb == self.spark


@dataclass(frozen=True)
class TableCheck:
    """A table as both engines read it.

    Attributes:
        duckdb_rows: How many rows DuckDB reads.
        spark_rows: How many rows Spark reads.
        columns: The columns.
    """

    duckdb_rows: int
    spark_rows: int
    columns: tuple[ColumnCheck, ...]


def fingerprint_sql(column_count: int, source: str) -> str:
    """The query for the fingerprints of the columns `c0`, `c1`, … of `source`.

    Returns:
        SQL whose one row is: how many rows; then of each column how many values, and their hash.
    """
    parts = ["count(*) AS row_count"]
    for index in range(column_count):
        hashes = f"CAST(md5_number_lower(CAST(c{index} AS VARCHAR)) AS HUGEINT)"
        parts.append(f"count(c{index}) AS values{index}")
        parts.append(f"CAST(coalesce(sum({hashes}), 0) AS DECIMAL(38, 0)) AS hash{index}")
    return f"SELECT {', '.join(parts)} FROM {source}"


def fingerprints(row: Sequence[int]) -> tuple[int, list[Fingerprint]]:
    """How many rows, and the fingerprints, from the row of `fingerprint_sql` or the sum of several."""
    count, *rest = (int(value) for value in row)
    return count, [Fingerprint(values, total) for values, total in zip(rest[::2], rest[1::2], strict=True)]
