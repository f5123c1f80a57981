"""Conditions that only an engine understands: types, errors, and no dependence on the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import narwhals as nw
import pytest

from lakeconf.catalog.column_types import columns_of
from lakeconf.catalog.pruning.expression import conjuncts, is_condition_of, typed
from lakeconf.catalog.pruning.where import named_columns, parse
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import closed_connection
from lakeconf.errors import PredicateError, SchemaError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator


COLUMNS = columns_of(
    {"id": "INTEGER", "v": "VARCHAR", "b": "BOOLEAN", "l": "INTEGER[]", 's"x': 'STRUCT("a b" INTEGER)', "j": "JSON"}
)


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with closed_connection() as connection:
        yield connection


@pytest.mark.parametrize(
    ("text", "parts"),
    [
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
    ],
)
def test_a_condition_is_split_as_duckdb_understands_it(
    connection: duckdb.DuckDBPyConnection, text: str, parts: list[str]
) -> None:
    assert conjuncts(connection, text) == parts


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
    connection: duckdb.DuckDBPyConnection, text: str, message: str
) -> None:
    with pytest.raises(PredicateError) as refused:
        conjuncts(connection, text)
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("conditions", "columns"),
    [
        (["((id % 10) = 3)"], ["id"]),
        (['(ID > length("V"))', "b"], ["id", "v", "b"]),
        (["(\"S\"\"X\").\"a b\" = 1"], ['s"x']),
        (["list_contains(l, id)"], ["l", "id"]),
        (["(j ->> 'a') = 'x'"], ["j"]),
    ],
)  # fmt: skip
def test_an_expression_names_its_columns(
    connection: duckdb.DuckDBPyConnection, conditions: list[str], columns: list[str]
) -> None:
    found = typed(connection, conditions, COLUMNS)
    assert [column.name for column in found.columns] == columns
    assert found.sql == " AND ".join(conditions)


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
    connection: duckdb.DuckDBPyConnection, condition: str, message: str
) -> None:
    with pytest.raises(PredicateError) as refused:
        typed(connection, [condition], COLUMNS)
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("text", "same"),
    [("id % 2 = 0", True), ("(abs(id)) % 2 = 0", False), ("id % 2 = 0 AND", False), ("id % 2 = 1", False)],
)
def test_a_condition_is_compared_with_that_of_a_select(text: str, same: bool) -> None:
    assert is_condition_of(text, "SELECT * FROM (SELECT 1 AS id) WHERE (id % 2) = 0") is same


def test_a_catalog_with_a_column_that_duckdb_cannot_create(connection: duckdb.DuckDBPyConnection) -> None:
    """A hostile or damaged catalog can have a STRUCT without fields."""
    column = Column(7, "s", "struct", nullable=True, initial_default=None)
    with pytest.raises(PredicateError, match="DuckDB rejects the condition"):
        typed(connection, ["(s IS NULL)"], [column])


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


@pytest.mark.parametrize(
    "condition",
    [
        *("t < u", "t IS DISTINCT FROM u", "t BETWEEN u AND '2026-01-01 00:00:00+00'"),
        *("coalesce(t, '2026-01-01 00:00:00+00', NULL) = u", "CASE WHEN id = 1 THEN s.t END = u"),
        *("hour(t AT TIME ZONE 'UTC') = 1", "n AT TIME ZONE 'Europe/Paris' = t", "epoch(t) > 1"),
        *("to_timestamp(id) < t", "[t, u][1] = u", "age(n, n) > INTERVAL 1 DAY", "list_aggregate(l, 'sum') > 1"),
        "n::DATE = d",
    ],
)
def test_a_condition_that_names_its_time_zone_is_accepted(condition: str) -> None:
    parse(condition, COLUMNS_OF_SESSION_VALUES)
