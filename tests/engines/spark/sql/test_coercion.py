"""Operands get the types to which DuckDB converts them; other conversions are refused."""

from __future__ import annotations

import pytest
from sqlglot import exp

from lakeconf.engines.spark.sql.coercion import coerced, comparable, is_iso, refused
from lakeconf.engines.spark.sql.typed_tree import set_type, type_of
from lakeconf.engines.spark.sql.value_types import value_type
from lakeconf.errors import UnsupportedError


def column(type_name: str) -> exp.Expr:
    return set_type(exp.column("a"), type_name)


def text(value: str) -> exp.Expr:
    return set_type(exp.Literal.string(value), "VARCHAR")


@pytest.mark.parametrize(
    ("found", "wanted", "spark"),
    [
        ("INTEGER", "INTEGER", "a"),
        ("INTEGER", "BIGINT", "CAST(a AS BIGINT)"),
        ("INTEGER", "DECIMAL(12,2)", "CAST(a AS DECIMAL(12, 2))"),
        ("BIGINT", "DOUBLE", "CAST(a AS DOUBLE)"),
        ("BIGINT", "FLOAT", "CAST(a AS FLOAT)"),
        ("FLOAT", "DOUBLE", "CAST(a AS DOUBLE)"),
        ("DECIMAL(9,2)", "DECIMAL(12,4)", "CAST(a AS DECIMAL(12, 4))"),
        ("DATE", "TIMESTAMP", "CAST(a AS TIMESTAMP_NTZ)"),
        ('"NULL"', "VARCHAR", "CAST(a AS STRING)"),
    ],
)
def test_lossless_conversions(found: str, wanted: str, spark: str) -> None:
    made = coerced(column(found), value_type(wanted))
    assert made.sql(dialect="spark") == spark
    assert type_of(made).name == wanted


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("BIGINT", "INTEGER"),
        ("INTEGER", "DECIMAL(9,2)"),
        ("DECIMAL(9,2)", "DECIMAL(12,1)"),
        ("DECIMAL(9,2)", "FLOAT"),
        ("DOUBLE", "FLOAT"),
        ("VARCHAR", "DATE"),
        ("INTEGER", "VARCHAR"),
        ("UUID", "UUID"),
        ("INTEGER", "UUID"),
    ],
)
def test_other_conversions_are_refused(found: str, wanted: str) -> None:
    with pytest.raises(UnsupportedError, match="where a"):
        coerced(column(found), value_type(wanted))


def test_literal_fits_the_type_that_duckdb_chose() -> None:
    literal = set_type(exp.Literal.number("5"), "INTEGER")
    assert coerced(literal, value_type("TINYINT")).sql(dialect="spark") == "CAST(5 AS TINYINT)"


@pytest.mark.parametrize(
    ("value", "type_name", "found"),
    [
        ("2024-02-29", "DATE", True),
        ("2024-2-9", "DATE", False),
        (" 2024-02-29", "DATE", False),
        ("20240229", "DATE", False),
        ("2024-02-30", "DATE", False),
        ("2024-02-29 10:00:00", "TIMESTAMP", True),
        ("2024-02-29 10:00:00.5", "TIMESTAMP", False),
        ("2024-02-29 10:00:00+02:00", "TIMESTAMP", False),
        ("2024-02-29", "TIMESTAMP", True),
        ("2024-02-29T00:00:00", "TIMESTAMP", False),
        ("today", "DATE", False),
        ("2024-02-29", "VARCHAR", False),
    ],
)
def test_only_one_form_of_dates_is_read(value: str, type_name: str, *, found: bool) -> None:
    assert is_iso(text(value), value_type(type_name)) is found


@pytest.mark.parametrize(
    ("one", "other", "spark"),
    [
        ("INTEGER", "BIGINT", ("a", "a")),
        ("INTEGER", "DECIMAL(9,2)", ("a", "a")),
        ("VARCHAR", "VARCHAR", ("a", "a")),
        ("BIGINT", "DOUBLE", ("CAST(a AS DOUBLE)", "a")),
        ("FLOAT", "INTEGER", ("a", "CAST(a AS FLOAT)")),
        ("DATE", "TIMESTAMP", ("CAST(a AS TIMESTAMP_NTZ)", "a")),
        ("DECIMAL(38,2)", "DECIMAL(38,12)", ("CAST(a AS DECIMAL(38, 12))", "CAST(a AS DECIMAL(38, 12))")),
        ('"NULL"', "DATE", ("CAST(a AS DATE)", "a")),
    ],
)
def test_operands_of_comparisons(one: str, other: str, spark: tuple[str, str]) -> None:
    made = comparable(column(one), column(other))
    assert tuple(side.sql(dialect="spark") for side in made) == spark


@pytest.mark.parametrize(("one", "other"), [("VARCHAR", "INTEGER"), ("UUID", "UUID"), ("BOOLEAN", "INTEGER")])
def test_other_comparisons_are_refused(one: str, other: str) -> None:
    with pytest.raises(UnsupportedError, match="compared"):
        comparable(column(one), column(other))


def test_date_is_compared_with_a_text() -> None:
    _, made = comparable(column("DATE"), text("2024-02-29"))
    assert made.sql(dialect="spark") == "CAST('2024-02-29' AS DATE)"
    with pytest.raises(UnsupportedError):
        comparable(column("DATE"), text("29.2.2024"))


def test_error_shows_a_short_part_of_the_query() -> None:
    error = refused(exp.Literal.string("x" * 200), "a reason")
    assert error.message.startswith("Spark may not compute 'xxx")
    assert error.message.endswith("…: a reason") or "… as DuckDB does: a reason" in error.message
    assert len(error.message) < 130
