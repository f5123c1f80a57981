"""Models that run at the same time: their order, failures, snapshots and records."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from local_stores import on_postgres, store_of

from lakeconf.errors import LakeconfError, PipelineError
from lakeconf.pipelines import Full, Model, ModelResult, Pipeline, Query, Seed, View, plan, relationships, run
from lakeconf.pipelines.models.body import Function
from lakeconf.pipelines.run import forked, in_parallel, needed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

SECONDS = 60


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    catalog = (
        on_postgres(request.getfixturevalue("postgres_server"))
        if request.param == "postgres"
        else {"type": request.param, "uri": str(tmp_path / "catalog")}
    )
    with store_of(tmp_path, catalog).open() as lake:
        lake.create_table("raw.events", {"id": "BIGINT"}).append(pa.table({"id": [1, 2, 3]}))
        yield lake


def full(table: str, body: Callable[..., Any], **inputs: str) -> Model:
    return Model(table, Full(), Function(body), inputs or {"events": "raw.events"})


def rows(lake: Lake, table: str) -> list[Any]:
    lake.refresh()
    native: Any = lake.sql(f"FROM {table} ORDER BY ALL").to_native()
    return [value for (value,) in native.fetchall()]


def test_items_run_at_the_same_time_and_after_those_that_they_need() -> None:
    meeting = threading.Barrier(2, timeout=SECONDS)
    began: list[str] = []
    results: dict[str, str] = {}

    def work(name: str) -> str:
        began.append(name)
        if name in ("a", "b"):
            meeting.wait()
        return name.upper()

    needs = {"a": frozenset[str](), "b": frozenset[str](), "c": frozenset({"a", "b"}), "d": frozenset({"c"})}
    in_parallel(["d", "c", "b", "a"], needs, 2, work, results.__setitem__, lambda: None)
    assert began[2:] == ["c", "d"]
    assert results == {"a": "A", "b": "B", "c": "C", "d": "D"}


def test_no_more_items_run_at_the_same_time_than_jobs() -> None:
    running, most, lock = set[int](), list[int](), threading.Lock()

    def work(name: str) -> None:
        with lock:
            running.add(threading.get_ident())
            most.append(len(running))
        with lock:
            running.discard(threading.get_ident())

    names = [str(number) for number in range(20)]
    in_parallel(names, dict.fromkeys(names, frozenset()), 1, work, lambda *_: None, lambda: None)
    assert most == [1] * 20


def test_exception_interrupts_the_other_items_and_starts_no_more() -> None:
    stopped, began = threading.Event(), list[str]()
    both = threading.Barrier(2, timeout=SECONDS)

    def work(name: str) -> None:
        began.append(name)
        both.wait()
        if name == "a":
            raise KeyboardInterrupt
        assert stopped.wait(SECONDS)

    with pytest.raises(KeyboardInterrupt):
        in_parallel(["a", "b", "c"], dict.fromkeys("abc", frozenset()), 2, work, lambda *_: None, stopped.set)
    assert sorted(began) == ["a", "b"]
    assert stopped.is_set()


def test_models_need_what_they_read_directly_or_through_views() -> None:
    models = [
        Model("m.a", Full(), Query("FROM raw.events")),
        Model("m.view", View(), Query("FROM m.a")),
        Model("m.over", View(), Query("FROM m.view")),
        Model("m.b", Full(), Query("FROM m.over")),
        Model("m.c", Full(), Query("FROM m.b")),
    ]
    pipeline = Pipeline(models)
    assert needed(pipeline, models)["m.c"] == {"m.a", "m.view", "m.over", "m.b"}
    assert needed(pipeline, pipeline.chosen(["m.a", "m.b"])) == {"m.a": frozenset(), "m.b": {"m.a"}}
    # A table that does not run again is not changed by what it reads.
    assert needed(pipeline, pipeline.chosen(["m.a", "m.c"])) == {"m.a": frozenset(), "m.c": frozenset()}


def test_models_need_the_tables_of_their_relationships() -> None:
    shops = Model("m.shops", Full(), Query("FROM raw.events"))
    known = Model("m.known", View(), Query("FROM m.shops"))
    sales = Model("m.a_sales", Full(), Query("FROM raw.events"), tests=[relationships("id", "M.Known", "id")])
    pipeline = Pipeline([sales, shops, known])
    assert [model.table for model in pipeline.ordered] == ["m.shops", "m.known", "m.a_sales"]
    assert needed(pipeline, pipeline.models)["m.a_sales"] == {"m.shops", "m.known"}
    assert [model.table for model in pipeline.chosen(["+m.a_sales"])] == ["m.a_sales"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_relationship_is_tested_with_the_rows_of_the_same_run(lake: Lake, jobs: int) -> None:
    lake.create_table("raw.more", {"id": "BIGINT"}).append([{"id": 1}])
    sales = Model("m.a_sales", Full(), Query("FROM raw.more"), tests=[relationships("id", "m.shops", "id")])
    pipeline = Pipeline([sales, Model("m.shops", Full(), Query("FROM raw.more"))])
    for number in (7, 8):
        lake.table("raw.more").append([{"id": number}])
        results = run(pipeline, lake, jobs=jobs)
        assert [(one.model, one.status) for one in results] == [("m.shops", "done"), ("m.a_sales", "done")]
    broken = Pipeline([sales, Model("m.shops", Full(), Query("SELECT none FROM raw.more"))])
    lake.table("raw.more").append([{"id": 9}])
    results = run(broken, lake, jobs=jobs)
    assert [(one.status, one.reason) for one in results][1] == ("not run", "m.shops failed")


def test_no_model_runs_at_a_time_is_refused(lake: Lake) -> None:
    with pytest.raises(PipelineError, match="jobs is 0") as caught:
        run(Pipeline([full("m.a", lambda events: events)]), lake, jobs=0)
    assert caught.value.hint == "set jobs to 1 or more"


def test_independent_models_run_at_the_same_time_and_are_recorded_once(lake: Lake, tmp_path: Path) -> None:
    meeting = threading.Barrier(3, timeout=SECONDS)

    def met(events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        meeting.wait()
        return events

    (tmp_path / "seed.csv").write_text("id\n7\n")
    models = [full(f"marts.{name}", met) for name in "abc"]
    models += [Model("raw.seed", Seed("seed.csv"), folder=tmp_path)]
    models += [Model(f"marts.d{n}", Full(), Query(f"SELECT id + {n} AS id FROM raw.seed")) for n in range(4)]
    models += [Model("marts.all", Full(), Query("SELECT id FROM marts.a UNION ALL SELECT id FROM marts.d3"))]
    pipeline = Pipeline(models)
    seen: list[ModelResult] = []
    results = run(pipeline, lake, jobs=4, progress=seen.append)
    assert [result.model for result in results] == [model.table for model in pipeline.ordered]
    assert [result.error for result in results] == [None] * len(models)
    assert sorted(map(repr, seen)) == sorted(map(repr, results))
    assert rows(lake, "marts.all") == [1, 2, 3, 10]
    for result in results:
        (recorded,) = lake.runs.committed(result.model)
        assert result.snapshot_id is not None
        assert lake.runs.commit_info(result.snapshot_id)["extra"]["model"] == result.model
        assert lake.runs.commit_info(result.snapshot_id)["rows"] == result.rows
        assert all(snapshot < result.snapshot_id for snapshot in recorded.inputs.values())
    assert len({result.snapshot_id for result in results}) == len(models)
    assert not any(step.runs for step in plan(pipeline, lake))
    meeting.reset()
    assert {result.status for result in run(pipeline, lake, jobs=4)} == {"skipped"}


def test_failed_model_skips_what_reads_it_and_nothing_else(lake: Lake) -> None:
    both = threading.Barrier(2, timeout=SECONDS)

    def failing(events: Any) -> Any:
        both.wait()
        raise ValueError("planted")

    def slow(events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        both.wait()
        return events

    models = [
        full("m.failing", failing),
        full("m.slow", slow),
        Model("m.view", View(), Query("FROM m.failing")),
        Model("m.below", Full(), Query("FROM m.view")),
        Model("m.beside", Full(), Query("FROM m.slow")),
    ]
    found = {one.model: (one.status, one.reason) for one in run(Pipeline(models), lake, jobs=3)}
    assert found["m.failing"] == ("failed", "first run")
    assert found["m.below"] == found["m.view"] == ("not run", "m.failing failed")
    assert found["m.beside"][0] == found["m.slow"][0] == "done"
    assert lake.runs.committed("m.failing") == lake.runs.committed("m.below") == []


def test_record_names_the_snapshot_that_was_read_and_not_that_of_another_model(lake: Lake) -> None:
    """A commit of another model must not move the snapshot of a model that is being computed."""
    planned, written = threading.Event(), threading.Event()

    def began(model: Model) -> None:
        if model.table == "m.waiting":
            planned.set()
            assert written.wait(SECONDS)

    def waiting(events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return events

    def quick(events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        # Another writer changes the input after the run of the model `m.waiting` has been planned.
        assert planned.wait(SECONDS)
        lake.table("raw.events").append(pa.table({"id": [4]}))
        return events

    before = lake.snapshot_id
    pipeline = Pipeline([full("m.quick", quick), full("m.waiting", waiting)])

    def ended(result: ModelResult) -> None:
        if result.model == "m.quick":
            written.set()

    results = {result.model: result for result in run(pipeline, lake, jobs=2, began=began, progress=ended)}
    assert {result.error for result in results.values()} == {None}
    (recorded,) = lake.runs.committed("m.waiting")
    assert recorded.inputs == {"raw.events": before}
    assert rows(lake, "m.waiting") == [1, 2, 3]
    found = {step.model.table: step.reason for step in plan(pipeline, lake)}
    assert found["m.waiting"] == "raw.events changed"


def test_fork_sees_its_own_snapshot(lake: Lake) -> None:
    other = forked(lake)
    before = other.snapshot_id
    lake.table("raw.events").append(pa.table({"id": [4]}))
    assert (other.snapshot_id, lake.snapshot_id) == (before, before + 1)
    other.table("raw.events").delete("id = 1")
    assert lake.snapshot_id == before + 1
    assert rows(lake, "raw.events") == [2, 3, 4]


def test_jobs_of_spark_are_refused(store: Store, spark: SparkSession) -> None:
    with store.open(spark) as lake, pytest.raises(LakeconfError, match="on DuckDB only"):
        run(Pipeline([Model("m.a", Full(), Query("FROM raw.events"))]), lake, jobs=2)
