"""Conditions of a `where` have the semantics of DuckDB, or an error with a hint; some, only an engine understands."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pytest
from catalog_lake import column

from lakeconf.catalog.column_types import columns_of
from lakeconf.catalog.pruning.expression import conjuncts, is_condition_of, typed
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
from lakeconf.catalog.pruning.where import named_columns, parse
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import closed_connection
from lakeconf.errors import PredicateError, SchemaError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf.catalog.pruning.predicates import Predicate
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
        (nw.col("a").sum() > 1, "narwhals cannot convert the expression"),
        (nw.col("nope") == 1, "nope|not found"),
        (nw.col("a") == None, "IS NULL"),  # noqa: E711
    ],
)
def test_unsupported_condition_is_rejected_with_a_hint(where: Where, message: str) -> None:
    with pytest.raises(PredicateError, match=message) as raised:
        parse(where, COLUMNS)
    assert "\x1b" not in str(raised.value)


def test_the_rest_of_a_condition_is_an_expression() -> None:
    for where, understood, sql in (
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
    ):
        planned, expression = split(parse(where, COLUMNS))
        assert expression is not None, where
        assert expression.sql == sql, where
        assert (len(planned.operands) if isinstance(planned, And) else 0) == understood, where


def test_narwhals_expression_is_parsed_like_its_sql() -> None:
    for expression, sql in (
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
    ):
        assert parse(expression, COLUMNS) == parse(sql, COLUMNS), expression


def test_decimal_that_duckdb_2_writes_as_a_cast_is_parsed() -> None:
    for text in ("1.50", "-1.5", "0.05", "007.10"):
        assert parse(f"de >= CAST('{text}' AS DECIMAL(3, 2))", COLUMNS) == parse(f"de >= {text}", COLUMNS)


A, S = column("int32", "a"), column("varchar", "s", 2)


def test_column_that_duckdb_may_misread_in_files_is_wrapped() -> None:
    for wrapped, plain in (
        (column("float64", "a"), column("decimal(9,2)", "a")),
        (column("float32", "a"), column("varchar", "a")),
        (column("blob", "a"), column("uuid", "a")),
        (column("timestamp", "a", former="date"), column("timestamp", "a")),
        (column("date", "a", later="timestamp"), column("date", "a")),
        (column("decimal(9,2)", "a", former="int32"), column("int64", "a", former="int32")),
        (column("float64", "a", former="float32"), column("int16", "a", later="uint64")),
    ):
        case = 'CASE WHEN "a" IS NOT NULL THEN "a" END'
        assert to_duckdb_sql(In(wrapped, (1,))).startswith(f"({case} IN ("), wrapped
        assert to_duckdb_sql(Comparison(wrapped, "=", 1)).startswith(f"({case} = "), wrapped
        assert to_duckdb_sql(IsNull(wrapped)) == '("a" IS NULL)', wrapped
        assert to_duckdb_sql(Comparison(plain, "=", 1)).startswith('("a" = '), wrapped


def test_wrapped_column_can_be_tested_for_a_prefix() -> None:
    promoted = column("varchar", "s", former="json")
    sql = to_duckdb_sql(StartsWith(promoted, "x"))
    assert sql == """starts_with(CASE WHEN "s" IS NOT NULL THEN "s" END, CAST('x' AS VARCHAR))"""
    found = duckdb.connect().execute(f"SELECT {sql} FROM (VALUES ('xy'), ('y'), (NULL)) AS t(s)").fetchall()
    assert found == [(True,), (False,), (None,)]


def test_duckdb_reads_the_same_value() -> None:
    for value, type_name in (
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
    ):
        assert duckdb.connect().execute(f"SELECT {value_sql(value, type_name)}").fetchall() == [(value,)], value


def test_time_in_utc_keeps_its_offset() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    same = f"SELECT {value_sql(noon, 'timestamptz')} = TIMESTAMPTZ '2026-01-31 14:00:00+02'"
    assert duckdb.connect().execute(same).fetchall() == [(True,)]


BOTH = (column("boolean", "b", 1), column("boolean", "c", 2))
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


TYPED = columns_of(
    {"id": "INTEGER", "v": "VARCHAR", "b": "BOOLEAN", "l": "INTEGER[]", 's"x': 'STRUCT("a b" INTEGER)', "j": "JSON"}
)


@pytest.fixture
def closed() -> Iterator[duckdb.DuckDBPyConnection]:
    with closed_connection() as closed:
        yield closed


def test_a_condition_is_split_as_duckdb_understands_it(closed: duckdb.DuckDBPyConnection) -> None:
    for text, parts in (
        ("id % 10 = 3", ["((id % 10) = 3)"]),
        ("id = 1 AND (v = 'a' OR b) AND NOT b", ["(id = 1)", "((v = 'a') OR b)", "(NOT b)"]),
        ("(id = 1 AND b)", ["(id = 1)", "b"]),
        ("id = 1 OR b AND b", ["((id = 1) OR (b AND b))"]),
        ("id BETWEEN 1 AND 2 AND b", ["(id BETWEEN 1 AND 2)", "b"]),
        ("v LIKE 'a''; -- x%'", ["(v ~~ 'a''; -- x%')"]),
        ("extract(day FROM v::DATE) = 1", ["(date_part('day', CAST(v AS DATE)) = 1)"]),
        ("substring(v, 1, 1) = 'a'", ["(\"substring\"(v, 1, 1) = 'a')"]),
        ("[id] = l", ["(list_value(id) = l)"]),
        ("s.a.b = 1", ["(((s).a).b = 1)"]),
        ("s.a = 'inf'::DOUBLE AND b", ["((s).a = CAST('inf' AS DOUBLE))", "b"]),
        # DuckDB writes IS TRUE in another way.
        ("b IS TRUE -- or not", ["b IS TRUE -- or not\n"]),
        ("b IS TRUE -- AND\nAND id = 1 -- or not", ["(b IS TRUE -- AND\n)", "(id = 1)"]),
        ("(b AND v = 'x AND y') IS TRUE AND id < 1e999", ["((b AND v = 'x AND y') IS TRUE\n)", "(id < 1e999\n)"]),
        ("id BETWEEN -1e999 AND 2 AND b", ["(id BETWEEN -1e999 AND 2\n)", "b"]),
        ("CASE WHEN b AND b THEN b IS TRUE END AND b", ["(CASE WHEN b AND b THEN b IS TRUE END\n)", "b"]),
        ("id = 1 AND b IS TRUE OR b", ["id = 1 AND b IS TRUE OR b\n"]),
    ):
        assert conjuncts(closed, text) == parts, text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id = 1) OR (1 = 1", "is not valid SQL"),
        ("id = 1; DROP TABLE t", "is not a single condition"),
        ("id = 1; SELECT 2", "is not a single condition"),
        ("id = 1 ORDER BY id", "is not a single condition"),
        ("id = 1 LIMIT 1", "is not a single condition"),
        ("id = 1 GROUP BY id", "is not a single condition"),
        ("id = 1 UNION SELECT 2", "is not a single condition"),
        ("true QUALIFY true", "is not a single condition"),
        ("id = 1 /* open", "is not valid SQL"),
        ("v = '\0'", "the character NUL"),
        ("id IN (SELECT 1)", "does not support subquery expressions"),
        ("EXISTS (FROM read_text('/etc/passwd'))", "does not support subquery expressions"),
        ("sum(id) OVER () = 1", "does not support window expressions"),
        ("list_filter(l, lambda x: x > 1) = l", "does not support lambda expressions"),
        ("COLUMNS(*) = 1", "does not support star expressions"),
        ("id = ?", "does not support parameter expressions"),
        ("id = #1", "does not support positional_reference expressions"),
        ("count(*) > 1", "the function 'count_star'"),
        ("random() < 0.5", "the function 'random'"),
        ("RANDOM() < 0.5", "the function 'random'"),
        ("now() > '2024-01-01'", "the function 'now'"),
        ("nextval('s') = id", "the function 'nextval'"),
        ("getvariable('x') = id", "the function 'getvariable'"),
        ("current_setting('threads') = v", "the function 'current_setting'"),
        ("json_serialize_plan('FROM read_text(''/etc/passwd'')') = v", "the function 'json_serialize_plan'"),
        ("list_sum(l) = 1", "the function 'list_sum': it is a macro"),
        ("vector_type(id) = v", "the function 'vector_type'"),
        ("s.a IS TRUE", "names a field after a point"),
        ("id < 1e999;", "is not a single condition"),
        ("my_macro(id) = 1", "the function 'my_macro': it is not built in"),
        ("main.abs(id) = 1", "the function 'abs': it is not built in"),
    ],
)
def test_what_is_not_a_condition_on_one_row_is_refused(
    closed: duckdb.DuckDBPyConnection, text: str, message: str
) -> None:
    with pytest.raises(PredicateError) as refused:
        conjuncts(closed, text)
    assert message in refused.value.message


def test_an_expression_names_its_columns() -> None:
    for conditions, columns in (
        (["((id % 10) = 3)"], ["id"]),
        (['(ID > length("V"))', "b"], ["id", "v", "b"]),
        (['("S""X")."a b" = 1'], ['s"x']),
        (["list_contains(l, id)"], ["l", "id"]),
        (["(j ->> 'a') = 'x'"], ["j"]),
    ):
        with closed_connection() as connection:
            found = typed(connection, conditions, TYPED)
        assert [column.name for column in found.columns] == columns, conditions
        assert found.sql == " AND ".join(conditions), conditions


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("(nope = 1)", "the table has no column 'nope'"),
        ("(rowid = 1)", "the table has no column 'rowid'"),
        ("(t.id = 1)", "the table has no column 't'"),
        ("(current_date > '2024-01-01')", "the table has no column 'current_date'"),
        ("(id % 2)", "is a INTEGER and not a BOOLEAN"),
        ("(id + v > 1)", "DuckDB rejects the condition"),
        ("nope(id)", "DuckDB rejects the condition"),
        ("(1 = 1)", "uses no column"),
    ],
)
def test_an_expression_must_be_a_condition_on_the_columns(
    closed: duckdb.DuckDBPyConnection, condition: str, message: str
) -> None:
    with pytest.raises(PredicateError) as refused:
        typed(closed, [condition], TYPED)
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("text", "same"),
    [("id % 2 = 0", True), ("(abs(id)) % 2 = 0", False), ("id % 2 = 0 AND", False), ("id % 2 = 1", False)],
)
def test_a_condition_is_compared_with_that_of_a_select(text: str, same: bool) -> None:
    assert is_condition_of(text, "SELECT * FROM (SELECT 1 AS id) WHERE (id % 2) = 0") is same


def test_a_catalog_with_a_column_that_duckdb_cannot_create(closed: duckdb.DuckDBPyConnection) -> None:
    """A hostile or damaged catalog can have a STRUCT without fields."""
    column = Column(7, "s", "struct", nullable=True, initial_default=None)
    with pytest.raises(PredicateError, match="DuckDB rejects the condition"):
        typed(closed, ["(s IS NULL)"], [column])


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        (nw.col("ammount"), "the expression uses an unknown column: 'ammount'", 'did you mean "amount"?'),
        (
            nw.col("id") + nw.col("zz"),
            "the expression uses an unknown column: 'zz'",
            "use one of the columns: id, amount",
        ),
        (
            nw.col("id").str.to_uppercase(),
            "narwhals cannot convert the expression to SQL: Binder Error: No function",
            "use",
        ),
        (nw.col("id").map_batches(lambda found: found), "'map_batches' is not implemented", "use other operations"),
    ],
    ids=["similar", "second", "type", "operation"],
)
def test_error_names_the_problem_once(expression: nw.Expr, message: str, hint: str) -> None:
    with duckdb.connect() as connection:
        frame = nw.from_native(connection.sql("SELECT 1 AS id, 2 AS amount, 3 AS __lakeconf_row_id"))
        with pytest.raises(SchemaError) as refused, named_columns(["id", "amount"]):
            frame.select(expression)
    assert message in refused.value.message
    assert "__lakeconf" not in str(refused.value)
    assert "hint" not in refused.value.message.lower()
    assert len(refused.value.message.splitlines()) == 1
    assert str(refused.value.hint).startswith(hint)


def test_errors_of_lakeconf_stay() -> None:
    with pytest.raises(UnsupportedError), named_columns([]):
        raise UnsupportedError("x")


COLUMNS_OF_SESSION_VALUES = columns_of(
    {
        "id": "INTEGER",
        "t": "TIMESTAMPTZ",
        "u": "TIMESTAMPTZ",
        "n": "TIMESTAMP",
        "d": "DATE",
        "v": "VARCHAR",
        "h": "TIMETZ",
        "l": "DOUBLE[]",
        "s": "STRUCT(t TIMESTAMPTZ)",
    }
)


@pytest.mark.parametrize(
    "condition",
    [
        *("t::DATE = d", "t > n", "t > d", "t::VARCHAR = v", "[t]::DATE[] = [d]", "v::TIMESTAMPTZ = t"),
        *("TRY_CAST(v AS TIMESTAMPTZ) = t", "coalesce(t, '2026-01-01') = u"),
        *("t < greatest(u, TIMESTAMPTZ '2026-01-01 00:00:00')", "h::TIME = TIME '10:00'", "hour(t) = 1"),
        *("extract(day FROM t) = 1", "date_trunc('day', s.t) = u", "t - INTERVAL 1 DAY > u"),
        *("t - u > INTERVAL 1 DAY", "strftime(t, '%H') = v", "to_json(t)::VARCHAR = v"),
        *("make_timestamptz(2026, 1, 1, 0, 0, 0) = t", "strptime(v, '%Y %z') = t", "concat(t) = v"),
    ],
)
def test_a_condition_that_uses_the_time_zone_of_the_session_is_refused(condition: str) -> None:
    with pytest.raises(PredicateError, match="the time zone of the session") as refused:
        parse(condition, COLUMNS_OF_SESSION_VALUES)
    assert "AT TIME ZONE" in str(refused.value)


@pytest.mark.parametrize(
    "condition",
    ["age(n) > INTERVAL 1 DAY", "age(t) > INTERVAL 1 DAY", "list_aggregate(l, 'reservoir_quantile', 0.5) = 1"],
)
def test_overloads_whose_value_changes_are_refused(condition: str) -> None:
    with pytest.raises(PredicateError, match="does not depend on the row only"):
        parse(condition, COLUMNS_OF_SESSION_VALUES)


def test_a_condition_that_names_its_time_zone_is_accepted() -> None:
    for condition in (
        *("t < u", "t IS DISTINCT FROM u", "t BETWEEN u AND '2026-01-01 00:00:00+00'"),
        *("coalesce(t, '2026-01-01 00:00:00+00', NULL) = u", "CASE WHEN id = 1 THEN s.t END = u"),
        *("hour(t AT TIME ZONE 'UTC') = 1", "n AT TIME ZONE 'Europe/Paris' = t", "epoch(t) > 1"),
        *("to_timestamp(id) < t", "[t, u][1] = u", "age(n, n) > INTERVAL 1 DAY", "list_aggregate(l, 'sum') > 1"),
        "n::DATE = d",
    ):
        parse(condition, COLUMNS_OF_SESSION_VALUES)
