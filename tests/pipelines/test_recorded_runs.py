"""Recorded runs that count in a version of a table."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from lakeconf.lake.run_journal import RESET, RESTORED, ModelRun
from lakeconf.pipelines.recorded_runs import history, undone_intervals, undone_runs


def ran(snapshot_id: int, definition: str = "d", **given: Any) -> ModelRun:
    return ModelRun("marts.t", definition, f"run {snapshot_id}", snapshot_id=snapshot_id, **given)


def days(first: int, last: int) -> tuple[datetime, datetime]:
    return datetime(2024, 1, first), datetime(2024, 1, last)


def events(*given: ModelRun) -> list[ModelRun]:
    return [replace(one, earlier=number) for number, one in enumerate(given)]


def undone(*given: ModelRun) -> list[tuple[int | None, list[int | None]]]:
    found = undone_runs(history(events(*given)))
    return [(run.snapshot_id, [one.snapshot_id for one in later]) for run, later in found]


def restore(snapshot_id: int, version: int) -> ModelRun:
    return ran(snapshot_id, RESTORED, restored=version)


def test_runs_since_the_rows_were_replaced_are_current() -> None:
    first, mark, second = ran(1), ran(2, RESET), ran(2, "y")
    assert history([]).runs == []
    assert history(events(first)).runs == events(first)
    assert history(events(first, mark)).runs == []
    assert history(events(first, mark, second)).runs == events(first, mark, second)[2:]
    assert [run.snapshot_id for run in history(events(first, mark, second, restore(5, 1))).runs] == [1, 2]


def test_run_is_undone_until_a_later_run_or_restore_brings_its_rows_back() -> None:
    one, two, three = ran(1), ran(3), ran(7)
    assert undone(one, two) == []
    assert undone(one, two, restore(5, 2)) == [(3, [])]
    assert undone(one, two, restore(5, 2), restore(6, 4)) == []
    assert undone(one, two, restore(5, 2), three) == [(3, [7])]
    assert undone(one, two, restore(5, 2), three, restore(9, 4)) == [(7, [])]
    assert undone(one, two, restore(5, 2), three, restore(9, 8)) == [(3, [7])]


def test_runs_of_a_former_table_do_not_count() -> None:
    assert history(events(ran(1), ran(3)), created=3).runs == events(ran(1), ran(3))[1:]
    assert history(events(ran(1), restore(4, 2)), created=4).runs == events(ran(1))
    assert history(events(ran(1)), created=3).is_former


def test_intervals_that_no_later_run_repeated_are_undone() -> None:
    first, later = ran(3, interval=days(1, 9)), [ran(7, interval=days(2, 4)), ran(8)]
    assert undone_intervals([(first, later), (ran(4), [])]) == [days(1, 2), days(4, 9)]
