"""Models are computed in UTC, whatever the time zone of the machine is."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest
from local_stores import store_of

from lakeconf.errors import AuditError
from lakeconf.pipelines import Append, Full, Incremental, Model, Pipeline, Query, plan, run
from lakeconf.pipelines.intervals import in_utc
from lakeconf.pipelines.models.body import Function
from lakeconf.pipelines.models.unit_tests import DeclaredUnitTest, UnitTest, run_unit_tests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake

FIRST = datetime(2024, 3, 8, tzinfo=UTC)
# One row in each hour of four days; New York sets its clocks forward on 10 March.
HOURS = "SELECT TIMESTAMPTZ '2024-03-08 00:30:00+00' + INTERVAL (i) HOUR AS ts FROM range(96) r(i)"
# Midnight of a date, in the time zone of the connection.
MIDNIGHT = "CAST(CAST(DATE '2024-03-08' AS TIMESTAMPTZ) AS VARCHAR)"

ZONE = "America/New_York"
IN_RANGE = Query("SELECT ts FROM raw.events WHERE ts >= $start AND ts < $end")


@pytest.fixture
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lake]:
    """A lake on a machine in another time zone, by default one behind UTC."""
    with store_of(tmp_path).open() as lake:
        zone = getattr(request, "param", ZONE)
        lake._session.reader.connection.execute(f"SET GLOBAL TimeZone = '{zone}'")
        hours = lake.sql(HOURS)
        lake.create_table("raw.events", hours).append(hours)
        yield lake


def fetched(lake: Lake, sql: str) -> list[Any]:
    native: Any = lake.sql(sql).to_native()
    return [value for (value,) in native.fetchall()]


def by_function(events: nw.LazyFrame[Any], start: date, end: date) -> nw.LazyFrame[Any]:
    return events.filter(nw.col("ts") >= start, nw.col("ts") < end)


@pytest.mark.parametrize(
    ("lake", "body"),
    [("America/New_York", IN_RANGE), ("America/New_York", Function(by_function)), ("Asia/Tokyo", IN_RANGE)],
    indirect=["lake"],
)
def test_range_of_an_incremental_model_begins_at_midnight_utc(body: Any, lake: Lake) -> None:
    inputs = {"events": "raw.events"} if isinstance(body, Function) else {}
    model = Model("marts.daily", Incremental("ts", start=FIRST.date()), body, inputs)
    for until in (date(2024, 3, 10), date(2024, 3, 12)):
        (step,) = plan(Pipeline([model]), lake, until=until)
        assert step.runs
        (result,) = run(Pipeline([model]), lake, until=until)
        assert result.error is None
        hours = 24 * (until - FIRST.date()).days
        assert result.rows == 48
        lasts = fetched(lake, "SELECT epoch(max(ts)) FROM marts.daily")
        assert lasts == [(FIRST + timedelta(hours=hours - 0.5)).timestamp()]
    assert fetched(lake, "SELECT count(*) FROM marts.daily") == [96]


def test_audits_and_files_are_computed_in_utc(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at\n2024-03-08 00:00:00\n")
    audit = f"SELECT 1 WHERE {MIDNIGHT} <> '2024-03-08 00:00:00+00'"
    files = Append(files="*.csv", columns={"at": "TIMESTAMPTZ"})
    (result,) = run(Pipeline([Model("raw.t", files, folder=tmp_path, audits={"utc": audit})]), lake)
    assert result.error is None
    assert fetched(lake, 'SELECT epoch("at") FROM raw.t') == [FIRST.timestamp()]
    (result,) = run(Pipeline([Model("marts.t", Full(), Query("SELECT 1 AS a"), audits={"never": "SELECT 1"})]), lake)
    assert isinstance(result.error, AuditError)


def test_unit_test_computes_the_model_in_utc(lake: Lake) -> None:
    model = Model("marts.t", Full(), Query(f"SELECT {MIDNIGHT} AS at"))
    test = UnitTest("t", DeclaredUnitTest(model="marts.t", given={}, expect=[{"at": "2024-03-08 00:00:00+00"}]))
    (result,) = run_unit_tests(Pipeline([model]), [test], lake)
    assert (result.status, result.error) == ("passed", None)


def test_queries_of_users_keep_the_time_zone_of_the_machine(lake: Lake) -> None:
    query = "SELECT current_setting('TimeZone')"
    run(Pipeline([Model("marts.t", Full(), Query("SELECT 1 AS a"))]), lake)
    plan(Pipeline([Model("marts.u", Full(), Query("SELECT 1 AS a"))]), lake)
    assert fetched(lake, query) == [ZONE]
    with in_utc(lake):
        assert fetched(lake, query) == ["UTC"]
    assert fetched(lake, query) == [ZONE]
    assert lake._session.writer.rows(query) == [(ZONE,)]
    with in_utc(lake):
        lake.close()
