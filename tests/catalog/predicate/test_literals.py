"""Literals, dates and times of a `where`: DuckDB decides which values of a column satisfy the comparison."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from typing import TYPE_CHECKING, Any, get_args

import duckdb
import pytest
from catalog_lake import column

from lakeconf.catalog.pruning.literals import Text, between, compare, one_of
from lakeconf.catalog.pruning.predicates import (
    Comparison,
    In,
    Operator,
    literal_type,
    parse_date,
    parse_timestamp,
    to_duckdb_sql,
)
from lakeconf.errors import PredicateError

if TYPE_CHECKING:
    from lakeconf.catalog.pruning.literals import Raw
    from lakeconf.catalog.pruning.predicates import Predicate


# For each type, values at and beside its borders.
VALUES = {
    "int8": ["-128", "-1", "0", "1", "2", "126", "127"],
    "int16": ["-32768", "0", "32767"],
    "uint8": ["0", "1", "254", "255"],
    "uint64": ["0", "1", "18446744073709551615"],
    "int128": ["-170141183460469231731687303715884105728", "0", "170141183460469231731687303715884105727"],
    "decimal(4,2)": ["-99.99", "-1.51", "-1.5", "0", "1.5", "1.51", "99.99"],
    "decimal(38,2)": ["-999999999999999999999999999999999999.99", "0.1", "999999999999999999999999999999999999.99"],
    "float64": ["'-inf'", "-0.1", "0.1", "1.5", "3.5e38", "'inf'", "'nan'"],
    "float32": [
        *("'-inf'", "-3.4028235e38", "-0.1", "-1e-45", "0", "1e-45", "0.1", "1.5", "3.4028235e38", "'inf'", "'nan'"),
    ],
    "boolean": ["false", "true"],
    "varchar": ["''", "'A'", "'a'", "'é'", "'10'", "'9'"],
    "uuid": ["'00000000-0000-4000-8000-000000000000'", "'f79c3e09-677c-4bbd-a479-3f349cb785e7'"],
    "blob": [r"'\x00'", r"'a'", r"'\xFF'"],
    "date": ["'0001-01-01'", "'2026-01-30'", "'2026-01-31'", "'2026-02-01'", "'9999-12-31'"],
    "timestamp_s": ["'2026-01-31 00:00:00'", "'2026-01-31 00:00:01'"],
    "timestamp_ms": ["'2026-01-31 00:00:00'", "'2026-01-31 00:00:00.001'", "'2026-01-31 00:00:00.002'"],
    "timestamp": ["'2026-01-31 00:00:00'", "'2026-01-31 00:00:00.000001'", "'9999-12-31 23:59:59.999999'"],
    "timestamp_ns": [
        *("'1677-09-22 00:00:00'", "'2026-01-31 00:00:00.000001'", "'2026-01-31 00:00:00.000001001'"),
        "'2262-04-11 00:00:00'",
    ],
    "timestamptz": ["'2026-01-31 00:00:00+00'", "'2026-01-31 02:00:00.000001+02'", "'2026-01-31 00:00:01+00'"],
}  # fmt: skip
OPERATORS: tuple[Operator, ...] = get_args(Operator)


Answers = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    """The values of conditions for the values of a type and NULL, from DuckDB."""
    with duckdb.connect() as connection:

        def computed(type_name: str, *conditions: str) -> list[tuple[Any, ...]]:
            cast = f"CAST({{}} AS {literal_type(type_name)})"
            values = ", ".join(f"({cast.format(value)})" for value in [*VALUES[type_name], "NULL"])
            return connection.execute(f"SELECT {', '.join(conditions)} FROM (VALUES {values}) AS t(a)").fetchall()

        yield computed


def conditions_of(predicates: list[Predicate]) -> list[str]:
    return [to_duckdb_sql(predicate) for predicate in predicates]


@pytest.mark.parametrize(
    ("type_name", "raw", "literal"),
    [
        *(("int8", Decimal(text), text) for text in ("-129", "-128", "-1.5", "0", "1.5", "126.5", "127", "128")),
        *(("int8", Text(text), f"'{text}'::TINYINT") for text in (" 1", "-128", "127")),
        *(("int8", float(text), text) for text in ("1e0", "15e-1", "-128e0", "1e300")),
        *(("decimal(4,2)", float(text), text) for text in ("15e-1", "-151e-2")),
        ("int16", Decimal("32768"), "32768"),
        ("int16", Decimal("-32769"), "-32769"),
        *(("uint8", Decimal(text), text) for text in ("-1", "-0.5", "0", "0.5", "255", "255.5", "256")),
        ("uint64", Decimal("18446744073709551615"), "18446744073709551615"),
        ("uint64", Decimal("18446744073709551616"), "18446744073709551616"),
        ("int128", Decimal(2**127 - 1), str(2**127 - 1)),
        *(("decimal(4,2)", Decimal(text), text) for text in ("-100", "-99.991", "-99.99", "-1.505", "1.5")),
        *(("decimal(4,2)", Decimal(text), text) for text in ("1.505", "99.99", "100")),
        ("decimal(4,2)", Text("1.5"), "'1.5'::DECIMAL(4,2)"),
        *(("float64", Decimal(text), text) for text in ("0.1", "1.5", "-0.1")),
        *(("float64", float(text), text) for text in ("1e-1", "35e37", "-1e-1")),
        *(("float64", Text(text), f"'{text}'") for text in ("nan", "-inf", "Infinity", "+inf", " 1.5 ")),
        *(("float32", Decimal(text), text) for text in ("0.1", "1.5", "0", "-0.1")),
        *(("float32", float(text), text) for text in ("1e-1", "-1e-1", "15e-1", "1e300", "-1e300")),
        *(("float32", float(text), text) for text in ("1e-300", "-1e-300", "3e-45", "2e-45", "-2e-45")),
        *(("float32", float(text), text) for text in ("34028235e31", "34028236e31", "0e0", "9e-46", "-9e-46")),
        *(("float32", raw, f"'{raw}'::DOUBLE") for raw in (inf, -inf, nan)),
        *(("boolean", raw, str(raw)) for raw in (True, False)),
        *(("boolean", Text(text), f"'{text}'") for text in ("True", "false")),
        *(("varchar", Text(text), f"'{text}'") for text in ("", "a", "10", "é")),
        ("uuid", Text("F79C3E09-677C-4BBD-A479-3F349CB785E7"), "'f79c3e09-677c-4bbd-a479-3f349cb785e7'"),
        *(("blob", raw, rf"'\x{raw.hex()}'::BLOB") for raw in (b"\x00", b"b", b"\xff")),
        ("date", Text("2026-01-31"), "'2026-01-31'"),
        ("date", date(2026, 1, 31), "DATE '2026-01-31'"),
        *(("date", datetime(2026, 1, 31, hour), f"TIMESTAMP '2026-01-31 {hour:02}:00:00'") for hour in (0, 12)),
        *(
            (name, datetime(2026, 1, 31, 0, 0, 0, micros), f"TIMESTAMP '2026-01-31 00:00:00.{micros:06}'")
            for name in ("timestamp_s", "timestamp_ms", "timestamp")
            for micros in (0, 1, 999, 1000, 1001, 2000, 999_999)
        ),
        ("timestamp_s", Text("2026-01-31 00:00:01"), "'2026-01-31 00:00:01'"),
        ("timestamp_ms", Text("2026-01-31 00:00:00.001"), "'2026-01-31 00:00:00.001'"),
        ("timestamp", Text("2026-01-31T00:00:00.000001"), "'2026-01-31 00:00:00.000001'"),
        ("timestamp", date(2026, 1, 31), "DATE '2026-01-31'"),
        ("timestamp_ns", datetime(2026, 1, 31, 0, 0, 0, 1), "TIMESTAMP_NS '2026-01-31 00:00:00.000001'"),
        ("timestamp_ns", datetime(1677, 9, 22), "TIMESTAMP_NS '1677-09-22 00:00:00'"),
        ("timestamp_ns", datetime(2262, 4, 11), "TIMESTAMP_NS '2262-04-11 00:00:00'"),
        ("timestamptz", Text("2026-01-31 02:00:00+02"), "'2026-01-31 02:00:00+02'::TIMESTAMPTZ"),
        ("timestamptz", datetime(2026, 1, 31, 0, 0, 0, 1, UTC), "TIMESTAMPTZ '2026-01-31 00:00:00.000001+00'"),
        ("timestamptz", datetime(2026, 1, 31, tzinfo=UTC), "TIMESTAMPTZ '2026-01-31 00:00:00+00'"),
    ],
)  # fmt: skip
def test_comparison_has_the_result_of_duckdb(type_name: str, raw: Raw, literal: str, answers: Answers) -> None:
    ours = conditions_of([compare(column(type_name), operator, raw) for operator in OPERATORS])
    assert answers(type_name, *ours) == answers(type_name, *(f"a {operator} {literal}" for operator in OPERATORS))


def test_in_has_the_result_of_duckdb(answers: Answers) -> None:
    cases: list[tuple[str, list[Raw], str]] = [
        ("int8", [Decimal(1), Decimal("1.5"), Decimal(300)], "1, 1.5, 300"),
        ("int8", [Decimal("1.5"), Decimal(-300)], "1.5, -300"),
        ("decimal(4,2)", [Decimal("1.505"), Decimal("1.51"), Decimal(-100)], "1.505, 1.51, -100"),
        ("float32", [Decimal("0.1"), Decimal("1.5")], "0.1, 1.5"),
        ("float32", [Decimal("0.1"), 1.5], "0.1, 15e-1"),
        ("float32", [Decimal("0.1"), 0.1], "0.1, 1e-1"),
        ("float64", [Decimal("0.1"), 1.5], "0.1, 15e-1"),
        ("varchar", [Text("a"), Text("10")], "'a', '10'"),
        ("date", [datetime(2026, 1, 31, 12), date(2026, 1, 30)], "TIMESTAMP '2026-01-31 12:00:00', DATE '2026-01-30'"),
    ]
    for type_name, raws, literals in cases:
        (ours,) = conditions_of([one_of(column(type_name), raws)])
        assert answers(type_name, ours) == answers(type_name, f"a IN ({literals})"), type_name


def test_between_has_the_result_of_duckdb(answers: Answers) -> None:
    for type_name, low, high, literals in (
        ("int8", Decimal("-1.5"), Decimal("1.5"), "-1.5 AND 1.5"),
        ("int8", Decimal(1), Decimal(1), "1 AND 1"),
        ("int8", Decimal(2), Decimal(1), "2 AND 1"),
        ("float32", Decimal("0.1"), Decimal("1.5"), "0.1 AND 1.5"),
        ("float32", Decimal("0.1"), 1.5, "0.1 AND 15e-1"),
        ("float32", 0.0, Decimal("0.1"), "0e0 AND 0.1"),
        ("date", Text("2026-01-31"), datetime(2026, 1, 31, 12), "'2026-01-31' AND TIMESTAMP '2026-01-31 12:00:00'"),
    ):
        (ours,) = conditions_of([between(column(type_name), low, high)])
        assert answers(type_name, ours) == answers(type_name, f"a BETWEEN {literals}"), type_name


def test_values_of_in_occur_once_and_in_order() -> None:
    raws: list[Raw] = [Decimal(3), Decimal("1.5"), Decimal(1), Decimal("3.0"), Decimal(-999)]
    assert one_of(column("int8"), raws) == In(column("int8"), (3, 1))


@pytest.mark.parametrize("double", [0.1, -0.1, 1e-46, -1e-46, 1e39, -1e39, 16777217.0, -16777217.0])
def test_float_between_two_singles_is_replaced_by_the_lower_one(double: float) -> None:
    found = compare(column("float32"), "<", double)
    assert isinstance(found, Comparison)
    assert isinstance(found.value, float)
    assert found.operator == "<="
    assert found.value < double
    assert struct.unpack("<f", struct.pack("<f", found.value))[0] == found.value
    # No other single lies between the two.
    above = f"SELECT nextafter('{found.value!r}'::FLOAT, 'inf'::FLOAT)::DOUBLE > {double!r}::DOUBLE"
    assert duckdb.connect().execute(above).fetchall() == [(True,)]


def test_long_decimal_keeps_all_its_digits() -> None:
    longest = "999999999999999999999999999999999999.99"
    for text, kept in ((longest, longest), (f"-{longest}", f"-{longest}"), (f"{longest[:-1]}89", f"{longest[:-1]}8")):
        found = compare(column("decimal(38,2)"), "<=", Decimal(text))
        assert found == Comparison(column("decimal(38,2)"), "<=", Decimal(kept))


@pytest.mark.parametrize(
    ("type_name", "raw", "shown", "hint"),
    [
        ("int8", Text("1.5"), "'1.5'", "write a whole number"),
        ("int8", Text("x"), "'x'", "write a number"),
        ("int8", Text("1 2"), "'1 2'", "write a number"),
        ("int8", Text("nan"), "'nan'", "write a number"),
        ("int8", nan, "nan", "write a number"),
        ("int8", True, "True", "write a number"),
        ("int8", date(2026, 1, 31), "2026-01-31", "write a number"),
        ("decimal(4,2)", Text("1.505"), "'1.505'", "write a number with at most 2 decimals"),
        ("float64", Text("x"), "'x'", "write a number"),
        ("float64", b"x", "b'x'", "write a number"),
        ("boolean", Decimal(1), "1", "write true or false"),
        ("boolean", Text("yes"), "'yes'", "write true or false"),
        ("varchar", Decimal(5), "5", "write a string in single quotes"),
        ("uuid", Text("f79c3e09677c4bbda4793f349cb785e7"), "'f79c3e09677c", "write a UUID in single quotes"),
        ("uuid", Decimal(5), "5", "write a UUID in single quotes"),
        ("blob", Text("x"), "'x'", r"write a BLOB, such as '\xAA'::BLOB"),
        ("date", Text("2026-01-31 00:00:00"), "'2026-01-31 00:00:00'", "write a date, such as DATE '2026-01-31'"),
        ("date", datetime(2026, 1, 31, tzinfo=UTC), "2026-01-31", "write a date, such as DATE '2026-01-31'"),
        ("timestamp", Decimal(5), "5", "without a time zone, such as TIMESTAMP '2026-01-31 00:00:00'"),
        ("timestamp", Text("noon"), "'noon'", "without a time zone, such as TIMESTAMP"),
        ("timestamp", datetime(2026, 1, 31, tzinfo=UTC), "2026", "a time without a time zone"),
        ("timestamptz", datetime(2026, 1, 31), "2026", "a time with a time zone, such as TIMESTAMPTZ '2026-01-31 00"),
        ("timestamptz", date(2026, 1, 31), "2026", "a time with a time zone"),
        ("timestamp_s", Text("2026-01-31 00:00:00.5"), ".5'", "write a time with the precision of the column"),
        ("timestamp_ms", Text("2026-01-31 00:00:00.0005"), ".0005'", "write a time with the precision of the column"),
        ("timestamp_ns", datetime(1677, 9, 21, 23, 59), "1677", "write a time between the years 1678 and 2261"),
        ("timestamp_ns", datetime(2262, 4, 11, 0, 0, 1), "2262", "write a time between the years 1678 and 2261"),
    ],
)
def test_literal_that_does_not_fit_the_type_is_refused(type_name: str, raw: Raw, shown: str, hint: str) -> None:
    with pytest.raises(PredicateError) as refused:
        compare(column(type_name), "=", raw)
    assert refused.value.message.startswith(f"the column 'a' of type {type_name} cannot be compared with ")
    assert shown in refused.value.message
    assert hint in str(refused.value.hint)


@pytest.mark.parametrize("type_name", ["struct", "list", "time", "interval", "json", "variant", "int7", "decimal"])
def test_column_of_a_type_without_literals_is_refused(type_name: str) -> None:
    with pytest.raises(
        PredicateError, match=f"^a `where` cannot compare the column 'a' of type {type_name}"
    ) as refused:
        one_of(column(type_name), [Text("x")])
    assert refused.value.hint == ("use IS NULL or IS NOT NULL, filter after the scan, or run a query with lake.sql()")


def test_number_with_a_huge_exponent_is_clamped_at_once(answers: Answers) -> None:
    assert answers("int8", to_duckdb_sql(compare(column("int8"), "<", Decimal("1e999999")))) == [
        *[(True,)] * len(VALUES["int8"]),
        (None,),
    ]
    low = compare(column("decimal(4,2)"), "<", Decimal("-1e999999"))
    assert answers("decimal(4,2)", to_duckdb_sql(low)) == [*[(False,)] * len(VALUES["decimal(4,2)"]), (None,)]


def test_a_decimal_is_rounded_as_duckdb_rounds_it() -> None:
    """DuckDB's casts do not always return the nearest number."""
    for type_name, text in (
        ("FLOAT", "-0.0061359718"),
        ("FLOAT", "0.00000039166574"),
        ("FLOAT", "16777217"),
        ("FLOAT", "0.1"),
        ("DOUBLE", "0.4974979401965276726"),
        ("DOUBLE", "73773444917345775516.34"),
        ("DOUBLE", "9007199254740993"),
    ):
        name = {"FLOAT": "float32", "DOUBLE": "float64"}[type_name]
        sql = to_duckdb_sql(compare(column(name), "=", Decimal(text)))
        assert duckdb.sql(f"SELECT a = {text}, {sql} FROM (SELECT CAST({text} AS {type_name}) AS a)").fetchall() == [
            (True, True)
        ]


@pytest.mark.parametrize(
    ("text", "day"), [("0001-01-01", date.min), ("2024-02-29", date(2024, 2, 29)), ("9999-12-31", date.max)]
)
def test_date_from_the_first_to_the_last_year(text: str, day: date) -> None:
    assert parse_date(text) == day


def test_time_without_an_offset_is_naive() -> None:
    for text, moment in (
        ("2026-01-31", datetime(2026, 1, 31)),
        ("2026-01-31 12:30", datetime(2026, 1, 31, 12, 30)),
        ("2026-01-31T12:30:05", datetime(2026, 1, 31, 12, 30, 5)),
        ("  2026-01-31 12:30:05.1  ", datetime(2026, 1, 31, 12, 30, 5, 100_000)),
        ("2026-01-31 12:30:05.123456", datetime(2026, 1, 31, 12, 30, 5, 123_456)),
        ("9999-12-31 23:59:59.999999", datetime.max),
    ):
        assert parse_timestamp(text) == moment, text
        assert parse_timestamp(text).tzinfo is None, text


def test_time_with_an_offset_is_converted_to_utc() -> None:
    for offset, hour, minute in (
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
    ):
        text = f"2026-01-31 12:30:00{offset}"
        found = parse_timestamp(text)
        assert found == datetime(2026, 1, 31, hour, minute, tzinfo=UTC), offset
        assert found.tzinfo is UTC, offset
        if offset != "+0530":  # DuckDB needs the colon
            with duckdb.connect() as connection:
                assert connection.execute(f"SELECT CAST('{text}' AS TIMESTAMPTZ) = '{found}'").fetchall() == [(True,)]


TIME = "write YYYY-MM-DD HH:MM:SS, with up to 6 decimals and an optional offset"
NEITHER: list[tuple[Callable[[str], object], str, str | None, list[str]]] = [
    (parse_date, "date", "write YYYY-MM-DD, with a year from 0001 to 9999", [
        *("", "2026-1-1", "20260131", "2026-01-31 ", "2026-02-30", "2023-02-29", "0000-01-01", "10000-01-01"),
        "2026-W05-1",
    ]),
    (parse_timestamp, "time", TIME, [
        *("", "now", "2026-01", "2026-01-31 12", "2026-01-31 12:30:05.1234567", "2026-01-31  12:30", "infinity"),
        *("2026-01-31 12:30 UTC", "2026-01-31 12:30:00 +02", "2026-01-31 12:30:00+2", "2026-01-31 12:30:00+02:0"),
    ]),
    # Outside the calendar.
    (parse_timestamp, "time", None, [
        *("2026-01-31 24:00:01", "2026-01-31 23:60:00", "0001-01-01 00:00:00+01", "9999-12-31 23:59:59-01"),
        *("2026-01-31 00:00:00+24:00", "2026-02-30 00:00:00", "0000-01-01 00:00:00"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("parse", "kind", "hint", "text"),
    [(parse, kind, hint, text) for parse, kind, hint, texts in NEITHER for text in texts],
)
def test_other_text_is_no_date_or_time(parse: Callable[[str], object], kind: str, hint: str | None, text: str) -> None:
    with pytest.raises(PredicateError) as refused:
        parse(text)
    assert refused.value.message == f"{text!r} is not a {kind}"
    assert hint is None or refused.value.hint == hint
