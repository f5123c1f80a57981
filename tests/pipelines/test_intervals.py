"""Intervals that a run processes, in UTC, and what causes a model to run again."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import narwhals as nw
import pytest
from hypothesis import given
from lake_parts import catalog_of, session_of
from local_stores import store_of
from promotions import rows

from lakeconf.errors import AuditError
from lakeconf.pipelines import Append, Full, Incremental, Merge, Model, Pipeline, Query, plan, run
from lakeconf.pipelines.intervals import Range, batches, floor, in_utc, moment, step
from lakeconf.pipelines.models.body import Function
from lakeconf.pipelines.models.kinds import Interval
from lakeconf.pipelines.models.unit_tests import DeclaredUnitTest, UnitTest, run_unit_tests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


START = datetime(2024, 1, 1)
DAY = timedelta(days=1)


def day(number: int) -> datetime:
    return START + (number - 1) * DAY


def days(first: int, last: int) -> Range:
    """The range from the first to the last day, both included."""
    return day(first), day(last + 1)


def found(kind: Incremental, until: datetime, done: list[Range], *, late: bool = False) -> list[Range]:
    return [(one.start, one.end) for one in batches(kind, START, until, done, late=late)]


def test_missing_days_and_the_lookback_are_batches() -> None:
    cases: list[tuple[dict[str, Any], bool, list[Range], list[Range]]] = [
        ({}, False, [], [days(1, 10)]),
        ({}, False, [days(1, 10)], []),
        ({}, False, [days(1, 2), days(5, 6), days(8, 8)], [days(3, 4), days(7, 7), days(9, 10)]),
        ({"lookback": 2}, False, [days(1, 9)], [days(8, 10)]),
        ({"lookback": 2}, True, [days(1, 10)], [days(9, 10)]),
        ({}, True, [days(1, 10)], []),
        ({"batch": 4}, False, [], [days(1, 4), days(5, 8), days(9, 10)]),
    ]
    for options, late, done, expected in cases:
        assert found(Incremental("d", **options), day(11), done, late=late) == expected
    # An unfinished day is processed only with `partial`.
    noon = day(10) + timedelta(hours=12)
    assert found(Incremental("d"), noon, [days(1, 8)]) == [days(9, 9)]
    (batch,) = batches(Incremental("d", partial=True), START, noon, [days(1, 8)], late=False)
    assert (batch.start, batch.end, batch.done_until) == (day(9), noon, day(10))


def test_intervals_start_at_calendar_boundaries_in_utc() -> None:
    expected: dict[Interval, datetime] = {
        "hour": datetime(2024, 2, 29, 13),
        "day": datetime(2024, 2, 29),
        "month": datetime(2024, 2, 1),
        "year": datetime(2024, 1, 1),
    }
    for interval, start in expected.items():
        assert floor(datetime(2024, 2, 29, 13, 45, 10, 7), interval) == start
        assert step(step(start, interval, 14), interval, -14) == start
    assert step(datetime(2023, 11, 1), "month", 4) == datetime(2024, 3, 1)
    assert step(datetime(2024, 1, 1), "year") == datetime(2025, 1, 1)
    assert moment(datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))) == datetime(2023, 12, 31, 23)
    assert moment(date(2024, 1, 1)) == START


@given(
    done=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6)), max_size=8),
    until=st.integers(1, 40),
    lookback=st.integers(0, 4),
    batch=st.none() | st.integers(1, 5),
)
def test_batches_cover_every_missing_day_exactly_once(
    done: list[tuple[int, int]], until: int, lookback: int, batch: int | None
) -> None:
    ranges = [days(first, first + length) for first, length in done]
    kind = Incremental("d", lookback=lookback, batch=batch)
    chosen = [day(n) for one in found(kind, day(until + 1), ranges) for n in range(1, 60) if one[0] <= day(n) < one[1]]
    before = {day(n) for first, last in ranges for n in range(1, 60) if first <= day(n) < last}
    assert len(chosen) == len(set(chosen))
    assert {day(n) for n in range(1, until + 1)} <= before | set(chosen)
    missing = {day(n) for n in range(1, until + 1)} - before
    again = set(chosen) - missing
    assert all(any(one + DAY * back in missing for back in range(1, lookback + 1)) for one in again)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    for name in ("a", "b"):
        found = lake.sql("SELECT 1 AS id, 10 AS n")
        lake.create_table(f"raw.{name}", found).append(found)
    return lake


def done(lake: Lake, *models: Model, **given: Any) -> list[str]:
    results = run(Pipeline(models), lake, **given)
    for result in results:
        if result.error is not None:
            raise result.error
    return [result.reason for result in results]


def add(lake: Lake, table: str, number: int, n: int) -> None:
    lake.table(table).append(lake.sql(f"SELECT {number} AS id, {n} AS n"))


@pytest.mark.slow
def test_changed_input_table_causes_a_rebuild(lake: Lake) -> None:
    done(lake, Model("marts.t", Merge("id", changes_of="x"), Query("SELECT id, n FROM x"), {"x": "raw.a"}))
    moved = Model("marts.t", Merge("id", changes_of="x"), Query("SELECT id, n FROM x"), {"x": "raw.b"})
    (step,) = plan(Pipeline([moved]), lake)
    assert (step.runs, step.rebuild, step.needs_rebuild) == (True, True, True)
    done(lake, moved, rebuild=True)
    view = Model("marts.u", Full(), Query("SELECT id, n FROM x"), {"x": "raw.a"})
    done(lake, view)
    assert [step.runs for step in plan(Pipeline([view]), lake)] == [False]


@pytest.mark.slow
def test_plan_includes_models_downstream_of_a_model_that_will_run(lake: Lake) -> None:
    below = Model("marts.b", Full(), Query("SELECT * FROM marts.t"))
    first = Model("marts.t", Full(), Query("SELECT id, n FROM raw.a"))
    done(lake, first, below)
    assert [step.runs for step in plan(Pipeline([first, below]), lake)] == [False, False]
    add(lake, "raw.a", 2, 20)
    steps = plan(Pipeline([first, below]), lake)
    assert [(step.model.table, step.runs, step.reason) for step in steps] == [
        ("marts.t", True, "raw.a changed"),
        ("marts.b", True, "marts.t changed"),
    ]


@pytest.mark.slow
def test_merge_updates_rows_only_with_update(lake: Lake) -> None:
    merges = [
        Model(f"marts.{up}", Merge("id", update=up), Query("SELECT id, n FROM A"), {"A": "raw.a"})
        for up in (True, False)
    ]
    done(lake, *merges)
    lake.table("raw.a").update({"n": 99}, "id = 1")
    add(lake, "raw.a", 2, 20)
    done(lake, *merges)
    assert (rows(lake, "marts.True"), rows(lake, "marts.False")) == ([(1, 99), (2, 20)], [(1, 10), (2, 20)])


FIRST = datetime(2024, 3, 8, tzinfo=UTC)
# One row in each hour of four days; New York sets its clocks forward on 10 March.
HOURS = "SELECT TIMESTAMPTZ '2024-03-08 00:30:00+00' + INTERVAL (i) HOUR AS ts FROM range(96) r(i)"
# Midnight of a date, in the time zone of the connection.
MIDNIGHT = "CAST(CAST(DATE '2024-03-08' AS TIMESTAMPTZ) AS VARCHAR)"

ZONE = "America/New_York"
IN_RANGE = Query("SELECT ts FROM raw.events WHERE ts >= $start AND ts < $end")


@pytest.fixture
def elsewhere(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lake]:
    """A lake on a machine in another time zone, by default one behind UTC."""
    with store_of(tmp_path).open() as elsewhere:
        zone = getattr(request, "param", ZONE)
        catalog_of(elsewhere).connection.execute(f"SET GLOBAL TimeZone = '{zone}'")
        hours = elsewhere.sql(HOURS)
        elsewhere.create_table("raw.events", hours).append(hours)
        yield elsewhere


def fetched(elsewhere: Lake, sql: str) -> list[Any]:
    native: Any = elsewhere.sql(sql).to_native()
    return [value for (value,) in native.fetchall()]


def by_function(events: nw.LazyFrame[Any], start: date, end: date) -> nw.LazyFrame[Any]:
    return events.filter(nw.col("ts") >= start, nw.col("ts") < end)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("elsewhere", "body"),
    [("America/New_York", IN_RANGE), ("America/New_York", Function(by_function)), ("Asia/Tokyo", IN_RANGE)],
    indirect=["elsewhere"],
)
def test_range_of_an_incremental_model_begins_at_midnight_utc(body: Any, elsewhere: Lake) -> None:
    inputs = {"events": "raw.events"} if isinstance(body, Function) else {}
    model = Model("marts.daily", Incremental("ts", start=FIRST.date()), body, inputs)
    for until in (date(2024, 3, 10), date(2024, 3, 12)):
        (step,) = plan(Pipeline([model]), elsewhere, until=until)
        assert step.runs
        (result,) = run(Pipeline([model]), elsewhere, until=until)
        assert result.error is None
        hours = 24 * (until - FIRST.date()).days
        assert result.rows == 48
        lasts = fetched(elsewhere, "SELECT epoch(max(ts)) FROM marts.daily")
        assert lasts == [(FIRST + timedelta(hours=hours - 0.5)).timestamp()]
    assert fetched(elsewhere, "SELECT count(*) FROM marts.daily") == [96]


def test_audits_files_and_unit_tests_are_computed_in_utc(elsewhere: Lake, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at\n2024-03-08 00:00:00\n")
    audit = f"SELECT 1 WHERE {MIDNIGHT} <> '2024-03-08 00:00:00+00'"
    files = Append(files="*.csv", columns={"at": "TIMESTAMPTZ"})
    (result,) = run(Pipeline([Model("raw.t", files, folder=tmp_path, audits={"utc": audit})]), elsewhere)
    assert result.error is None
    assert fetched(elsewhere, 'SELECT epoch("at") FROM raw.t') == [FIRST.timestamp()]
    (result,) = run(
        Pipeline([Model("marts.t", Full(), Query("SELECT 1 AS a"), audits={"never": "SELECT 1"})]), elsewhere
    )
    assert isinstance(result.error, AuditError)
    model = Model("marts.u", Full(), Query(f"SELECT {MIDNIGHT} AS at"))
    test = UnitTest("u", DeclaredUnitTest(model="marts.u", given={}, expect=[{"at": "2024-03-08 00:00:00+00"}]))
    (tested,) = run_unit_tests(Pipeline([model]), [test], elsewhere)
    assert (tested.status, tested.error) == ("passed", None)


def test_queries_of_users_keep_the_time_zone_of_the_machine(elsewhere: Lake) -> None:
    query = "SELECT current_setting('TimeZone')"
    run(Pipeline([Model("marts.t", Full(), Query("SELECT 1 AS a"))]), elsewhere)
    plan(Pipeline([Model("marts.u", Full(), Query("SELECT 1 AS a"))]), elsewhere)
    assert fetched(elsewhere, query) == [ZONE]
    with in_utc(elsewhere):
        assert fetched(elsewhere, query) == ["UTC"]
    assert fetched(elsewhere, query) == [ZONE]
    assert session_of(elsewhere).writer.rows(query) == [(ZONE,)]
    with in_utc(elsewhere):
        elsewhere.close()
