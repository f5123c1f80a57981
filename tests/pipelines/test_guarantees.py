"""Guarantees of a run: audits, column changes, concurrent runs, and invalid models."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest

from lakeconf.errors import AuditError, CommitConflictError, DataLossError, LakeconfError, PipelineError, SchemaError
from lakeconf.pipelines import Full, Incremental, Merge, Model, Pipeline, Query, model, plan, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake, Store


EVENTS = pa.table(
    {"id": [1, 2, 3], "day": [date(2024, 1, day) for day in (1, 2, 3)], "n": pa.array([1, 2, 3], pa.int32())}
)


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as lake:
        lake.create_table("raw.events", EVENTS).append(EVENTS)
        yield lake


def totals(query: str, **given: Any) -> Model:
    return Model("marts.t", Full(), Query(query), **given)


def state(lake: Lake) -> tuple[Any, ...]:
    lake.refresh()
    native: Any = lake.sql("FROM marts.t ORDER BY ALL").to_native()
    return lake.snapshot_id, lake.table("marts.t").schema, native.fetchall(), lake.runs.committed("marts.t")


def test_failed_audit_leaves_table_columns_and_history_unchanged(lake: Lake) -> None:
    run(Pipeline([totals("SELECT id, n FROM raw.events")]), lake)
    before = state(lake)
    changed = totals("SELECT id, n, n > 2 AS large FROM raw.events", audits={"few": "FROM marts.t WHERE n > 2"})
    (result,) = run(Pipeline([changed]), lake)
    assert result.status == "failed"
    assert isinstance(result.error, AuditError)
    assert "the audit 'few' found 1 row" in str(result.error)
    assert state(lake) == before


def test_audit_that_raises_an_error_writes_nothing(lake: Lake) -> None:
    with pytest.raises(PipelineError, match="no such column"):
        Pipeline([totals("SELECT 1 AS id", audits={"no such column": "SELEC"})])
    for audit in ("SELECT none FROM marts.t", "FROM marts.none"):
        (result,) = run(Pipeline([totals("SELECT 1 AS id", audits={"no such column": audit})]), lake)
        assert result.status == "failed"
        assert isinstance(result.error, LakeconfError)
        assert "no such column" in str(result.error)
    assert lake.tables() == ["raw.events"]


@pytest.mark.slow
def test_columns_and_rows_change_in_one_commit(lake: Lake) -> None:
    run(Pipeline([totals("SELECT id, n, day FROM raw.events")]), lake)
    version = lake.snapshot_id
    query = "SELECT id, CAST(n AS BIGINT) AS number, 'x' AS note FROM raw.events"
    changed = totals(query, renamed={"n": "number"}, dropped=["day"])
    (result,) = run(Pipeline([changed]), lake)
    assert (result.status, result.reason) == ("done", "its definition has changed")
    assert lake.snapshot_id == version + 1
    assert lake.table("marts.t").schema == {"id": "BIGINT", "number": "BIGINT", "note": "VARCHAR"}
    assert lake.at(version=version).table("marts.t").schema == {"id": "BIGINT", "n": "INTEGER", "day": "DATE"}


def days(frame: nw.LazyFrame[Any], start: date, end: date) -> nw.LazyFrame[Any]:
    return frame.filter(nw.col("day") >= start, nw.col("day") < end).select("day", "n")


@pytest.mark.slow
def test_failed_interval_is_retried_in_the_next_run(lake: Lake) -> None:
    fails = True

    @model("marts.t", Incremental("day", start=date(2024, 1, 1), batch=1), inputs={"events": "raw.events"})
    def by_day(events: nw.LazyFrame[Any], start: date, end: date) -> nw.LazyFrame[Any]:
        if fails and start == date(2024, 1, 2):
            raise ValueError("not today")
        return days(events, start, end)

    pipeline = Pipeline([by_day])
    (result,) = run(pipeline, lake, until=date(2024, 1, 4))
    assert result.status == "failed"
    assert "the model marts.t failed: ValueError: not today" in str(result.error)
    assert [row[0] for row in state(lake)[2]] == [date(2024, 1, 1)]
    fails = False
    (result,) = run(pipeline, lake, until=date(2024, 1, 4))
    assert result.reason == "missing: 2024-01-02 to 2024-01-03, 2024-01-03 to 2024-01-04"
    assert [row[0] for row in state(lake)[2]] == [date(2024, 1, day) for day in (1, 2, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("day", [3, 9], ids=["a day with rows", "an empty day"])
def test_one_of_two_concurrent_runs_of_a_day_is_refused(day: int, lake: Lake, store: Store) -> None:
    inner: list[Any] = []

    @model("marts.t", Incremental("day", start=date(2024, 1, day)), inputs={"events": "raw.events"})
    def by_day(events: nw.LazyFrame[Any], start: date, end: date) -> nw.LazyFrame[Any]:
        if not inner:
            inner.append(None)
            with store.open() as other:
                inner.extend(run(pipeline, other, until=date(2024, 1, day + 1)))
        return days(events, start, end)

    pipeline = Pipeline([by_day])
    # The table exists, so neither of the two runs creates it.
    lake.create_table("marts.t", {"day": "DATE", "n": "INTEGER"})
    (outer,) = run(pipeline, lake, until=date(2024, 1, day + 1))
    assert inner[1].status == "done"
    assert isinstance(outer.error, CommitConflictError)
    assert len(lake.runs.committed("marts.t")) == 1
    assert len(state(lake)[2]) == (1 if day == 3 else 0)


def test_run_is_recorded_as_that_of_the_loaded_code(lake: Lake, tmp_path: Path) -> None:
    """Otherwise the rows of the old code would be recorded as those of the new code, and never be replaced."""
    path = tmp_path / "models.py"
    path.write_text("def head(events):\n    return events.head(1)\n")

    def loaded() -> Model:
        names: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), names)  # noqa: S102 - a model in a file that changes
        return model("marts.t", Full(), inputs={"events": "raw.events"})(names["head"])

    before = loaded()
    path.write_text("def head(events):\n    return events.head(2)\n")
    assert [result.status for result in run(Pipeline([before]), lake)] == ["done"]
    (result,) = run(Pipeline([loaded()]), lake)
    assert (result.status, result.reason) == ("done", "its definition has changed")


def test_missing_or_mistyped_time_column(lake: Lake) -> None:
    for query, message in (
        ("SELECT n FROM raw.events", "the time column 'day' of the model marts.t is not in the table"),
        (
            "SELECT CAST(day AS VARCHAR) AS day FROM raw.events",
            "the time column 'day' of the model marts.t has type VARCHAR",
        ),
    ):
        (result,) = run(
            Pipeline([Model("marts.t", Incremental("day", start=date(2024, 1, 1)), Query(query))]), lake, rebuild=True
        )
        assert isinstance(result.error, SchemaError)
        assert message in str(result.error)
    assert lake.tables() == ["raw.events"]


@pytest.fixture
def marts(lake: Lake) -> Lake:
    """A lake with the table `marts.t`, which a model created with the columns id, n and day."""
    assert error(lake, "SELECT 1 AS id, 2 AS n, DATE '2024-01-01' AS day") is None
    return lake


def error(marts: Lake, query: str, *, allow_drop_columns: bool = False, **given: Any) -> LakeconfError | None:
    pipeline = Pipeline([Model("marts.t", Full(), Query(query), **given)])
    (result,) = run(pipeline, marts, allow_drop_columns=allow_drop_columns)
    return result.error


def columns(marts: Lake) -> list[str]:
    marts.refresh()
    return list(marts.table("marts.t").schema)


@pytest.mark.slow
def test_dropping_a_column_needs_consent(marts: Lake) -> None:
    before = marts.refresh()
    found = error(marts, "SELECT 1 AS id")
    assert isinstance(found, DataLossError)
    assert found.message == "this would drop the columns n, day of marts.t"
    assert 'dropped = ["n", "day"]' in str(found.hint)
    assert isinstance(error(marts, "SELECT 1 AS id", dropped=["n"]), DataLossError)
    assert (marts.refresh(), columns(marts)) == (before, ["id", "n", "day"])
    assert error(marts, "SELECT 1 AS id, 2 AS n", dropped=["DAY"]) is None
    assert columns(marts) == ["id", "n"]
    assert error(marts, "SELECT 1 AS id", allow_drop_columns=True) is None
    assert columns(marts) == ["id"]


@pytest.mark.slow
def test_renamed_maps_old_names_to_new_ones(marts: Lake) -> None:
    before = marts.refresh()
    for columns_, renamed, message in (
        ("1 AS id, 2 AS number, 3 AS day", {"number": "n"}, "the model has no column 'n'"),
        ("1 AS id, 2 AS number, 3 AS day", {"n": "numbr"}, "the model has no column 'numbr'"),
        ("1 AS id, 2 AS n, 3 AS number, 4 AS day", {"n": "number"}, "the model still has 'n'"),
    ):
        found = error(marts, f"SELECT {columns_}", renamed=renamed, allow_drop_columns=True)
        assert isinstance(found, PipelineError)
        assert message in found.message
    assert marts.refresh() == before
    assert error(marts, "SELECT 1 AS id, 2 AS number, DATE '2024-01-01' AS day", renamed={"n": "number"}) is None
    assert columns(marts) == ["id", "number", "day"]
    # In later runs of the same model `renamed` has no effect.
    assert error(marts, "SELECT 2 AS id, 2 AS number, DATE '2024-01-01' AS day", renamed={"n": "number"}) is None


@pytest.mark.slow
def test_all_columns_of_a_table_are_replaced(marts: Lake) -> None:
    assert error(marts, 'SELECT 1 AS a, 2 AS "b.c"', dropped=["id", "n", "day"]) is None
    assert columns(marts) == ["a", "b.c"]
    assert error(marts, 'SELECT 1 AS "d.e"', dropped=["a"], renamed={"b.c": "d.e"}) is None
    assert columns(marts) == ["d.e"]


def test_column_whose_type_cannot_hold_the_rows_is_created_again(marts: Lake) -> None:
    pipeline = Pipeline([Model("marts.t", Full(), Query("SELECT 'x' AS id, 2 AS n, [1] AS day"))])
    (step,) = plan(pipeline, marts)
    assert str(step.columns) == "changes id from INTEGER to VARCHAR, changes day from DATE to INTEGER[]"
    before = marts.snapshot_id
    (result,) = run(pipeline, marts)
    assert result.error is None
    assert (marts.table("marts.t").schema, marts.snapshot_id) == (
        {"n": "INTEGER", "id": "VARCHAR", "day": "INTEGER[]"},
        before + 1,
    )
    assert marts.table("marts.t").head() == [{"n": 2, "id": "x", "day": [1]}]
    assert marts.at(version=before).table("marts.t").schema["day"] == "DATE"


def test_only_a_rebuild_of_a_merge_creates_a_column_again(marts: Lake) -> None:
    pipeline = Pipeline([Model("marts.t", Merge("id"), Query("SELECT 'x' AS id, 2 AS n, DATE '2024-01-01' AS day"))])
    (result,) = run(pipeline, marts)
    assert result.error is not None
    assert (marts.refresh(), columns(marts)) == (marts.snapshot_id, ["id", "n", "day"])
    (result,) = run(pipeline, marts, rebuild=True)
    assert result.error is None
    assert marts.table("marts.t").schema["id"] == "VARCHAR"
