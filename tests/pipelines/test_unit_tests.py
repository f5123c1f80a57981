"""Unit tests of models: inputs, given rows, kinds, selection and errors."""

from __future__ import annotations

import math
import tempfile
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pytest

from lakeconf.errors import PipelineError, SchemaError
from lakeconf.pipelines import Append, Full, Incremental, Merge, Model, Pipeline, Query, Seed, View, model
from lakeconf.pipelines.models.body import Function
from lakeconf.pipelines.models.compared_rows import rows_sql
from lakeconf.pipelines.models.declared import empty_lake
from lakeconf.pipelines.models.unit_tests import (
    DeclaredUnitTest,
    UnitTest,
    UnitTestResult,
    chosen_tests,
    run_unit_tests,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    with empty_lake("test") as found:
        yield found


@model("marts.doubled", Full())
def doubled(prices: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return prices.with_columns(n=nw.col("n") * 2)


@model("raw.landed", Append(files="in/*.csv", columns={"id": "BIGINT", "n": "DECIMAL(10,2)"}))
def landed(rows: nw.LazyFrame[Any], prices: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return rows.join(prices, on="id")


MODELS = [
    Model("raw.prices", Seed("prices.csv", {"id": "INTEGER", "n": "DECIMAL(10,2)"})),
    Model("marts.cheap", View(), Query("SELECT * FROM raw.prices WHERE n < 5")),
    Model("marts.count", Full(), Query("SELECT count(*) AS n FROM marts.cheap"), tags=["nightly"]),
    Model(
        "marts.daily",
        Incremental("day", start=date(2024, 1, 1)),
        Query("SELECT day, sum(n) AS n FROM raw.sales WHERE day >= $start AND day < $end GROUP BY day ORDER BY day"),
    ),
    Model("marts.latest", Merge("id", changes_of="raw.prices"), Query("SELECT id, change_type FROM raw.prices")),
    doubled,
    landed,
]
PIPELINE = Pipeline(MODELS)
SALES = [{"day": date(2024, 1, 2), "n": 1}, {"day": date(2024, 1, 1), "n": 2}, {"day": date(2024, 1, 3), "n": 4}]
RANGE = {"start": date(2024, 1, 1), "end": date(2024, 1, 3)}


def declared(table: str, expect: list[dict[str, Any]], given: dict[str, Any], **more: Any) -> UnitTest:
    return UnitTest("one", DeclaredUnitTest(model=table, expect=expect, given=given, **more))


def result(lake: Lake, test: UnitTest) -> UnitTestResult:
    (found,) = run_unit_tests(PIPELINE, [test], lake)
    return found


@pytest.mark.slow
def test_model_returns_the_expected_rows(lake: Lake) -> None:
    for test in (
        # The types of the columns come from the model of the input; columns without values are NULL.
        declared("marts.doubled", [{"n": 19.98}], {"raw.prices": [{"n": 9.99}]}),
        declared(
            "marts.doubled", [{"id": 1, "N": "0.20"}, {"id": 2}], {"RAW.prices": [{"id": 1, "n": 0.1}, {"id": 2}]}
        ),
        declared("marts.doubled", [{"n": 0.2}], {"raw.prices": {"columns": {"N": "DOUBLE"}, "rows": [{"n": 0.1}]}}),
        declared("marts.doubled", [], {"raw.prices": []}),
        # A view that a model reads is an input like any other.
        declared("marts.count", [{"n": 2}], {"marts.cheap": [{"id": 1}, {"id": 2}]}),
        declared("marts.cheap", [{"id": 1}], {"raw.prices": [{"id": 1, "n": 4}, {"id": 2, "n": 6}]}),
        declared(
            "marts.daily",
            [{"day": date(2024, 1, 2), "n": 1}, {"n": 2, "day": date(2024, 1, 1)}],
            {"raw.sales": SALES},
            **RANGE,
        ),
        declared(
            "marts.latest",
            [{"id": 1, "change_type": "insert"}, {"change_type": "delete"}],
            {"raw.prices": [{"id": 1}, {"change_type": "delete"}]},
        ),
        declared(
            "raw.landed",
            [{"id": 1, "n": "2.50"}],
            {"files": [{"id": 1, "n": 2.5}, {"id": 2}], "raw.prices": [{"id": 1}]},
        ),
        declared("marts.doubled", [{"n": 2}], {"raw.prices": [{"n": 1}]}, columns=["id"]),
    ):
        found = result(lake, test)
        assert (found.status, found.error, bool(found.difference)) == ("passed", None, False), test
        more = test.declared.model_copy(update={"expect": [*test.declared.expect, {"n": 77, "id": 99}]})
        assert result(lake, UnitTest("more", more)).status != "passed", test


def test_rows_that_differ_are_reported(lake: Lake) -> None:
    found = result(lake, declared("marts.doubled", [{"n": 3}], {"raw.prices": [{"n": 1}]}))
    assert (found.status, found.difference.missing, found.difference.unexpected) == ("failed", [["3.00"]], [["2.00"]])
    found = result(lake, declared("marts.doubled", [], {"raw.prices": [{"n": 1}]}))
    assert (found.difference.columns, found.difference.unexpected) == (["id", "n"], [[None, "2.00"]])
    found = result(lake, declared("marts.doubled", [{"n": 2}], {"raw.prices": [{"id": 1, "n": 1}]}, columns=["id"]))
    assert found.status == "failed"


def outcome(lake: Lake, expression: str, expected: Any) -> str:
    pipeline = Pipeline([Model("m.one", Full(), Query(f"SELECT {expression} AS v"))])
    (found,) = run_unit_tests(pipeline, [declared("m.one", [{"v": expected}], {})], lake)
    return found.status


EQUAL: list[tuple[str, Any]] = [
    ("1", 1),
    ("1.00", 1),
    ("9.99::DECIMAL(10, 2)", 9.99),
    ("9.99::DECIMAL(10, 3)", "9.99"),
    ("sum(3::BIGINT)", 3),
    ("340282366920938463463374607431768211455::UHUGEINT", "340282366920938463463374607431768211455"),
    ("0.1::DOUBLE + 0.2::DOUBLE", 0.3),
    ("0.1::FLOAT", 0.1),
    ("-0.0::DOUBLE", 0),
    ("1::DOUBLE", 1),
    ("'nan'::DOUBLE", float("nan")),
    ("'inf'::FLOAT", float("inf")),
    ("true", True),
    ("'a'", "a"),
    ("'00000000-0000-0000-0000-000000000001'::UUID", "00000000-0000-0000-0000-000000000001"),
    ("DATE '2024-01-01'", date(2024, 1, 1)),
    ("DATE 'infinity'", "infinity"),
    ("TIMESTAMP '2024-01-01'", date(2024, 1, 1)),
    ("TIMESTAMPTZ '2024-01-01 02:00:00+01'", datetime(2024, 1, 1, 1)),
    ("TIMESTAMPTZ '2024-01-01 02:00:00+01'", datetime(2024, 1, 1, 3, tzinfo=timezone(timedelta(hours=2)))),
    ("TIMESTAMP_NS '2024-01-01 00:00:00.000000001'", "2024-01-01 00:00:00.000000001"),
    ("TIME '01:02'", time(1, 2)),
    ("INTERVAL 2 DAYS", "2 days"),
    ("'\\xAB'::BLOB", "\\xAB"),
    ("[1.0, 2.5]", [1, 2.5]),
    ("[0.1::FLOAT]", [0.1]),
    ("{'a': 1, 'b': NULL}", {"a": 1}),
    ("MAP{1: 'x'}", {"1": "x"}),
    ("{'a': [TIMESTAMP_NS '2024-01-01 00:00:00.000000001']}", {"a": ["2024-01-01 00:00:00.000000001"]}),
    ("NULL", None),
]


def test_equal_values(lake: Lake) -> None:
    columns = ", ".join(f"{expression} AS v{number}" for number, (expression, _) in enumerate(EQUAL))
    pipeline = Pipeline([Model("m.one", Full(), Query(f"SELECT {columns}"))])
    expected = {f"v{number}": value for number, (_, value) in enumerate(EQUAL)}
    (found,) = run_unit_tests(pipeline, [declared("m.one", [expected], {})], lake)
    assert (found.status, found.error, bool(found.difference)) == ("passed", None, False)


@pytest.mark.slow
def test_different_values(lake: Lake) -> None:
    for expression, expected in (
        ("2", 1),
        ("1", 1.5),
        ("3", 2.7),
        ("2", "1.5"),
        ("10.0::DECIMAL(18, 1)", 9.99),
        ("true", 1),
        ("1", True),
        ("'1'", 1),
        ("0.3001::DOUBLE", 0.3),
        ("1e-300::DOUBLE", 0.0),
        ("1::DOUBLE", float("nan")),
        ("'nan'::DOUBLE", 1.0),
        ("'A'", "a"),
        ("NULL::VARCHAR", ""),
        ("NULL::INTEGER", 0),
        ("TIMESTAMP '2024-01-01 01:00:00'", date(2024, 1, 1)),
        ("DATE '2024-01-01'", datetime(2024, 1, 1, 1)),
        ("DATE 'infinity'", date.max),
        ("1", date(2024, 1, 1)),
        ("[2, 1]", [1, 2]),
        ("[1, NULL]", [1]),
        ("{'a': 1, 'b': 2}", {"a": 1}),
        ("{'a': 1}", {"a": 1, "b": 2}),
        ("{'a': 3}", {"a": 2.7}),
        ("[1]", {"a": 1}),
        ("MAP{'a': 1}", {"a": 1, "b": None}),
        ("MAP{'a': 1, 'b': NULL}", {"a": 1}),
        ("[0.1::FLOAT]", [0.10000001]),
    ):
        assert outcome(lake, expression, expected) == "failed", expression


def test_rows_count_as_often_as_they_occur(lake: Lake) -> None:
    pipeline = Pipeline([Model("m.one", Full(), Query("SELECT n FROM (VALUES (2), (1), (2)) AS v(n)"))])
    rows: list[dict[str, Any]] = [{"n": 1}, {"n": 1}, {"n": 2}, {"n": 2.5}]
    (found,) = run_unit_tests(pipeline, [declared("m.one", rows, {})], lake)
    assert (sorted(map(str, found.difference.missing)), found.difference.unexpected) == (["['1']", "['2.5']"], [["2"]])


def test_invalid_tests_are_errors(lake: Lake) -> None:
    for test, message in (
        (declared("marts.double", [], {}), "unknown model 'marts.double'"),
        (declared("raw.prices", [], {}), "the model raw.prices has no code to test"),
        (declared("marts.doubled", [], {}), "the test gives no rows of the input raw.prices"),
        (declared("marts.doubled", [], {"raw.prise": []}), "the model marts.doubled has no input 'raw.prise'"),
        (declared("marts.daily", [], {"raw.sales": SALES}), "the model marts.daily is incremental"),
        (declared("marts.count", [], {"marts.cheap": []}), "the given rows of marts.cheap: the columns of a table"),
        (
            declared("marts.count", [{"m": 1}], {"marts.cheap": [{"a": 1}]}),
            "the model marts.count returns no column 'm'",
        ),
        (declared("marts.doubled", [], {"raw.prices": [{"n": "x"}]}), "Conversion Error"),
        (
            declared("marts.cheap", [], {"raw.prices": {"columns": {"id": "X"}}}),
            "the given rows of raw.prices: the column",
        ),
    ):
        found = result(lake, test)
        assert found.status == "error", test
        assert found.error is not None, test
        assert found.error.message.startswith(message), test


def test_model_that_fails_is_an_error_and_the_next_test_runs(lake: Lake) -> None:
    def failing(prices: Any) -> Any:
        raise ValueError("planted")

    pipeline = Pipeline([*MODELS, Model("a.failing", Full(), Function(failing))])
    given = {"raw.prices": [{"n": 1}]}
    tests = [declared("a.failing", [], given), declared("marts.doubled", [{"n": 2}], given)]
    seen: list[UnitTestResult] = []
    found = run_unit_tests(pipeline, tests, lake, seen.append)
    assert [one.status for one in found] == ["error", "passed"]
    assert found == seen
    assert "planted" in str(found[0].error)


def test_tests_are_selected_by_name_and_by_model() -> None:
    tests = [
        UnitTest(name, DeclaredUnitTest(model=table, expect=[]))
        for name, table in (("a", "marts.doubled"), ("b", "marts.count"), ("two", "marts.count"))
    ]

    def names(*selected: str) -> list[str]:
        return [test.name for test in chosen_tests(PIPELINE, tests, selected)]

    for selected, expected in (
        ("", "a b two"), ("a", "a"), ("b marts.doubled", "a b"), ("tag:nightly", "b two"), ("raw.prices", ""),
        ("raw.prices+", "a b two"),
    ):  # fmt: skip
        assert names(*selected.split()) == expected.split()
    for name, hint in (("nope", "use one of the tests: a, b, two"), ("tow", 'did you mean "two"?')):
        with pytest.raises(PipelineError) as caught:
            names(name)
        assert (caught.value.message, caught.value.hint) == (f"no test and no model is named {name!r}", hint)


def read(
    rows: list[dict[str, Any]], types: dict[str, str] | None = None
) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        relation = connection.sql(rows_sql(rows, types or {}))
        return dict(zip(relation.columns, map(str, relation.types), strict=True)), relation.fetchall()


def test_type_follows_the_value() -> None:
    values: list[tuple[Any, str]] = [
        (True, "BOOLEAN"),
        (-5, "BIGINT"),
        (2**63, "HUGEINT"),
        (0.1, "DOUBLE"),
        (math.inf, "DOUBLE"),
        ("it's '; DROP", "VARCHAR"),
        ("", "VARCHAR"),
        (date(2024, 2, 29), "DATE"),
        (datetime(2024, 2, 29, 1, 2, 3, 4), "TIMESTAMP"),
        (datetime(2024, 2, 29, 1, 2, tzinfo=UTC), "TIMESTAMP WITH TIME ZONE"),
        (time(1, 2, 3), "TIME"),
        ([1, 2], "BIGINT[]"),
        ({"a": 1, "it's": [date(2024, 1, 1)]}, 'STRUCT(a BIGINT, "it\'s" DATE[])'),
    ]
    row = {f'odd "name"; -- {number}': value for number, (value, _) in enumerate(values)}
    types, rows = read([row], {"other": "INTEGER"})
    assert types == {"other": "INTEGER", **dict(zip(row, (kind for _, kind in values), strict=True))}
    assert rows == [(None, *row.values())]


def test_missing_keys_are_null_and_names_ignore_case() -> None:
    assert read([{"a": 1}, {"A": 2, "b": "x"}, {}]) == (
        {"a": "BIGINT", "b": "VARCHAR"},
        [(1, None), (2, "x"), (None, None)],
    )
    with pytest.raises(PipelineError, match="has the column 'A' twice"):
        rows_sql([{"a": 1, "A": 2}], {})


def test_declared_types_are_exact() -> None:
    types = {"price": "decimal(38, 20)", "id": "UUID", "at": "TIMESTAMP_NS", "s": "STRUCT(a TINYINT, b VARCHAR)[]"}
    rows = [
        {"price": "0.12345678901234567890", "id": "00000000-0000-0000-0000-000000000001", "s": [{"a": 1, "b": "x"}]}
    ]
    found, values = read(rows, types)
    assert found["price"] == "DECIMAL(38,20)"
    assert values[0][0] == Decimal("0.12345678901234567890")
    assert values[0][3] == [{"a": 1, "b": "x"}]
    assert read([{"price": 9.99}], {"PRICE": "DECIMAL(10,2)"})[1] == [(Decimal("9.99"),)]
    for kind in ("BIGINT) AS x, (SELECT 1", "NOPE", ""):
        with pytest.raises(SchemaError):
            rows_sql([{"a": 1}], {"a": kind})


def test_numbers_and_times_of_two_types_have_the_wider_one() -> None:
    types, _ = read([{"n": 1, "t": date(2024, 1, 1)}, {"n": 0.5, "t": datetime(2024, 1, 1)}])
    assert types == {"n": "DOUBLE", "t": "TIMESTAMP"}


def test_table_without_rows_has_the_declared_columns() -> None:
    assert read([], {"id": "BIGINT", "day": "DATE"}) == ({"id": "BIGINT", "day": "DATE"}, [])
    with pytest.raises(PipelineError, match="without rows are unknown"):
        rows_sql([], {})


def test_empty_lake_has_no_tables_and_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with empty_lake("dev", alias="other") as lake:
        assert repr(lake).startswith("Lake('other' at snapshot 0")
        assert (lake.tables(), lake.runs.committed("raw.t")) == ([], [])
        lake.create_table("raw.t", {"id": "BIGINT"})
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
