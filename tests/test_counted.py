"""Counts with their noun."""

from __future__ import annotations

from lakeconf.wording import counted


def test_a_noun_is_plural_unless_there_is_one() -> None:
    assert [counted(number, "file") for number in (0, 1, 2, 2000)] == ["0 files", "1 file", "2 files", "2,000 files"]
