"""Runs that do not count: their rows were restored away, or their table was dropped, renamed or created again."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from promotions import done, rows

from lakeconf.errors import PipelineError
from lakeconf.lake.run_journal import RESTORED, ModelRun
from lakeconf.pipelines import Append, Full, Incremental, Merge, Model, Pipeline, Query, View, plan, run
from lakeconf.pipelines.recorded_runs import history

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake
    from lakeconf.pipelines.models.kinds import Kind


FROM_A = "SELECT id FROM raw.a"


def warned(pipeline: Pipeline, lake: Lake) -> list[str]:
    (step,) = plan(pipeline, lake)
    return list(step.warnings)


def ids(lake: Lake, table: str = "raw.t") -> list[int]:
    return sorted(lake.table(table).to_arrow(["id"])["id"].to_pylist())


def added(lake: Lake, number: int) -> None:
    lake.table("raw.a").append(lake.sql(f"SELECT {number} AS id"))


@pytest.mark.slow
def test_files_that_a_restore_removed_are_named_until_all_are_loaded_again(lake: Lake, tmp_path: Path) -> None:
    pipeline = Pipeline([Model("raw.t", Append(files="*.csv"), folder=tmp_path)])
    versions = []
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text(f"id\n{number}\n")
        versions.append(run(pipeline, lake)[0].snapshot_id)
    assert warned(pipeline, lake) == []
    lake.restore("raw.t", version=versions[0])
    warning = (
        f"the table was restored to version {versions[0]}, without the rows of 1.csv, 2.csv: "
        "run with --rebuild to load all files of the pattern again"
    )
    assert warned(pipeline, lake) == [warning]
    (skipped,) = run(pipeline, lake)
    assert (skipped.status, skipped.warnings, ids(lake)) == ("skipped", [warning], [0])
    # A later load does not bring them back.
    (tmp_path / "3.csv").write_text("id\n3\n")
    (done,) = run(pipeline, lake)
    assert (done.reason, done.warnings, ids(lake)) == ("1 new file", [warning], [0, 3])
    assert warned(pipeline, lake) == [warning]
    # The restore recorded itself: its snapshot may expire.
    event, _ = lake.runs.committed("raw.t")[3:]
    assert (event.definition, event.restored) == (RESTORED, versions[0])
    (done,) = run(pipeline, lake, rebuild=True)
    assert (done.warnings, ids(lake)) == ([], [0, 1, 2, 3])
    assert warned(pipeline, lake) == []


@pytest.mark.slow
def test_restore_of_the_state_before_a_restore_brings_the_runs_back(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("raw.a", {"id": "BIGINT"})
    version = lake.snapshot_id
    added(lake, 1)
    pipeline = Pipeline([Model("raw.t", Append(files="*.csv"), folder=tmp_path)])
    (tmp_path / "0.csv").write_text("id\n0\n")
    first = run(pipeline, lake)[0].snapshot_id
    (tmp_path / "1.csv").write_text("id\n1\n")
    second = run(pipeline, lake)[0].snapshot_id
    lake.restore("raw.a", version=version)
    assert warned(pipeline, lake) == [], "the restore of another table is none of this one"
    lake.restore("raw.t", version=first)
    assert len(warned(pipeline, lake)) == 1
    lake.restore("raw.t", version=second)
    assert (warned(pipeline, lake), ids(lake)) == ([], [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Append(), Merge("id", changes_of="raw.a")])
def test_changes_that_a_restore_removed_need_a_rebuild(kind: Kind, lake: Lake) -> None:
    lake.create_table("raw.a", {"id": "BIGINT"})
    pipeline = Pipeline([Model("marts.t", kind, Query(FROM_A))])
    added(lake, 1)
    version = run(pipeline, lake)[0].snapshot_id
    added(lake, 2)
    run(pipeline, lake)
    lake.restore("marts.t", version=version)
    warning = (
        f"the table was restored to version {version}, before 1 run of the model: "
        "run with --rebuild to compute all rows again"
    )
    assert warned(pipeline, lake) == [warning]
    added(lake, 3)
    assert run(pipeline, lake)[0].warnings == [warning]
    assert (warned(pipeline, lake), ids(lake, "marts.t")) == ([warning], [1, 3])
    (done,) = run(pipeline, lake, rebuild=True)
    assert (done.status, warned(pipeline, lake), ids(lake, "marts.t")) == ("done", [], [1, 2, 3])
    assert run(pipeline, lake)[0].reason == "nothing has changed"
    added(lake, 4)
    assert run(pipeline, lake)[0].rows == 1


@pytest.mark.slow
def test_replaced_rows_need_no_rebuild_after_the_next_run(lake: Lake) -> None:
    lake.create_table("raw.a", {"id": "BIGINT"})
    pipeline = Pipeline([Model("marts.full", Full(), Query(FROM_A))])
    added(lake, 1)
    version = run(pipeline, lake)[0].snapshot_id
    added(lake, 2)
    run(pipeline, lake)
    lake.restore("marts.full", version=version)
    assert "before 1 run of the model: run with --rebuild" in warned(pipeline, lake)[0]
    added(lake, 3)
    run(pipeline, lake)
    assert (warned(pipeline, lake), ids(lake, "marts.full")) == ([], [1, 2, 3])


@pytest.mark.slow
def test_intervals_that_a_restore_removed_are_named_until_they_are_done_again(lake: Lake) -> None:
    days = "range(CAST($start AS TIMESTAMP), CAST($end AS TIMESTAMP), INTERVAL 1 DAY)"
    sql = f"SELECT CAST(range AS DATE) AS day FROM {days}"
    pipeline = Pipeline([Model("marts.t", Incremental("day", start=date(2024, 1, 1)), Query(sql))])
    version = run(pipeline, lake, until=date(2024, 1, 2))[0].snapshot_id
    run(pipeline, lake, until=date(2024, 1, 5))
    lake.restore("marts.t", version=version)
    (step,) = plan(pipeline, lake, until=date(2024, 1, 5))
    warning = f"the table was restored to version {version}, before these intervals were done: run with --from "
    assert (step.runs, step.warnings) == (False, [f"{warning}2024-01-02 --to 2024-01-05"])
    (done,) = run(pipeline, lake, since=date(2024, 1, 2), until=date(2024, 1, 3))
    assert done.warnings == [f"{warning}2024-01-03 --to 2024-01-05"]
    (done,) = run(pipeline, lake, since=date(2024, 1, 3), until=date(2024, 1, 5))
    assert (done.warnings, lake.table("marts.t").count()) == ([], 4)
    assert plan(pipeline, lake, until=date(2024, 1, 5))[0].warnings == []


def ran(snapshot_id: int, definition: str = "d", **given: Any) -> ModelRun:
    return ModelRun("marts.t", definition, f"run {snapshot_id}", snapshot_id=snapshot_id, **given)


def days(first: int, last: int) -> tuple[datetime, datetime]:
    return datetime(2024, 1, first), datetime(2024, 1, last)


def events(*given: ModelRun) -> list[ModelRun]:
    return [replace(one, earlier=number) for number, one in enumerate(given)]


def restore(snapshot_id: int, version: int) -> ModelRun:
    return ran(snapshot_id, RESTORED, restored=version)


def undone(*given: ModelRun) -> list[int | None]:
    return [run.snapshot_id for run in history(events(*given)).undone]


def test_run_is_undone_until_a_restore_brings_its_rows_back() -> None:
    one, two, three = ran(1), ran(3), ran(7)
    assert undone(one, two) == []
    assert undone(one, two, restore(5, 2)) == [3]
    assert undone(one, two, restore(5, 2), restore(6, 4)) == []
    assert undone(one, two, restore(5, 2), three) == [3]
    assert undone(one, two, restore(5, 2), three, restore(9, 4)) == [7]
    assert undone(one, two, restore(5, 2), three, restore(9, 8)) == [3]


def test_run_that_was_recorded_without_its_cut_is_read() -> None:
    event = ran(1, interval=days(1, 2)).event()
    more = json.loads(str(event.payload["inputs"]))
    del more["is_cut"]
    payload = {**event.payload, "inputs": json.dumps(more)}
    assert ModelRun.of(event._replace(payload=payload)) == ran(1, interval=days(1, 2))


DAYS = "range(CAST($start AS TIMESTAMP), CAST($end AS TIMESTAMP), INTERVAL 1 DAY)"
DAILY = Pipeline(
    [
        Model(
            "marts.t",
            Incremental("day", start=date(2024, 1, 1)),
            Query(f"SELECT CAST(range AS DATE) AS day FROM {DAYS}"),
        )
    ]
)
EARLY, UNTIL = date(2024, 1, 3), date(2024, 1, 6)


def renamed(lake: Lake, table: str = "marts.t") -> None:
    lake.rename_table(table, f"{table}_old")


def dropped(lake: Lake, table: str = "marts.t") -> None:
    lake.drop_table(table)


def created_again(lake: Lake, table: str = "marts.t") -> None:
    schema = lake.table(table).schema
    with lake.transaction() as transaction:
        transaction.drop_table(table)
        transaction.create_table(table, schema)
    lake.refresh()


@pytest.mark.slow
@pytest.mark.parametrize("gone", [renamed, dropped, created_again])
def test_intervals_and_files_of_a_former_table_count_no_longer(gone: Any, lake: Lake, tmp_path: Path) -> None:
    files = Pipeline([Model("marts.f", Append(files="*.csv"), folder=tmp_path)])
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text(f"id\n{number}\n")
    done(files, lake)
    done(DAILY, lake, until=UNTIL)
    for table in ("marts.f", "marts.t"):
        gone(lake, table)
    done(DAILY, lake, until=EARLY)
    assert len(rows(lake)) == 2
    (step,) = plan(DAILY, lake, until=UNTIL)
    assert (step.reason, step.warnings) == ("missing: 2024-01-03 to 2024-01-06", [])
    done(DAILY, lake, until=UNTIL)
    assert len(rows(lake)) == 5
    (tmp_path / "1.csv").rename(tmp_path / "away")
    done(files, lake)
    (tmp_path / "away").rename(tmp_path / "1.csv")
    done(files, lake)
    assert rows(lake, "marts.f") == [(0,), (1,)]
    lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
    assert plan(DAILY, lake, until=UNTIL)[0].reason == "all intervals are done"
    assert plan(files, lake)[0].runs is False


@pytest.mark.slow
def test_table_that_was_created_again_without_rows_is_computed_again(lake: Lake) -> None:
    lake.create_table("raw.a", {"id": "BIGINT"}).append(lake.sql("SELECT 1 AS id"))
    kinds: tuple[Kind, ...] = (Full(), Append(), Merge("id"), Merge("id", changes_of="raw.a"))
    tables = [f"marts.t{number}" for number in range(len(kinds))]
    models = [Model(table, kind, Query("SELECT id FROM raw.a")) for table, kind in zip(tables, kinds, strict=True)]
    pipeline = Pipeline(models)
    done(pipeline, lake)
    for table in tables:
        created_again(lake, table)
    assert [step.reason for step in plan(pipeline, lake)] == ["first run"] * 4
    done(pipeline, lake)
    assert [rows(lake, table) for table in tables] == [[(1,)]] * 4
    assert [step.reason for step in plan(pipeline, lake)] == ["nothing has changed"] * 4


def filled_again(lake: Lake) -> None:
    created_again(lake)
    lake.table("marts.t").append(lake.at(version=1).table("marts.t").scan())


@pytest.mark.slow
def test_intervals_of_a_table_that_was_filled_by_hand_are_computed_again(lake: Lake) -> None:
    done(DAILY, lake, until=EARLY)
    filled_again(lake)
    done(DAILY, lake, until=UNTIL)
    assert (plan(DAILY, lake, until=UNTIL)[0].reason, len(rows(lake))) == ("all intervals are done", 5)


@pytest.mark.slow
def test_run_does_not_guess_which_files_a_table_has(lake: Lake, tmp_path: Path) -> None:
    pipeline = Pipeline([Model("marts.t", Append(files="*.csv"), folder=tmp_path)])
    (tmp_path / "0.csv").write_text("id\n0\n")
    done(pipeline, lake)
    filled_again(lake)
    with pytest.raises(PipelineError, match="lakeconf cannot tell"):
        plan(pipeline, lake)
    done(pipeline, lake, rebuild=True)
    assert (rows(lake), plan(pipeline, lake)[0].runs) == ([(0,)], False)


@pytest.mark.slow
def test_run_does_not_replace_rows_that_only_changes_would_add(lake: Lake) -> None:
    lake.create_table("raw.a", {"id": "BIGINT"}).append(lake.sql("SELECT 1 AS id"))
    for table, kind in (("marts.t", Append()), ("marts.u", Merge("id", changes_of="raw.a"))):
        pipeline = Pipeline([Model(table, kind, Query("SELECT id FROM raw.a"))])
        done(pipeline, lake)
        schema = lake.table(table).schema
        dropped(lake, table)
        lake.create_table(table, schema).append(lake.sql("SELECT 7 AS id"))
        with pytest.raises(PipelineError, match="lakeconf cannot tell"):
            plan(pipeline, lake)
        done(pipeline, lake, rebuild=True)
        assert (rows(lake, table), plan(pipeline, lake)[0].reason) == ([(1,)], "nothing has changed")


@pytest.mark.slow
def test_runs_of_a_restored_table_count_again(lake: Lake) -> None:
    done(DAILY, lake, until=UNTIL)
    first = lake.refresh()
    dropped(lake)
    done(DAILY, lake, until=EARLY)
    second = lake.refresh()
    dropped(lake)
    lake.restore("marts.t", version=first)
    (step,) = plan(DAILY, lake, until=UNTIL)
    assert (step.reason, len(rows(lake))) == ("all intervals are done", 5)
    assert (
        "restored to version 1, before these intervals were done: run with --from 2024-01-01 --to 2024-01-03"
        in (step.warnings[0])
    )
    created_again(lake)
    lake.restore("marts.t", version=second)
    assert plan(DAILY, lake, until=UNTIL)[0].reason == "missing: 2024-01-03 to 2024-01-06"
    done(DAILY, lake, until=UNTIL)
    lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
    (step,) = plan(DAILY, lake, until=UNTIL)
    assert (step.reason, step.warnings, len(rows(lake))) == ("all intervals are done", [], 5)


@pytest.mark.slow
def test_table_that_comes_back_has_its_runs(lake: Lake) -> None:
    done(DAILY, lake, until=UNTIL)
    renamed(lake)
    lake.rename_table("marts.t_old", "marts.t")
    assert plan(DAILY, lake, until=UNTIL)[0].reason == "all intervals are done"
    version = lake.refresh()
    lake.table("marts.t").evolve(add={"n": "BIGINT"})
    lake.restore("marts.t", version=version)
    assert plan(DAILY, lake, until=UNTIL)[0].reason == "all intervals are done"


def test_dropped_view_is_created_again(lake: Lake) -> None:
    pipeline = Pipeline([Model("marts.v", View(), Query("SELECT 1 AS id"))])
    done(pipeline, lake)
    assert plan(pipeline, lake)[0].runs is False
    lake.drop_view("marts.v")
    assert plan(pipeline, lake)[0].runs is True
    done(pipeline, lake)
    assert rows(lake, "marts.v") == [(1,)]
