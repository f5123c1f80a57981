"""Bounds and partition keys exclude only files that cannot contain a matching row."""

from __future__ import annotations

from datetime import date, datetime
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
    "type_name", ["blob", "int128", "uint128", "interval", "time", "json", "list", "struct", "new"]
)
def test_type_without_usable_statistics_has_no_bounds(type_name: str) -> None:
    assert bounds_of(column(type_name), "low", "high") is None


def test_text_of_a_later_timestamptz_widens_the_bounds_by_a_day(connection: Connection) -> None:
    promoted = column("timestamp", later="timestamptz")
    low, high = evaluated(connection, promoted, "2026-01-31 00:00:00", "2026-01-31 00:00:00")
    assert (low, high) == (datetime(2026, 1, 30), datetime(2026, 2, 1))
    day = column("date", later="timestamptz")
    assert evaluated(connection, day, "2026-01-31", "2026-01-31") == (date(2026, 1, 30), date(2026, 2, 1))
    other = column("date", later="timestamp")
    assert evaluated(connection, other, "2026-01-31", "2026-01-31") == (date(2026, 1, 31), date(2026, 1, 31))


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
