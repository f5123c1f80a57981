"""The comparison of computed rows with expected rows."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from lakeconf.pipelines.row_comparison import Cell, MapValue, RowDifference, compared

NAN = float("nan")


def differs(expected: Any, value: Any, text: str | None = None) -> bool:
    shown = None if value is None else str(value) if text is None else text
    return bool(compared(["c"], [{"c": expected}], [[Cell(value, shown)]], ordered=False))


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (1, 1),
        (1, Decimal("1.00")),
        (9.99, Decimal("9.99")),
        ("9.99", Decimal("9.990")),
        ("340282366920938463463374607431768211455", 2**128 - 1),
        (0.3, 0.1 + 0.2),
        (0, -0.0),
        (1, 1.0),
        (NAN, NAN),
        (float("inf"), float("inf")),
        (True, True),
        ("a", "a"),
        ("00000000-0000-0000-0000-000000000001", uuid.UUID(int=1)),
        (date(2024, 1, 1), date(2024, 1, 1)),
        (date(2024, 1, 1), datetime(2024, 1, 1)),
        (datetime(2024, 1, 1, 1), datetime(2024, 1, 1, 1)),
        (datetime(2024, 1, 1, 1), datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=1)))),
        (datetime(2024, 1, 1, 3, tzinfo=timezone(timedelta(hours=2))), datetime(2024, 1, 1, 1, tzinfo=UTC)),
        (time(1, 2), time(1, 2)),
        ([1, [2.5]], [Decimal(1), [2.5]]),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"1": "x"}, MapValue({1: "x"})),
        ({"1": [None]}, MapValue({1: [None]})),
    ],
)
def test_equal_values(expected: Any, value: Any) -> None:
    assert not differs(expected, value)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (1, 2),
        (1.5, 1),
        ("1.5", 2),
        (1, True),
        (True, 1),
        (1, "1"),
        (0.3, 0.3001),
        (0.0, 1e-300),
        (NAN, 1.0),
        (1.0, NAN),
        ("a", "A"),
        ("", None),
        (date(2024, 1, 1), datetime(2024, 1, 1, 1)),
        (datetime(2024, 1, 1), date(2024, 1, 1)),
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1)),
        ([1, 2], [2, 1]),
        ([1], [1, None]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1}),
        (1e999, Decimal(1)),
        ({"a": 1}, MapValue({"a": 1, "b": None})),
        ({"a": 1, "b": None}, MapValue({"a": 1})),
        (datetime.max, "infinity"),
    ],
)
def test_different_values(expected: Any, value: Any) -> None:
    assert differs(expected, value)
    assert compared(["c"], [{}], [[Cell(value, str(value))]], ordered=False) or value is None


def test_missing_key_is_null() -> None:
    assert not compared(["a", "b"], [{"B": 1}], [[Cell(None, None), Cell(1, "1")]], ordered=True)


def test_text_of_a_value_is_its_text_in_duckdb() -> None:
    assert not differs("2 days", timedelta(days=2), "2 days")
    assert not differs("\\xAB", b"\xab", "\\xAB")


def test_rows_count_as_often_as_they_occur() -> None:
    one, two = [Cell(1, "1")], [Cell(2, "2")]
    found = compared(["n"], [{"n": 1}, {"n": 1}, {"n": 2}], [two, one, two], ordered=False)
    assert found == RowDifference(["n"], [["1"]], [["2"]])
    assert not compared(["n"], [{"n": 1}, {"n": 2}], [two, one], ordered=False)
    assert compared(["n"], [], [one], ordered=False).unexpected == [["1"]]


def test_order_counts_only_if_it_is_asked_for() -> None:
    one, two = [Cell(1, "1")], [Cell(2, "2")]
    found = compared(["n"], [{"n": 1}, {"n": 2}], [two, one], ordered=True)
    assert (found.wrong_order, found.missing, found.unexpected) == (True, [["1"], ["2"]], [["2"], ["1"]])
    assert not compared(["n"], [{"n": 2}, {"n": 1}], [two, one], ordered=True)


def test_values_are_shown_as_text() -> None:
    row = {"a": None, "b": False, "c": datetime(2024, 1, 1), "d": 1.5}
    assert compared([*row], [row], [], ordered=False).missing == [[None, "false", "2024-01-01 00:00:00", "1.5"]]
