"""Recorded runs that count in a version of a table."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from lakeconf.commit.journal import ModelRun
from lakeconf.pipelines.recorded_runs import RESET, current_runs, undone_intervals, undone_runs


def ran(snapshot_id: int, definition: str = "d", **given: Any) -> ModelRun:
    return ModelRun("marts.t", definition, f"run {snapshot_id}", snapshot_id=snapshot_id, **given)


def days(first: int, last: int) -> tuple[datetime, datetime]:
    return datetime(2024, 1, first), datetime(2024, 1, last)


def test_runs_since_the_rows_were_replaced_are_current() -> None:
    first, mark, second = (ModelRun("a.t", definition, "r") for definition in ("x", RESET, "y"))
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
