"""Bounds and partition keys exclude only files that cannot contain a matching row."""

from __future__ import annotations

from datetime import date, datetime
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from catalog_lake import METADATA

from lakeconf.catalog.pruning.pruned_files import (
    bounds_of,
    usable_keys,
)
from lakeconf.catalog.tables import Column, load_table
from lakeconf.connection.connection import connect, load_extension
from lakeconf.sql import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_lake import Lake

    from lakeconf.connection.connection import Connection


def column(type_name: str, later: str | None = None) -> Column:
    return Column(1, "a", type_name, nullable=True, initial_default=None, later_types=(later,) if later else ())


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with connect() as opened:
        load_extension(opened, "icu")
        opened.execute("SET TimeZone = 'America/New_York'")
        yield opened


def evaluated(connection: Connection, found: Column, low: str | None, high: str | None) -> tuple[Any, Any]:
    bounds = bounds_of(found, "low", "high")
    assert bounds is not None
    texts = ", ".join("NULL::VARCHAR" if text is None else literal(text) for text in (low, high))
    (row,) = connection.rows(f"SELECT {bounds.low}, {bounds.high} FROM (VALUES ({texts})) AS t(low, high)")
    return row[0], row[1]


@pytest.mark.parametrize(
    "type_name",
    [
        *("int8", "decimal(4,2)", "float32", "float64", "date", "timestamp", "timestamp_s", "timestamptz", "boolean"),
        "uuid",
    ],
)
def test_text_that_cannot_be_parsed_gives_no_bound(connection: Connection, type_name: str) -> None:
    assert evaluated(connection, column(type_name), "x", None) == (None, None)


@pytest.mark.parametrize(
    "type_name", ["blob", "int128", "uint128", "interval", "time", "json", "list", "struct", "new"]
)
def test_type_without_usable_statistics_has_no_bounds(type_name: str) -> None:
    assert bounds_of(column(type_name), "low", "high") is None


def test_bounds_of_a_double_contain_the_single_and_the_quotient(connection: Connection) -> None:
    low, high = evaluated(connection, column("float64"), "0.1", "0.1")
    assert low < 0.1 < high
    single = 0.10000000149011612  # 0.1 in a FLOAT file
    assert high == single
    assert 0 < 0.1 - low < 1e-16
    below, above = evaluated(connection, column("float64"), "-0.1", "-0.1")
    assert (below, above) == (-single, -low)
    assert evaluated(connection, column("float64"), "-inf", "inf") == (-inf, inf)
    largest = evaluated(connection, column("float64"), "-1e300", "1e300")
    assert largest[0] <= -1e300
    assert largest[1] >= 1e300


@pytest.mark.parametrize(
    ("type_name", "exact", "finer", "slack"),
    [
        ("timestamp_s", "2026-01-31 00:00:10", "2026-01-31 00:00:10.6", 1_000_000),
        ("timestamp_ms", "2026-01-31 00:00:10.123", "2026-01-31 00:00:10.1236", 1_000_000),
        ("timestamp", "2026-01-31 00:00:10.123456", "2026-01-31 00:00:10.123456789", 1),
        ("timestamp", "2026-01-31 00:00:10", "2026-01-31 00:00:10.1234567", 1),
        ("timestamp_ns", "2026-01-31 00:00:10", "2026-01-31 00:00:10.1234567", 1),
        ("timestamp_ns", "2026-01-31 00:00:10.123456", "2026-01-31 00:00:10.123456789", 1),
    ],
)
def test_finer_text_than_the_type_widens_the_bounds(
    connection: Connection, type_name: str, exact: str, finer: str, slack: int
) -> None:
    low, high = evaluated(connection, column(type_name), exact, exact)
    assert low == high == datetime.fromisoformat(exact)
    low, high = evaluated(connection, column(type_name), finer, finer)
    assert (high - low).total_seconds() * 1_000_000 == 2 * slack


def test_text_of_a_later_timestamptz_widens_the_bounds_by_a_day(connection: Connection) -> None:
    promoted = column("timestamp", later="timestamptz")
    low, high = evaluated(connection, promoted, "2026-01-31 00:00:00", "2026-01-31 00:00:00")
    assert (low, high) == (datetime(2026, 1, 30), datetime(2026, 2, 1))
    day = column("date", later="timestamptz")
    assert evaluated(connection, day, "2026-01-31", "2026-01-31") == (date(2026, 1, 30), date(2026, 2, 1))
    other = column("date", later="timestamp")
    assert evaluated(connection, other, "2026-01-31", "2026-01-31") == (date(2026, 1, 31), date(2026, 1, 31))


@pytest.mark.parametrize(
    "text", ["2026-01-31 12:00:00+00", "2026-01-31 07:00:00.5-05", "2026-01-31 17:30:00.000001+05:30"]
)
def test_time_with_an_offset_is_an_exact_bound(connection: Connection, text: str) -> None:
    bounds = bounds_of(column("timestamptz"), "t", "t")
    assert bounds is not None
    same = f"SELECT {bounds.low} = t::TIMESTAMPTZ, {bounds.high} = t::TIMESTAMPTZ FROM (VALUES ('{text}')) AS v(t)"
    assert connection.rows(same) == [(True, True)]


@pytest.mark.parametrize("text", ["2026-01-31 12:00:00", "2026-01-31 12:00:00.5", "2026-01-31"])
def test_time_without_an_offset_gives_bounds_for_every_time_zone(connection: Connection, text: str) -> None:
    bounds = bounds_of(column("timestamptz"), "t", "t")
    assert bounds is not None
    inside = (
        f"SELECT {bounds.low} <= (t::TIMESTAMP || '+14')::TIMESTAMPTZ, {bounds.high} - {bounds.low} = INTERVAL 2 DAY, "
        f"{bounds.high} >= (t::TIMESTAMP || '-12')::TIMESTAMPTZ FROM (VALUES ('{text}')) AS v(t)"
    )
    assert connection.rows(inside) == [(True, True, True)]


def test_infinite_time_is_an_exact_bound(connection: Connection) -> None:
    bounds = bounds_of(column("timestamptz"), "low", "high")
    assert bounds is not None
    infinite = (
        f"SELECT isinf({bounds.low}), isinf({bounds.high}) FROM (VALUES ('-infinity', 'infinity')) AS t(low, high)"
    )
    assert connection.rows(infinite) == [(True, True)]


def test_bound_at_the_end_of_the_calendar_does_not_fail(connection: Connection) -> None:
    promoted = column("timestamp", later="timestamptz")
    assert evaluated(connection, promoted, "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806") == (None, None)
    day = evaluated(connection, column("date", later="timestamptz"), "5877642-06-25 (BC)", "5881580-07-10")
    assert day == (None, None)


def col(type_name: str, *, former: str = "", later: str = "") -> Column:
    return Column(
        1, "a", type_name, nullable=True, initial_default=None,
        former_types=(former,) if former else (), later_types=(later,) if later else (),
    )  # fmt: skip


MOMENTS = ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns")
USABLE = {
    "identity": [col("float64"), col("timestamptz"), col("list"), col("int8", former="int4")],
    "bucket(4)": [*map(col, ("int8", "uint64", "varchar", "date", "decimal(4,2)"))],
    "year": [*map(col, (*MOMENTS, "date")), col("date", later="timestamp")],
    "day": [*map(col, (*MOMENTS, "date"))],
    "month": [col("date")],
    "hour": [*map(col, MOMENTS)],
}
UNUSABLE = {
    "bucket(4)": [
        *map(col, ("float64", "timestamptz", "timestamp", "blob", "uuid", "int128", "boolean")),
        col("int64", former="uint8"),
        col("int8", later="int64"),
    ],
    "year": [col("timestamptz"), col("timestamp", later="timestamptz"), col("varchar")],
    "month": [col("timestamptz"), col("int32")],
    "hour": [col("date"), col("timestamptz")],
    "truncate(4)": [col("varchar")],
    "week": [col("date")],
}


def test_key_is_usable_if_it_depends_only_on_the_value(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER)", "ALTER TABLE lake.t SET PARTITIONED BY (a)")
    table = load_table(local.reader, "t", local.newest)
    expected = [(transform, one, True) for transform, columns in USABLE.items() for one in columns]
    expected += [(transform, one, False) for transform, columns in UNUSABLE.items() for one in columns]
    for transform in {**USABLE, **UNUSABLE}:
        local.run(f"UPDATE {METADATA}.ducklake_partition_column SET transform = '{transform}'")
        with local.reader.transaction() as transaction:
            for _, one, is_usable in (case for case in expected if case[0] == transform):
                assert (1 in usable_keys(transaction, table.table_id, [one])) is is_usable, (transform, one)
