"""A time limit is over from its deadline on."""

from __future__ import annotations

from datetime import timedelta

from lakeconf.lake.limits import TimeLimit


def test_limit_is_over_from_its_deadline_on() -> None:
    times = iter([9.9, 10.0, 10.1])
    limit = TimeLimit(10.0, lambda: next(times))
    assert [limit.is_over for _ in range(3)] == [False, True, True]


def test_no_deadline_is_never_over() -> None:
    assert not TimeLimit.after(None).is_over
    assert not TimeLimit.after(timedelta(hours=1)).is_over
    assert TimeLimit.after(timedelta(0)).is_over
