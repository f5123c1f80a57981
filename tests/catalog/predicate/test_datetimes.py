"""Dates and times in a `where`: strict formats, and UTC for times with an offset."""

from __future__ import annotations

from datetime import UTC, date, datetime

import duckdb
import pytest

from lakeconf.catalog.pruning.predicates import parse_date, parse_timestamp
from lakeconf.errors import PredicateError


@pytest.mark.parametrize(
    ("text", "day"), [("0001-01-01", date.min), ("2024-02-29", date(2024, 2, 29)), ("9999-12-31", date.max)]
)
def test_date_from_the_first_to_the_last_year(text: str, day: date) -> None:
    assert parse_date(text) == day


@pytest.mark.parametrize(
    "text",
    ["", "2026-1-1", "20260131", "2026-01-31 ", "2026-02-30", "2023-02-29", "0000-01-01", "10000-01-01", "2026-W05-1"],
)
def test_other_text_is_no_date(text: str) -> None:
    with pytest.raises(PredicateError) as refused:
        parse_date(text)
    assert refused.value.message == f"{text!r} is not a date"
    assert refused.value.hint == "write YYYY-MM-DD, with a year from 0001 to 9999"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31)),
        ("2026-01-31 12:30", datetime(2026, 1, 31, 12, 30)),
        ("2026-01-31T12:30:05", datetime(2026, 1, 31, 12, 30, 5)),
        ("  2026-01-31 12:30:05.1  ", datetime(2026, 1, 31, 12, 30, 5, 100_000)),
        ("2026-01-31 12:30:05.123456", datetime(2026, 1, 31, 12, 30, 5, 123_456)),
        ("9999-12-31 23:59:59.999999", datetime.max),
    ],
)
def test_time_without_an_offset_is_naive(text: str, moment: datetime) -> None:
    assert parse_timestamp(text) == moment
    assert parse_timestamp(text).tzinfo is None


@pytest.mark.parametrize(
    ("offset", "hour", "minute"),
    [
        ("Z", 12, 30),
        ("+00", 12, 30),
        ("-00:00", 12, 30),
        ("+02", 10, 30),
        ("-02", 14, 30),
        ("+0530", 7, 0),
        ("+05:30", 7, 0),
        ("-05:30", 18, 0),
        ("+05:45", 6, 45),
        ("-00:45", 13, 15),
    ],
)
def test_time_with_an_offset_is_converted_to_utc(offset: str, hour: int, minute: int) -> None:
    text = f"2026-01-31 12:30:00{offset}"
    found = parse_timestamp(text)
    assert found == datetime(2026, 1, 31, hour, minute, tzinfo=UTC)
    assert found.tzinfo is UTC
    if offset != "+0530":  # DuckDB needs the colon
        with duckdb.connect() as connection:
            assert connection.execute(f"SELECT CAST('{text}' AS TIMESTAMPTZ) = '{found}'").fetchall() == [(True,)]


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-01", "2026-01-31 12", "2026-01-31 12:30:05.1234567", "2026-01-31  12:30"),
        *("2026-01-31 12:30 UTC", "2026-01-31 12:30:00 +02", "2026-01-31 12:30:00+2", "infinity"),
        "2026-01-31 12:30:00+02:0",
    ],
)
def test_other_format_is_no_time(text: str) -> None:
    with pytest.raises(PredicateError) as refused:
        parse_timestamp(text)
    assert refused.value.message == f"{text!r} is not a time"
    assert refused.value.hint == "write YYYY-MM-DD HH:MM:SS, with up to 6 decimals and an optional offset"


@pytest.mark.parametrize(
    "text",
    [
        *("2026-01-31 24:00:01", "2026-01-31 23:60:00", "0001-01-01 00:00:00+01", "9999-12-31 23:59:59-01"),
        *("2026-01-31 00:00:00+24:00", "2026-02-30 00:00:00", "0000-01-01 00:00:00"),
    ],
)
def test_time_outside_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(PredicateError, match=f"{text.replace('+', '.')}' is not a time"):
        parse_timestamp(text)
