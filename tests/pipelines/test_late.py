"""Late rows: input changes in completed intervals are reported until those intervals run again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest
from local_stores import store_of

from lakeconf.pipelines import Full, Incremental, Model, ModelResult, Pipeline, Query, View, model, plan, run

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake

UNTIL = date(2024, 1, 5)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """A lake with one event on each of four days."""
    lake.create_table("raw.events", {"ts": "TIMESTAMP", "n": "INTEGER"})
    for day in range(1, 5):
        add(lake, day)
    return lake


def add(lake: Lake, day: int, n: int = 1) -> None:
    lake.table("raw.events").append(lake.sql(f"SELECT TIMESTAMP '2024-01-{day:02} 12:30:00' AS ts, {n} AS n"))


def daily(query: str = "", **given: Any) -> Pipeline:
    """Daily sums. The time columns of the input and of the model have different names."""
    sql = "SELECT CAST(ts AS DATE) AS day, sum(n) AS n FROM raw.events WHERE ts >= $start AND ts < $end GROUP BY ALL"
    kind = Incremental("day", start=date(2024, 1, 1), **given)
    return Pipeline([Model("marts.daily", kind, Query(query or sql))])


def only(results: list[ModelResult]) -> ModelResult:
    (result,) = results
    if result.error is not None:
        raise result.error
    return result


def sums(lake: Lake) -> list[int]:
    lake.refresh()
    native: Any = lake.sql("SELECT CAST(n AS INTEGER) FROM marts.daily ORDER BY day").to_native()
    return [n for (n,) in native.fetchall()]


def warnings(lake: Lake, pipeline: Pipeline) -> list[str]:
    (step,) = plan(pipeline, lake, until=UNTIL)
    return list(step.warnings)


@pytest.mark.slow
def test_late_rows_are_reported_until_their_days_run_again(lake: Lake) -> None:
    pipeline = daily()
    assert only(run(pipeline, lake, until=UNTIL)).warnings == []
    assert warnings(lake, pipeline) == []
    add(lake, 1, 10)
    add(lake, 3, 10)
    add(lake, 5)
    expected = (
        "raw.events changed in done intervals: run with --from 2024-01-01 --to 2024-01-02, "
        "--from 2024-01-03 --to 2024-01-04, or --from 2024-01-01 --to 2024-01-04 for all"
    )
    assert warnings(lake, pipeline) == [expected]
    # After a run of a new day they are still reported.
    assert list(only(run(pipeline, lake, until=date(2024, 1, 6))).warnings) == [expected]
    assert warnings(lake, pipeline) == [expected]
    only(run(pipeline, lake, since=date(2024, 1, 1), until=date(2024, 1, 2)))
    (left,) = warnings(lake, pipeline)
    assert "--from 2024-01-03 --to 2024-01-04" in left
    assert "2024-01-01" not in left
    assert sums(lake) == [11, 1, 1, 1, 1]
    assert list(only(run(pipeline, lake, since=date(2024, 1, 3), until=UNTIL)).warnings) == []
    assert sums(lake) == [11, 1, 11, 1, 1]
    assert warnings(lake, pipeline) == []


@pytest.mark.slow
def test_late_deletes_and_updates_are_reported(lake: Lake) -> None:
    pipeline = daily()
    only(run(pipeline, lake, until=UNTIL))
    lake.table("raw.events").delete("ts < TIMESTAMP '2024-01-02 00:00:00'")
    (found,) = warnings(lake, pipeline)
    assert found.endswith("--from 2024-01-01 --to 2024-01-02")
    lake.table("raw.events").update({"n": 7}, "ts >= TIMESTAMP '2024-01-04 00:00:00'")
    (found,) = warnings(lake, pipeline)
    assert "--from 2024-01-04 --to 2024-01-05, or --from 2024-01-01 --to 2024-01-05 for all" in found


@pytest.mark.slow
def test_a_model_can_ignore_late_rows(lake: Lake) -> None:
    only(run(daily(), lake, until=UNTIL))
    add(lake, 2, 10)
    assert warnings(lake, daily(late="ignore")) == []
    assert only(run(daily(late="ignore"), lake, until=UNTIL)).status == "skipped"


@pytest.mark.slow
def test_a_lookback_that_fails_half_way_is_continued(lake: Lake) -> None:
    (model,) = daily(lookback=4, batch=1, late="ignore").models
    audit = "SELECT * FROM marts.daily WHERE n > (SELECT max(n) FROM raw.limits) AND day = DATE '2024-01-03'"
    pipeline = Pipeline([replace(model, audits={"limit": audit})])
    lake.create_table("raw.limits", {"n": "INTEGER"}).append([{"n": 1}])
    only(run(pipeline, lake, until=UNTIL))
    for day in (1, 3):
        add(lake, day, 10)
    (result,) = run(pipeline, lake, until=UNTIL)
    assert (result.status, result.rows) == ("failed", 2)
    assert result.error is not None
    said = "the audit 'limit' found 1 row, so nothing was written"
    assert result.error.message.startswith(f"2 ranges were committed, but not 2024-01-03 to 2024-01-04: {said}")
    assert sums(lake) == [11, 1, 1, 1]
    lake.table("raw.limits").append([{"n": 100}])
    assert only(run(pipeline, lake, until=UNTIL)).status == "done"
    assert sums(lake) == [11, 1, 11, 1]
    assert only(run(pipeline, lake, until=UNTIL)).status == "skipped"


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True], ids=["ends", "fails"])
@pytest.mark.parametrize("before", [0, 1], ids=["same_run", "earlier_run"])
def test_rows_that_another_writer_adds_between_batches_are_late(
    lake: Lake, tmp_path: Path, before: int, *, fails: bool
) -> None:
    todo = ["add", *(["fail"] if fails else [])]

    @model("marts.daily", Incremental("day", start=date(2024, 1, 1), batch=1), inputs={"events": "raw.events"})
    def days(events: nw.LazyFrame[Any], start: date, end: date) -> nw.LazyFrame[Any]:
        if start == date(2024, 1, 2 + before) and "add" in todo:
            todo.remove("add")
            with store_of(tmp_path).open() as other:
                add(other, 1, 100)
        if start == date(2024, 1, 4) and "fail" in todo:
            todo.remove("fail")
            raise ValueError("a batch failed")
        rows = events.with_columns(day=nw.col("ts").dt.date()).filter(nw.col("day") >= start, nw.col("day") < end)
        return rows.group_by("day").agg(nw.col("n").sum())

    pipeline = Pipeline([days])
    if before:
        only(run(pipeline, lake, until=date(2024, 1, 2)))
    (first,) = run(pipeline, lake, until=UNTIL)
    assert first.status == ("failed" if fails else "done")
    if fails:
        only(run(pipeline, lake, until=UNTIL))
    (found,) = warnings(lake, pipeline)
    assert found.endswith("run with --from 2024-01-01 --to 2024-01-02")
    assert only(run(pipeline, lake, since=date(2024, 1, 1), until=date(2024, 1, 2))).status == "done"
    assert (sums(lake), warnings(lake, pipeline)) == ([101, 1, 1, 1], [])
    assert only(run(pipeline, lake, until=UNTIL)).status == "skipped"


@pytest.mark.slow
def test_days_within_the_lookback_are_redone_without_a_warning(lake: Lake) -> None:
    pipeline = daily(lookback=1)
    only(run(pipeline, lake, until=UNTIL))
    add(lake, 4, 10)
    assert list(only(run(pipeline, lake, until=UNTIL)).warnings) == []
    assert sums(lake) == [1, 1, 1, 11]


@pytest.mark.slow
def test_late_rows_below_a_view_are_reported(lake: Lake) -> None:
    view = Model("raw.v", View(), Query("SELECT CAST(ts AS DATE) AS day, n FROM raw.events"))
    sql = "SELECT day, sum(n) AS n FROM raw.v WHERE day >= $start AND day < $end GROUP BY day"
    pipeline = Pipeline([view, *daily(sql).models])
    for result in run(pipeline, lake, until=UNTIL):
        assert result.error is None
    add(lake, 2)
    assert "--from 2024-01-02 --to 2024-01-03" in plan(pipeline, lake, until=UNTIL)[-1].warnings[0]


@pytest.mark.slow
def test_late_row_that_the_model_alone_would_filter_out_is_reported(lake: Lake) -> None:
    # The late row alone is below the limit of HAVING; with the earlier row of its day it is above.
    where = "e.ts >= $start AND e.ts < $end"
    sql = (
        f"SELECT CAST(e.ts AS DATE) AS ts, count(*) AS n FROM raw.events e WHERE {where} GROUP BY 1 HAVING count(*) > 1"
    )
    model = Model("marts.daily", Incremental("ts", start=date(2024, 1, 1)), Query(sql))
    only(run(Pipeline([model]), lake, until=UNTIL))
    add(lake, 2)
    (found,) = warnings(lake, Pipeline([model]))
    assert "--from 2024-01-02 --to 2024-01-03" in found


@pytest.mark.slow
@pytest.mark.parametrize("first", ["users", "events"])
def test_rows_that_both_inputs_of_a_join_lose_are_late(lake: Lake, first: str) -> None:
    """The changed rows of one input find no rows of the other any more."""
    sql = """SELECT CAST(e.ts AS DATE) AS day, u.country, count(*) AS n FROM raw.events AS e
        JOIN raw.users AS u ON u.id = e.n WHERE e.ts >= $start AND e.ts < $end GROUP BY ALL"""
    lake.table("raw.events").append(lake.sql("SELECT TIMESTAMP '2024-01-02 01:00:00' AS ts, 2 AS n"))
    users = lake.sql("SELECT * FROM (VALUES (1, 'DE'), (2, 'FR')) AS t(id, country)")
    lake.create_table("raw.users", users).append(users)
    only(run(daily(sql), lake, until=UNTIL))
    deletes = {
        "users": lambda: lake.table("raw.users").delete("id = 2"),
        "events": lambda: lake.table("raw.events").delete("n = 2"),
    }
    deletes[first]()
    add(lake, 3, n=2)
    deletes["events" if first == "users" else "users"]()
    assert "2024-01-02" in warnings(lake, daily(sql))[0]


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_a_rebuild_of_some_intervals_keeps_the_late_rows_of_others(lake: Lake, *, fails: bool) -> None:
    pipeline = daily(batch=1)
    only(run(pipeline, lake, until=UNTIL))
    add(lake, 2, n=100)
    add(lake, 4, n=100)
    if fails:
        audited = replace(pipeline.models[0], audits={"small": "SELECT * FROM marts.daily WHERE n > 100"})
        (result,) = run(Pipeline([audited]), lake, until=UNTIL, rebuild=True)
        assert result.status == "failed"
    else:
        only(run(pipeline, lake, until=date(2024, 1, 3), rebuild=True))
    assert "2024-01-04" in warnings(lake, pipeline)[0]
    only(run(pipeline, lake, since=date(2024, 1, 1), until=UNTIL))
    assert sums(lake) == [1, 101, 1, 101]
    assert warnings(lake, pipeline) == []


@pytest.mark.slow
def test_times_with_a_zone_are_assigned_to_hours_in_utc(lake: Lake) -> None:
    lake.create_table("raw.utc", {"ts": "TIMESTAMPTZ", "n": "INTEGER"})

    def late(hour: int) -> None:
        at = datetime(2024, 1, 1, hour, 45, tzinfo=UTC).isoformat()
        lake.table("raw.utc").append(lake.sql(f"SELECT CAST('{at}' AS TIMESTAMPTZ) AS ts, 1 AS n"))

    late(1)
    sql = Query("SELECT ts, n FROM raw.utc WHERE ts >= CAST($start AS TIMESTAMPTZ) AND ts < CAST($end AS TIMESTAMPTZ)")
    pipeline = Pipeline([Model("marts.hourly", Incremental("ts", "hour", start=datetime(2024, 1, 1)), sql)])
    only(run(pipeline, lake, until=datetime(2024, 1, 1, 4)))
    late(2)
    (step,) = plan(pipeline, lake, until=datetime(2024, 1, 1, 4))
    assert "--from 2024-01-01T02:00:00 --to 2024-01-01T03:00:00" in step.warnings[0]


def test_plan_lists_column_changes(lake: Lake) -> None:
    def model(query: str, **given: Any) -> Pipeline:
        return Pipeline([Model("marts.t", Full(), Query(query), **given)])

    only(run(model("SELECT 1 AS id, 2 AS n, 3 AS gone"), lake))
    changed = model("SELECT CAST(1 AS BIGINT) AS id, 2 AS number, 'x' AS note", renamed={"n": "number"})
    (step,) = plan(changed, lake)
    assert str(step.columns) == "adds note VARCHAR, renames n to number, changes id from INTEGER to BIGINT, drops gone"
    (step,) = plan(model("SELECT nothing FROM raw.events"), lake)
    assert "its column changes are unknown" in step.warnings[0]


@pytest.mark.slow
def test_late_rows_are_reported_in_the_days_that_another_definition_left(lake: Lake) -> None:
    other_sql = "SELECT CAST(ts AS DATE) AS day, 100 AS n FROM raw.events WHERE ts >= $start AND ts < $end GROUP BY ALL"
    first, other = daily(), daily(other_sql)
    only(run(first, lake, until=UNTIL))
    only(run(other, lake, until=date(2024, 1, 3)))
    assert sums(lake) == [100, 100, 1, 1]
    add(lake, 1, 10)
    add(lake, 4, 10)
    result = only(run(first, lake, until=UNTIL))
    assert result.reason == "its definition has changed: 2024-01-01 to 2024-01-03"
    warning = "raw.events changed in done intervals: run with --from 2024-01-04 --to 2024-01-05"
    assert (sums(lake), result.warnings, warnings(lake, first)) == ([11, 1, 1, 1], [warning], [warning])
    only(run(first, lake, since=date(2024, 1, 4), until=UNTIL))
    assert (sums(lake), warnings(lake, first)) == ([11, 1, 1, 11], [])
