"""The bounds of staged keys include every key; where the footers prove nothing, there is no bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.catalog.column_types import columns_of
from lakeconf.catalog.pruning.predicates import to_duckdb_sql
from lakeconf.connection.connection import Connection, connect
from lakeconf.engines.spark.write.files import writing_session
from lakeconf.write.operations.merge.key_bounds import key_bounds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

TYPES = {"n": "BIGINT", "s": "VARCHAR", "d": "DECIMAL(9, 2)", "day": "DATE", "at": "TIMESTAMP", "tz": "TIMESTAMPTZ"}
TYPES |= {"x": "DOUBLE", "b": "BLOB", "big": "DECIMAL(38, 3)"}
KEYS = {column.name: column for column in columns_of(TYPES)}
ROW = {"n": "1", "s": "'a'", "d": "1.25", "day": "DATE'2024-01-02'", "at": "TIMESTAMP_NTZ'2024-01-02 03:04:05.000006'"}
ROW |= {"tz": "TIMESTAMP'2024-01-02 03:04:05Z'", "x": "CAST('NaN' AS DOUBLE)", "b": "X'00'", "big": "-7.125"}
SPARK = {"n": "BIGINT", "s": "STRING", "d": "DECIMAL(9, 2)", "day": "DATE", "at": "TIMESTAMP_NTZ", "tz": "TIMESTAMP"}
SPARK |= {"x": "DOUBLE", "b": "BINARY", "big": "DECIMAL(38, 3)"}


@pytest.fixture(scope="module")
def writer() -> Iterator[Connection]:
    with connect() as opened:
        opened.execute("SET TimeZone = 'Asia/Kathmandu'")
        yield opened


def staged(spark: SparkSession, folder: Path, *rows: dict[str, str]) -> list[str]:
    """Files of Spark, one for each row."""
    for row in rows:
        full = dict.fromkeys(ROW, "NULL") | row
        values = ", ".join(f"CAST({value} AS {SPARK[name]}) AS {name}" for name, value in full.items())
        writing_session(spark).sql(f"SELECT {values}").write.mode("append").parquet(str(folder))
    return sorted(map(str, folder.glob("*.parquet")))


def bounds(writer: Connection, files: list[str], *names: str, listed: str = "") -> str | None:
    found = key_bounds(writer, files, [KEYS[name] for name in names], [KEYS[name] for name in listed.split()])
    return None if found is None else to_duckdb_sql(found)


def between(name: str, low: str, high: str) -> str:
    """The SQL of the bounds of a key."""
    return f"""("{name}" >= CAST('{low}' AS {TYPES[name]})) AND ("{name}" <= CAST('{high}' AS {TYPES[name]}))"""


def test_bounds_of_several_keys_in_several_files(spark: SparkSession, tmp_path: Path, writer: Connection) -> None:
    other = {
        "n": "-5",
        "s": "'é'",
        "d": "-0.01",
        "day": "DATE'0001-01-01'",
        "big": "12345678901234567890123456789012345.678",
    }
    other |= {"at": "TIMESTAMP_NTZ'1500-02-03 00:00:00'", "tz": "TIMESTAMP'1800-01-01 00:00:00Z'"}
    files = staged(spark, tmp_path / "f", ROW, other, {})
    n = between("n", "-5", "1")
    assert bounds(writer, files, "n") == f"({n})"
    assert bounds(writer, files, "s", "n") == f"({between('s', 'a', 'é')} AND {n})"
    values: dict[str, Any] = {"d": ("-0.01", "1.25"), "day": ("0001-01-01", "2024-01-02")}
    values["big"] = ("-7.125", "12345678901234567890123456789012345.678")
    values["at"] = ("1500-02-03 00:00:00", "2024-01-02 03:04:05.000006")
    for name, (low, high) in values.items():
        found = bounds(writer, files, name)
        assert found is not None
        same = f"SELECT {found} FROM (VALUES ('{low}'::{TYPES[name]}), ('{high}'::{TYPES[name]})) AS r(\"{name}\")"
        assert writer.rows(same) == [(True,), (True,)]
        assert low in found
        assert high in found


def test_moments_with_a_time_zone_are_bounded_in_every_zone(
    spark: SparkSession, tmp_path: Path, writer: Connection
) -> None:
    files = staged(spark, tmp_path / "f", ROW)
    found = bounds(writer, files, "tz")
    moments = "VALUES ('2024-01-02 03:04:05+00'::TIMESTAMPTZ), ('2024-01-02 03:04:05.000001+00'::TIMESTAMPTZ)"
    assert writer.rows(f"SELECT {found} FROM ({moments}) AS r(tz)") == [(True,), (False,)]


def test_keys_without_exact_statistics_have_no_bounds(spark: SparkSession, tmp_path: Path, writer: Connection) -> None:
    files = staged(spark, tmp_path / "f", ROW)
    assert [bounds(writer, files, name) for name in ("x", "b")] == [None, None]
    without_an_offset = f"{tmp_path}/moments.parquet"
    writer.execute(f"COPY (SELECT TIMESTAMP '2024-01-02 03:04:05' AS tz) TO '{without_an_offset}'")
    assert bounds(writer, [without_an_offset], "tz") is None
    assert bounds(writer, staged(spark, tmp_path / "nulls", {}), "n", "s") is None
    assert bounds(writer, [], "n") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("s", "repeat('z', 5000)"),  # Parquet omits such long statistics
        ("s", "CAST(X'FF' AS STRING)"),
        ("s", r"'\\x41'"),
        ("s", "concat('a', chr(0))"),
        ("day", "DATE'+12024-01-01'"),
    ],
)
def test_values_that_footers_do_not_show_exactly_have_no_bounds(
    name: str, value: str, spark: SparkSession, tmp_path: Path, writer: Connection
) -> None:
    assert bounds(writer, staged(spark, tmp_path / "f", ROW, {name: value}), name, "n") == f"({between('n', '1', '1')})"


def test_few_values_of_a_listed_key_replace_its_bounds(spark: SparkSession, tmp_path: Path, writer: Connection) -> None:
    files = staged(spark, tmp_path / "f", ROW, {"n": "900", "s": "concat('a', chr(0))"}, {})
    found = bounds(writer, files, "n", "tz", "s", listed="n tz s")
    rows = f"""SELECT {found} FROM (VALUES (1, 'a'), (900, 'a'), (2, 'a')) AS r(n, s),
        (SELECT '2024-01-02 03:04:05+00'::TIMESTAMPTZ AS tz)"""
    assert sorted(writer.rows(rows)) == [(False,), (True,), (True,)]
    assert str(found).count(" IN (") == 2  # a text with NUL has no literal
    assert bounds(writer, files, "n") == f"({between('n', '1', '900')})"


def test_many_values_of_a_listed_key_become_bounds(spark: SparkSession, tmp_path: Path, writer: Connection) -> None:
    for count in (50, 51):
        spark.range(count).selectExpr("id AS n").write.parquet(str(tmp_path / str(count)))
    few, many = (sorted(map(str, (tmp_path / str(count)).glob("*.parquet"))) for count in (50, 51))
    assert " IN (" in str(bounds(writer, few, "n", listed="n"))
    assert bounds(writer, many, "n", listed="n") == f"({between('n', '0', '50')})"
