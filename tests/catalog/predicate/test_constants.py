"""Constants in the SQL of a `where`: literals and casts of literals, and nothing else."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from lakeconf.catalog.literals import GRAMMAR, Text, constant, only, refusal, shown, without_parentheses
from lakeconf.errors import PredicateError

if TYPE_CHECKING:
    from lakeconf.catalog.literals import Raw


def node(sql: str) -> exp.Expr:
    found = sqlglot.parse_one(sql, dialect="duckdb")
    assert isinstance(found, exp.Expr)
    return found


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("true", True),
        ("FALSE", False),
        ("'5'", Text("5")),
        ("'it''s'", Text("it's")),
        ("5", Decimal(5)),
        ("-5", Decimal(-5)),
        ("((-5))", Decimal(-5)),
        ("0.10", Decimal("0.10")),
        ("99999999999999999999999999999999999999", Decimal("9" * 38)),
        ("1e2", 100.0),
        ("1E2", 100.0),
        ("-1e-2", -0.01),
        ("DATE '2026-01-31'", date(2026, 1, 31)),
        ("CAST('2026-01-31' AS DATE)", date(2026, 1, 31)),
        ("('2026-01-31')::DATE", date(2026, 1, 31)),
        ("TIMESTAMP '2026-01-31 12:00:00'", datetime(2026, 1, 31, 12)),
        ("TIMESTAMPTZ '2026-01-31 12:00:00+02'", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("'x'::VARCHAR", Text("x")),
        ("'x'::TEXT", Text("x")),
        ("'x'::VARCHAR::VARCHAR", Text("x")),
        ("'f79c3e09-677c-4bbd-a479-3f349cb785e7'::UUID", Text("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
        ("'1.5'::DOUBLE", 1.5),
        ("'-inf'::DOUBLE", float("-inf")),
        (r"'a\xFF\x00~[]'::BLOB", b"a\xff\x00~[]"),
        ("''::BLOB", b""),
        ("CAST('1.50' AS DECIMAL(3, 2))", Decimal("1.50")),
        ("CAST('-1.5' AS DECIMAL(3, 2))", Decimal("-1.5")),
        ("'1.5'::DECIMAL", Decimal("1.5")),  # DECIMAL(18, 3)
        ("CAST('5' AS DECIMAL(1, 0))", Decimal(5)),
        ("CAST('0.05' AS DECIMAL(2, 2))", Decimal("0.05")),
        ("CAST('007.10' AS DECIMAL(3, 2))", Decimal("7.10")),
    ],
)
def test_value_and_type_of_a_constant(sql: str, value: Raw) -> None:
    found = constant(node(sql))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("sql", [r"'a\x41z'::BLOB", r"' ~[]\x5C'::BLOB", r"'\xfF'::BLOB"])
def test_blob_has_the_bytes_of_duckdb(sql: str) -> None:
    assert duckdb.connect().execute(f"SELECT {sql}").fetchall() == [(constant(node(sql)),)]


@pytest.mark.parametrize(
    "sql",
    [
        "a",
        "1 + 1",
        "now()",
        "-a",
        "-'5'",
        "- -5",
        "?",
        "[1]",
        "INTERVAL 1 DAY",
        "TRY_CAST('1' AS DOUBLE)",
        "1::DOUBLE",
        "true::VARCHAR",
        "'1'::INTEGER",
        "'1'::FLOAT",
        "'12:00:00'::TIME",
        "5::DECIMAL(3, 2)",
        "'1'::DECIMAL(3)",
        "'1.505'::DECIMAL(3, 2)",
        "'11.50'::DECIMAL(3, 2)",
        "'1e1'::DECIMAL(3, 2)",
        "' 1'::DECIMAL(3, 2)",
        "'+1'::DECIMAL(3, 2)",
        "'NaN'::DECIMAL(3, 2)",
        "'1.'::DECIMAL(3, 2)",
        "DATE '2026-01-31'::DATE",
    ],
)
def test_other_expression_is_refused_with_the_grammar(sql: str) -> None:
    with pytest.raises(PredicateError) as refused:
        constant(node(sql))
    assert refused.value.message.startswith("a `where` does not support ")
    assert refused.value.hint == GRAMMAR


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        ("NULL", "a comparison with NULL is never true", "write IS NULL or IS NOT NULL"),
        ("NULL::DATE", "a comparison with NULL is never true", "write IS NULL or IS NOT NULL"),
        ("DATE '2026-02-30'", "'2026-02-30' is not a date", "write YYYY-MM-DD"),
        ("TIMESTAMP 'noon'", "'noon' is not a time", "write YYYY-MM-DD HH:MM:SS"),
        ("'x'::DOUBLE", "'x' is not a number", "write a number"),
        (r"'\xF'::BLOB", r"'\\xF' is not a BLOB", r"write each byte as \xAA"),
        ("'é'::BLOB", "'é' is not a BLOB", r"write each byte as \xAA"),
        (r"'\'::BLOB", r"'\\' is not a BLOB", r"write each byte as \xAA"),
    ],
)
def test_text_that_does_not_fit_its_type_is_refused(sql: str, message: str, hint: str) -> None:
    with pytest.raises(PredicateError) as refused:
        constant(node(sql))
    assert refused.value.message == message
    assert str(refused.value.hint).startswith(hint)


@pytest.mark.parametrize("sql", ["TIMESTAMPTZ '2026-01-31 12:00:00'", "TIMESTAMP '2026-01-31 12:00:00+00'"])
def test_meaning_of_a_time_does_not_depend_on_the_session(sql: str) -> None:
    with pytest.raises(PredicateError) as refused:
        constant(node(sql))
    assert refused.value.message == (
        f"{shown(node(sql))}: a TIMESTAMPTZ needs an offset, such as +00; a TIMESTAMP must not have one"
    )


def test_unknown_argument_of_a_node_is_refused() -> None:
    like = node("a LIKE 'x'")
    only(like, "this", "expression")
    with pytest.raises(PredicateError, match="does not support"):
        only(like, "this")
    with pytest.raises(PredicateError, match="does not support"):
        constant(node("CAST('2026-01-31' AS DATE FORMAT 'YYYY')"))


def test_parentheses_are_removed_at_every_depth() -> None:
    assert without_parentheses(node("(((a)))")) == node("a")
    assert without_parentheses(node("(a) + (b)")) == node("(a) + (b)")


def test_message_shows_the_sql_of_duckdb_in_quotes() -> None:
    assert shown(node("a::int = 'x'")) == repr("CAST(a AS INT) = 'x'")
    assert refusal(node("a")).message == "a `where` does not support 'a'"
