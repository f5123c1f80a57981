"""Parsing of `where` conditions: the predicate has the semantics of DuckDB, or the error has a hint; and its SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pytest

from lakeconf.catalog.pruning.predicates import (
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    StartsWith,
    certainly,
    split,
    to_duckdb_sql,
    value_sql,
)
from lakeconf.catalog.pruning.where import parse
from lakeconf.catalog.tables import Column
from lakeconf.errors import PredicateError

if TYPE_CHECKING:
    from lakeconf.catalog.pruning.predicates import Predicate, Value
    from lakeconf.catalog.pruning.where import Where


TYPES = {
    "i8": "int8", "a": "int32", "u": "uint64", "h": "int128", "b": "boolean", "s": "varchar", "d": "date",
    "ts": "timestamp", "sec": "timestamp_s", "ns": "timestamp_ns", "tz": "timestamptz", "f": "float64", "g": "float32",
    "de": "decimal(10,2)", "big": "decimal(38,2)", "id": "uuid", "bl": "blob", "l": "list", "j": "json", "t": "time",
    'odd "name': "varchar",
}  # fmt: skip
COLUMNS = tuple(
    Column(n, name, type_, True, None, (Column(90, "element", "int32", True, None),) if type_ == "list" else ())  # noqa: FBT003
    for n, (name, type_) in enumerate(TYPES.items())
)
BY_NAME = {column.name: column for column in COLUMNS}
MOMENT = datetime(2026, 1, 31, 12, 30, 0, 250000)
UTC_MOMENT = MOMENT.replace(tzinfo=UTC)
UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"


def is_(name: str, operator: Any, value: Any) -> Comparison:
    return Comparison(BY_NAME[name], operator, value)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a = -1", is_("a", "=", -1)),
        ("A == 1", is_("a", "=", 1)),
        ("1 < a", is_("a", ">", 1)),
        ("(a) <> (1)", is_("a", "!=", 1)),
        ("a = '5'", is_("a", "=", 5)),
        ("b", is_("b", "=", True)),
        ("NOT b", Not(is_("b", "=", True))),
        ("a = 1 OR b AND s = 'x'", Or((is_("a", "=", 1), And((is_("b", "=", True), is_("s", "=", "x")))))),
        ("a IN (1, 2, 2)", In(BY_NAME["a"], (1, 2))),
        ("a NOT IN (1)", Not(In(BY_NAME["a"], (1,)))),
        ("a BETWEEN 1 AND 2", And((is_("a", ">=", 1), is_("a", "<=", 2)))),
        ("l IS NOT NULL", Not(IsNull(BY_NAME["l"]))),
        ("s LIKE 'it''s%'", StartsWith(BY_NAME["s"], "it's")),
        ("s NOT LIKE 'a%'", Not(StartsWith(BY_NAME["s"], "a"))),
        (r"s LIKE 'a\_\%%' ESCAPE '\'", StartsWith(BY_NAME["s"], "a_%")),
        ("s LIKE 'abc'", is_("s", "=", "abc")),
        ("starts_with(s, 'a%')", StartsWith(BY_NAME["s"], "a%")),
        ('"ODD ""name" = \'x\'', is_('odd "name', "=", "x")),
        ("d = DATE '2026-01-31'", is_("d", "=", date(2026, 1, 31))),
        ("d <= '2026-01-31'", is_("d", "<=", date(2026, 1, 31))),
        ("ts > TIMESTAMP '2026-01-31 12:30:00.25'", is_("ts", ">", MOMENT)),
        ("ts >= DATE '2026-01-31'", is_("ts", ">=", datetime(2026, 1, 31))),
        ("tz = '2026-01-31T14:30:00.25+02:00'", is_("tz", "=", UTC_MOMENT)),
        ("tz = TIMESTAMPTZ '2026-01-31 12:30:00.250Z'", is_("tz", "=", UTC_MOMENT)),
        ("de = 1.5", is_("de", "=", Decimal("1.50"))),
        ("de = 15e-1", is_("de", "=", Decimal("1.50"))),
        (f"big = {'9' * 35}.99", is_("big", "=", Decimal("9" * 35 + ".99"))),
        ("f = 0.1", is_("f", "=", 0.1)),
        ("f > '-inf'", is_("f", ">", float("-inf"))),
        ("g = 0.1", is_("g", "=", 0.10000000149011612)),
        ("h = 170141183460469231731687303715884105727", is_("h", "=", 2**127 - 1)),
        (f"id = '{UUID.upper()}'", is_("id", "=", UUID)),
        (r"bl = 'a\xFF'::BLOB", is_("bl", "=", b"a\xff")),
        ("a = 1 -- a comment", is_("a", "=", 1)),
        ("(" * 3000 + "a = 1" + ")" * 3000, is_("a", "=", 1)),
    ],
)  # fmt: skip
def test_supported_conditions(where: str, expected: object) -> None:
    assert parse(where, COLUMNS) == expected


def test_nan_is_a_value() -> None:
    nan = parse("isnan(f)", COLUMNS)
    assert isinstance(nan, Comparison)
    assert nan.operator == "="
    assert str(nan.value) == "nan"
    assert to_duckdb_sql(parse("f = 'NaN'::DOUBLE", COLUMNS)) == to_duckdb_sql(nan)


@pytest.mark.parametrize("constant", ["true", "1 = 1", "'t'::BOOLEAN"])
@pytest.mark.parametrize("condition", ["a > 4", "a % 2 = 0", "a > 4 AND a % 2 = 0"])
def test_constant_that_is_true_may_stand_before_a_condition(constant: str, condition: str) -> None:
    assert parse(f"{constant} AND {condition}", COLUMNS) == parse(condition, COLUMNS)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", "is not a single condition"),
        ("-- nothing", "is not a single condition"),
        ("a = 1; DROP TABLE t", "is not a single condition"),
        ("a = 1 AND", "is not valid SQL"),
        ("a = 'x", "is not valid SQL"),
        ("a", "the condition is the column 'a' alone, which is INTEGER and not BOOLEAN"),
        ("a IN ()", "is not valid SQL: syntax error at or near"),
        ("list_contains([], a)", "is empty"),
        ("a = NULL", "IS NULL"),
        ("a IN (1, NULL)", "IS NULL"),
        ("nope = 1", "use one of its columns: i8, a, "),
        ("odd = 'x'", "no column 'odd'"),
        ("sce = '2026-01-01'", 'did you mean "sec"'),
        ("a = 'x'", "write a number"),
        ("de = '1.505'", "at most 2 decimals"),
        ("d = '2026-02-30'", "is not a date"),
        ("ts = '2026-01-31 25:00:00'", "is not a time"),
        ("tz = TIMESTAMPTZ '2026-01-31 12:00:00'", "needs an offset"),
        ("NOT " * 500 + "b", "nested too deeply"),
        ("NOT " * 3000 + "b", "nested too deeply"),
    ],
)
def test_unsupported_condition_is_rejected_with_a_hint(where: str, message: str) -> None:
    with pytest.raises(PredicateError, match=message) as raised:
        parse(where, COLUMNS)
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize(
    ("where", "understood", "sql"),
    [
        ("a + 1 = 2", 0, "((a + 1) = 2)"),
        ("a = 1 AND a = f AND b", 2, "(a = f)"),
        ("a = 1 OR a % 2 = 1", 0, "((a = 1) OR ((a % 2) = 1))"),
        ("a = 1 AND s LIKE '%b' AND s LIKE a::VARCHAR", 1, "(s ~~ '%b') AND (s ~~ CAST(a AS VARCHAR))"),
        ("a IS DISTINCT FROM 1", 0, "(a IS DISTINCT FROM 1)"),
        ("a IS TRUE", 0, "a IS TRUE\n"),
        ("a + 1 = 1 IS TRUE", 0, "a + 1 = 1 IS TRUE\n"),
        ("a = 1 AND (f > 0) IS TRUE AND a % 2 = 1 AND f < 1e999", 3, "((a % 2) = 1)"),
        ("a = 1 AND a % 2 = 1 AND a = f IS TRUE", 1, "((a % 2) = 1) AND (a = f IS TRUE\n)"),
        ("s COLLATE NOCASE = 'x'", 0, "(s COLLATE NOCASE = 'x')"),
        ("de > CAST('1.505' AS DECIMAL(3, 2))", 0, "(de > CAST('1.505' AS DECIMAL(3,2)))"),
        ("j = '{}' AND t = '12:00:00'", 0, "(j = '{}') AND (t = '12:00:00')"),
        ("l[1] = 2", 0, "(l[1] = 2)"),
        (nw.col("a") + 1 > 2, 0, "((a + 1) > 2)"),
        ((nw.col("a") % 2 == 1) & nw.col("a").is_in([1, 2]), 1, "((((a % 2) + 2) % 2) = 1)"),
        (nw.col("f") + 1 < float("inf"), 0, "((f + 1) < 1e1000)\n"),
        ((nw.col("s").str.contains("x")) & nw.col("b"), 1, "regexp_matches(s, 'x')"),
    ],
)
def test_the_rest_of_a_condition_is_an_expression(where: Where, understood: int, sql: str) -> None:
    planned, expression = split(parse(where, COLUMNS))
    assert expression is not None
    assert expression.sql == sql
    assert (len(planned.operands) if isinstance(planned, And) else 0) == understood


@pytest.mark.parametrize(
    ("expression", "sql"),
    [
        (nw.col("a") > 1, "a > 1"),
        ((nw.col("a") == 1) | ~(nw.col("s") == "it's"), "a = 1 OR NOT s = 'it''s'"),
        (nw.col("a").is_in([1, 2]) & nw.col("b"), "a IN (1, 2) AND b"),
        (nw.col("a").is_null() | nw.col("l").is_null(), "a IS NULL OR l IS NULL"),
        (nw.col("f").is_between(1, 2), "f BETWEEN 1 AND 2"),
        (nw.col("s").str.starts_with("a%"), "starts_with(s, 'a%')"),
        (nw.col("d") == date(2026, 1, 31), "d = '2026-01-31'"),
        (nw.col("ts") < MOMENT, "ts < '2026-01-31 12:30:00.25'"),
        (nw.col("tz") < UTC_MOMENT, "tz < '2026-01-31 12:30:00.25+00'"),
        (nw.col("de") >= Decimal("1.50"), "de >= 1.50"),
        (nw.col("bl") == b"a\xff", r"bl = 'a\xFF'::BLOB"),
        (nw.col("f") == float("inf"), "f = 'inf'"),
        (nw.all_horizontal(nw.col("a") > 1, nw.col("b"), ignore_nulls=False), "a > 1 AND b"),
    ],
)
def test_narwhals_expression_is_parsed_like_its_sql(expression: Where, sql: str) -> None:
    assert parse(expression, COLUMNS) == parse(sql, COLUMNS)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (nw.col("a").sum() > 1, "narwhals cannot convert the expression"),
        (nw.col("nope") == 1, "nope|not found"),
        (nw.col("a") == None, "IS NULL"),  # noqa: E711
    ],
)
def test_unsupported_narwhals_expression_is_rejected(expression: Where, message: str) -> None:
    with pytest.raises(PredicateError, match=message):
        parse(expression, COLUMNS)


def test_decimal_that_duckdb_2_writes_as_a_cast_is_parsed() -> None:
    for text in ("1.50", "-1.5", "0.05", "007.10"):
        assert parse(f"de >= CAST('{text}' AS DECIMAL(3, 2))", COLUMNS) == parse(f"de >= {text}", COLUMNS)


def column(name: str, type_name: str, field_id: int = 1, *, former: str = "", later: str = "") -> Column:
    return Column(
        field_id,
        name,
        type_name,
        nullable=True,
        initial_default=None,
        former_types=(former,) if former else (),
        later_types=(later,) if later else (),
    )


A, S = column("a", "int32"), column("s", "varchar", 2)


@pytest.mark.parametrize(
    ("wrapped", "plain"),
    [
        (column("a", "float64"), column("a", "decimal(9,2)")),
        (column("a", "float32"), column("a", "varchar")),
        (column("a", "blob"), column("a", "uuid")),
        (column("a", "timestamp", former="date"), column("a", "timestamp")),
        (column("a", "date", later="timestamp"), column("a", "date")),
        (column("a", "decimal(9,2)", former="int32"), column("a", "int64", former="int32")),
        (column("a", "float64", former="float32"), column("a", "int16", later="uint64")),
    ],
)
def test_column_that_duckdb_may_misread_in_files_is_wrapped(wrapped: Column, plain: Column) -> None:
    case = 'CASE WHEN "a" IS NOT NULL THEN "a" END'
    assert to_duckdb_sql(In(wrapped, (1,))).startswith(f"({case} IN (")
    assert to_duckdb_sql(Comparison(wrapped, "=", 1)).startswith(f"({case} = ")
    assert to_duckdb_sql(IsNull(wrapped)) == '("a" IS NULL)'
    assert to_duckdb_sql(Comparison(plain, "=", 1)).startswith('("a" = ')


def test_wrapped_column_can_be_tested_for_a_prefix() -> None:
    promoted = column("s", "varchar", former="json")
    sql = to_duckdb_sql(StartsWith(promoted, "x"))
    assert sql == """starts_with(CASE WHEN "s" IS NOT NULL THEN "s" END, CAST('x' AS VARCHAR))"""
    found = duckdb.connect().execute(f"SELECT {sql} FROM (VALUES ('xy'), ('y'), (NULL)) AS t(s)").fetchall()
    assert found == [(True,), (False,), (None,)]


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (True, "boolean"),
        (-128, "int8"),
        (2**127 - 1, "int128"),
        (Decimal("-99.99"), "decimal(4,2)"),
        (0.1, "float64"),
        (float("-inf"), "float64"),
        ("", "varchar"),
        ("it's \0 \\ é", "varchar"),
        (b"", "blob"),
        (bytes(range(256)), "blob"),
        (date(9999, 12, 31), "date"),
        (datetime(2026, 1, 31, 12, 0, 0, 1), "timestamp"),
        (datetime(2026, 1, 31, 12), "timestamp_s"),
        (datetime(2026, 1, 31, 12), "timestamp_ns"),
    ],
)
def test_duckdb_reads_the_same_value(value: Value, type_name: str) -> None:
    assert duckdb.connect().execute(f"SELECT {value_sql(value, type_name)}").fetchall() == [(value,)]


def test_time_in_utc_keeps_its_offset() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    same = f"SELECT {value_sql(noon, 'timestamptz')} = TIMESTAMPTZ '2026-01-31 14:00:00+02'"
    assert duckdb.connect().execute(same).fetchall() == [(True,)]


BOTH = (column("b", "boolean", 1), column("c", "boolean", 2))
IS_B, IS_C = (Comparison(each, "=", value=True) for each in BOTH)


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    "predicate",
    [
        IS_B,
        Not(IS_B),
        IsNull(BOTH[0]),
        Not(IsNull(BOTH[0])),
        In(BOTH[0], (True,)),
        And((IS_B, IS_C)),
        Or((IS_B, IS_C)),
        Not(And((IS_B, Not(IS_C)))),
        Or((And((IS_B, Not(IS_C))), Not(Or((IS_B, IsNull(BOTH[1])))))),
    ],
    ids=to_duckdb_sql,
)
def test_predicate_that_is_certainly_true_or_false_is_never_null(predicate: Predicate, value: bool) -> None:
    """The reference is DuckDB's IS TRUE and IS FALSE, for every pair of true, false and NULL."""
    word = "TRUE" if value else "FALSE"
    rows = "FROM (VALUES (true), (false), (NULL)) AS x(b), (VALUES (true), (false), (NULL)) AS y(c)"
    found, wanted = to_duckdb_sql(certainly(predicate, value=value)), f"({to_duckdb_sql(predicate)}) IS {word}"
    assert duckdb.sql(f"SELECT {found} {rows}").fetchall() == duckdb.sql(f"SELECT {wanted} {rows}").fetchall()
