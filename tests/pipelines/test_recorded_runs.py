"""Recorded runs that count in a version of a table, and what a promotion of a restored table records."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from promotions import done, rows

from lakeconf.commit.journal import ModelRun
from lakeconf.pipelines import Append, Full, Incremental, Merge, Model, Pipeline, Query, plan, plan_promotion, promote
from lakeconf.pipelines.recorded_runs import PROMOTED, current_runs, runs_in, undone_intervals, undone_runs

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake
    from lakeconf.pipelines.kinds import Kind

NOTE = "; without the runs that `restore` undid: the target computes them"
DAYS = "range(CAST($start AS TIMESTAMP), CAST($end AS TIMESTAMP), INTERVAL 1 DAY)"
DAILY = Model("marts.t", Incremental("day", start=date(2024, 1, 1)), Query(f"SELECT range AS day FROM {DAYS}"))


def ran(snapshot_id: int, definition: str = "d", **given: Any) -> ModelRun:
    return ModelRun("marts.t", definition, f"run {snapshot_id}", snapshot_id=snapshot_id, **given)


def days(first: int, last: int) -> tuple[datetime, datetime]:
    return datetime(2024, 1, first), datetime(2024, 1, last)


def test_mark_of_a_promotion_is_the_same_in_every_version() -> None:
    assert PROMOTED == "promoted"


def test_runs_since_the_last_promotion_are_current() -> None:
    first, mark, second = (ModelRun("a.t", definition, "r") for definition in ("x", PROMOTED, "y"))
    assert current_runs([first]) == [first]
    assert current_runs([]) == []
    assert current_runs([first, mark]) == []
    assert current_runs([first, mark, first, mark, second]) == [second]


def test_run_is_undone_until_a_later_run_or_restore_brings_its_rows_back() -> None:
    one, two, three = ran(1), ran(3), ran(7)
    assert undone_runs([one, two], None, {}) == []
    assert undone_runs([one, two], 2, {}) == [(two, [])]
    assert undone_runs([one, two], None, {5: 2}) == [(two, [])]
    assert undone_runs([one, two], 4, {5: 2}) == []
    assert undone_runs([one, two, three], None, {5: 2}) == [(two, [three])]
    assert undone_runs([one, two, three], None, {5: 2, 9: 4}) == [(three, [])]
    assert undone_runs([one, two, three], None, {5: 2, 9: 8}) == [(two, [three])]


def test_intervals_that_no_later_run_repeated_are_undone() -> None:
    undone, later = ran(3, interval=days(1, 9)), [ran(7, interval=days(2, 4)), ran(8)]
    assert undone_intervals([(undone, later), (ran(4), [])]) == [days(1, 2), days(4, 9)]


def test_interval_with_the_rows_of_an_older_run_is_not_done() -> None:
    older, newer = ran(1, interval=days(1, 9)), ran(3, interval=days(2, 4))
    found = runs_in(DAILY, [older, newer], 5, {5: 2})
    assert [run.interval for run in found] == [days(1, 2), days(4, 9)]
    assert runs_in(DAILY, [newer, older], 5, {5: 2}) == [older]


@pytest.mark.parametrize(
    ("kind", "repeated"),
    [(Full(), True), (Merge("id"), True), (Append(), False), (Merge("id", changes_of="raw.a"), False)],
)
def test_later_run_repeats_an_undone_one_only_if_it_reads_all_rows(kind: Kind, repeated: bool) -> None:
    model = Model("marts.t", kind, Query("SELECT id FROM raw.a"))
    runs = [ran(1), ran(3), ran(7)]
    assert runs_in(model, runs[:2], 5, {5: 2}) == []
    assert runs_in(model, runs, 8, {5: 2}) == ([runs[0], runs[2]] if repeated else [])


def test_runs_before_a_replacement_count_again_after_a_restore(tmp_path: Path) -> None:
    model = Model("marts.t", Append(files="*.csv"), folder=tmp_path)
    first, mark, rebuilt = ran(1, files=["a"]), ran(4, PROMOTED), ran(4, files=["a", "b"])
    assert runs_in(model, [first, mark, rebuilt], 4, {}) == [rebuilt]
    assert runs_in(model, [first, mark, rebuilt], 6, {6: 2}) == [first]
    assert runs_in(model, [mark, rebuilt], 6, {6: 2}) == []
    assert runs_in(model, [first, mark, rebuilt], 3, {}) == [first]  # a later commit of another writer


def test_promotion_of_a_restored_table_leaves_the_undone_intervals_to_the_target(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = Pipeline([DAILY])
    done(pipeline, dev, until=date(2024, 1, 3))
    version = dev.refresh()
    done(pipeline, dev, until=date(2024, 1, 6))
    dev.restore("marts.t", version=version)
    (step,) = plan_promotion(pipeline, dev, prod).steps
    assert (step.reason, len(step.runs)) == (f"new table, 2 rows{NOTE}", 1)
    promote(pipeline, dev, prod)
    (planned,) = plan(pipeline, prod, until=date(2024, 1, 6))
    assert planned.reason == "missing: 2024-01-03 to 2024-01-06"
    done(pipeline, prod, until=date(2024, 1, 6))
    assert len(rows(prod)) == 5


def test_promotion_of_a_restored_table_leaves_the_undone_files_to_the_target(
    lakes: tuple[Lake, Lake], tmp_path: Path
) -> None:
    dev, prod = lakes
    pipeline = Pipeline([Model("raw.t", Append(files="*.csv"), folder=tmp_path)])
    versions = []
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text(f"id\n{number}\n")
        done(pipeline, dev)
        versions.append(dev.refresh())
    # The restored version is older than a load of all files, whose record no longer counts.
    done(pipeline, dev, rebuild=True)
    dev.restore("raw.t", version=versions[0])
    promote(pipeline, dev, prod)
    assert rows(prod, "raw.t") == [(0,)]
    done(pipeline, prod)
    assert rows(prod, "raw.t") == [(0,), (1,)]


@pytest.mark.parametrize("kind", [Full(), Append(), Merge("id", changes_of="raw.a")])
def test_target_computes_a_restored_table_again(kind: Kind, lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = Pipeline([Model("marts.t", kind, Query("SELECT id FROM raw.a"))])
    for lake in lakes:
        lake.create_table("raw.a", {"id": "BIGINT"}).append(lake.sql("SELECT 1 AS id"))
    done(pipeline, dev)
    version = dev.refresh()
    for lake in lakes:
        lake.table("raw.a").append(lake.sql("SELECT 2 AS id"))
    done(pipeline, dev)
    dev.restore("marts.t", version=version)
    promote(pipeline, dev, prod)
    assert rows(prod) == [(1,)]
    (planned,) = plan(pipeline, prod)
    assert planned.reason == "first run"
    done(pipeline, prod)
    assert rows(prod) == [(1,), (2,)]
    # The source still has the restored rows: nothing in it tells the target to drop its own.
    assert plan_promotion(pipeline, dev, prod).steps[0].rows.removed == 1


def test_target_that_was_restored_learns_what_the_source_has_done(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    dev, prod = lakes
    pipeline = Pipeline([Model("raw.t", Append(files="*.csv"), folder=tmp_path)])
    (tmp_path / "0.csv").write_text("id\n0\n")
    for lake in lakes:
        done(pipeline, lake)
    version = prod.refresh()
    (tmp_path / "1.csv").write_text("id\n1\n")
    for lake in lakes:
        done(pipeline, lake)
    prod.restore("raw.t", version=version)
    (step,) = plan_promotion(pipeline, dev, prod).steps
    assert (step.action, step.reason) == ("replace", "1 row added")
    promote(pipeline, dev, prod)
    assert [step.warnings for step in plan(pipeline, prod)] == [[]]
    dev.table("raw.t").delete("id = 1")
    prod.table("raw.t").delete("id = 1")
    assert plan_promotion(pipeline, dev, prod).steps[0].action == "skip"
