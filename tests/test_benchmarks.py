from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def ratios(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield importlib.import_module("ratios")
    del sys.modules["ratios"]


class Work:
    """Work of which each run takes the seconds that are next, or the last ones, on a clock of its own."""

    now = 0.0

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds)

    def __call__(self) -> None:
        Work.now += self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0]


def kept(ratios: Any, ours: Work) -> Any:
    return ratios.Line("work", 2.0, ours, "a rival", Work(1), 3, lambda: Work.now).is_kept()


def test_ratio_like_the_recorded_one_is_kept(ratios, capsys):
    assert kept(ratios, Work(2.9))
    assert "| work | a rival | 2.00 | 2.90 |" in capsys.readouterr().out


def test_slower_code_fails_after_a_second_measurement(ratios, capsys):
    assert not kept(ratios, Work(3.1))
    assert "3.10 measured again: 3.10 TOO SLOW" in capsys.readouterr().out


def test_busy_moments_do_not_fail(ratios, capsys):
    assert kept(ratios, Work(9, 9, 2, 9))  # of one run, which the least time leaves out
    assert "measured again" not in capsys.readouterr().out
    assert kept(ratios, Work(9, 9, 9, 9, 9, 2))  # of the whole first measurement, with its warm-up
    assert "9.00 measured again: 2.00 |" in capsys.readouterr().out
