"""The same query on DuckDB and, translated, on Spark: a table with a column for each type, and random expressions."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from lakeconf.engines.spark.query import query
from lakeconf.engines.spark.session import from_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# By column: its type, and its values at the edges. NULL is in each column.
COLUMNS: dict[str, tuple[str, Sequence[str]]] = {
    "t": ("TINYINT", ["0", "1", "-1", "127", "-128", "7"]),
    "s": ("SMALLINT", ["0", "1", "-1", "32767", "-32768", "100"]),
    "i": ("INTEGER", ["0", "1", "-1", "2147483647", "-2147483648", "42", "-7"]),
    "b": ("BIGINT", ["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "9007199254740993"]),
    "d": ("DECIMAL(9,2)", ["0", "1.5", "-1.5", "2.5", "-2.5", "9999999.99", "-9999999.99", "0.01", "-0.5"]),
    "e": ("DECIMAL(20,6)", ["0", "0.000001", "-12345678901234.567891", "2.5", "99999999999999.999999"]),
    "w": ("DECIMAL(38,10)", ["0", "1.5", "-0.0000000001", "9999999999999999999999999999.9999999999", "2.5"]),
    "f": ("FLOAT", ["0.0", "-0.0", "1.5", "-1.5", "nan", "inf", "-inf", "3.4e38", "0.1", "16777217", "1e-45"]),
    "g": (
        "DOUBLE",
        [
            "0.0",
            "-0.0",
            "1.5",
            "2.5",
            "-2.5",
            "nan",
            "inf",
            "-inf",
            "1e308",
            "0.1",
            "2.675",
            "267.49999999999994",
            "9007199254740993",
            "4503599627370497.5",
            "-0.5",
            "1e-320",
            "0.49999999999999994",
        ],
    ),
    "v": (
        "VARCHAR",
        [
            "",
            "a",
            "A",
            "abc",
            "a_c",
            "a%c",
            "a\\b",
            "Straße",
            "ΑΣ",
            " x ",
            "\u00a0x\u3000",
            "\tx",
            "😀é",
            "é",
            "İI",
            "10",
            "2024-01-31",
            "a'b\"c",
            "${x}",
            "a`b",
            "É",
            "null",
        ],
    ),
    "o": ("BOOLEAN", ["true", "false"]),
    # Python cannot represent dates before the year 1 and after the year 9999.
    "a": (
        "DATE",
        [
            "1970-01-01",
            "2024-02-29",
            "2023-12-31",
            "1582-10-10",
            "0200-01-01",
            "9800-12-31",
            "1969-12-31",
            "1900-03-01",
        ],
    ),
    "m": (
        "TIMESTAMP",
        [
            "1970-01-01 00:00:00",
            "2024-02-29 23:59:59.999999",
            "1969-12-31 23:59:59.000001",
            "0200-01-01 00:00:00",
            "9800-12-31 23:59:59",
            "2024-03-31 02:30:00",
            "1582-10-10 12:00:00.5",
        ],
    ),
    "z": ("TIMESTAMPTZ", ["1970-01-01 00:00:00+00", "2024-03-31 02:30:00+02"]),
    "y": ("BLOB", ["", "\\xFF\\x00", "abc"]),
}


@dataclass(frozen=True)
class Twins:
    """A table `x` in DuckDB, and the same rows as a frame.

    Attributes:
        connection: The connection to DuckDB.
        spark: The session.
        frame: The rows.
    """

    connection: duckdb.DuckDBPyConnection
    spark: SparkSession
    frame: DataFrame

    def on_spark(self, sql: str) -> DataFrame:
        """The query on Spark."""
        return query(self.spark, sql, {"x": self.frame})

    def difference(self, sql: str) -> str | None:
        """What differs between both results, in any order of the rows; None if nothing does."""
        expected = self.connection.sql(sql)
        found = self.on_spark(sql)
        if list(found.columns) != expected.columns:
            return f"columns: {expected.columns} and {found.columns}"
        left, right = (sorted(map(tuple, rows), key=repr) for rows in (expected.fetchall(), found.collect()))
        if len(left) != len(right):
            return f"{len(left)} and {len(right)} rows"
        pairs = [(one, other) for one, other in zip(left, right, strict=True) if not all(map(equal, one, other))]
        return f"{len(pairs)} rows, such as {pairs[0]}" if pairs else None


def twins(spark: SparkSession, seed: int = 0, count: int = 60) -> Twins:
    """Creates the table with random combinations of the values of each column."""
    chosen = random.Random(seed)  # noqa: S311 - repeatable
    connection = duckdb.connect()
    connection.execute("SET timezone = 'UTC'")
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    connection.execute(f"CREATE TABLE x (id INTEGER, {columns})")
    rows = [[number, *(chosen.choice([None, *values]) for _, values in COLUMNS.values())] for number in range(count)]
    connection.executemany(f"INSERT INTO x VALUES ({', '.join('?' * (len(COLUMNS) + 1))})", rows)
    return Twins(connection, spark, from_arrow(spark, connection.sql("FROM x").to_arrow_table()).cache())


def equal(one: Any, other: Any) -> bool:
    """Compares two values. The last bit of a DOUBLE may differ: see docs/sql.md."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-15)
    if isinstance(one, bytes | bytearray):
        return isinstance(other, bytes | bytearray) and bytes(one) == bytes(other)
    return bool(one == other) and type(one) is type(other)


def assert_alike(found: Twins, expressions: Iterable[str]) -> None:
    """Asserts that expressions have the same values in each row."""
    listed = list(expressions)
    sql = "SELECT id, " + ", ".join(f"{text} AS c{number}" for number, text in enumerate(listed)) + " FROM x"
    expected, got = found.connection.sql(sql), found.on_spark(sql)
    pairs = zip(sorted(expected.fetchall()), sorted(map(tuple, got.collect())), strict=True)
    for one, other in pairs:
        for number, text in enumerate(listed, start=1):
            assert equal(one[number], other[number]), f"{text}: {one[number]!r} in DuckDB, {other[number]!r} in Spark"
