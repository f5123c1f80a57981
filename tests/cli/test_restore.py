"""`lakeconf restore`: its plan, its consent, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import pytest

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path


def rows() -> list[dict[str, Any]]:
    with lakeconf.init().get_store().open() as lake:
        return sorted(lake.table("raw.events").head(), key=lambda row: int(row["id"]))


ALL = [{"id": 2, "kind": "view"}, {"id": 3, "kind": "buy"}]
PLAN = """\
replace rows: raw.events as of version 2
rows now   2
rows then  2
"""


def test_command_shows_its_plan_and_needs_consent(events_folder: Path, called: Any) -> None:
    code, out, err = called("restore", "raw.events", "--version", "2")
    assert (code, out) == (2, PLAN)
    assert "needs --yes when stdin is not a terminal" in err
    assert (called("restore", "raw.events", "--version", "2", "--dry-run"), rows()) == ((0, PLAN, ""), ALL)


def test_consent_restores_the_table(events_folder: Path, called: Any) -> None:
    code, out, _ = called("restore", "raw.events", "--version", "2", "--yes")
    assert (code, out) == (0, PLAN + "restored raw.events in snapshot 5\n")
    assert rows() == [{"id": 1, "kind": "view"}, {"id": 2, "kind": "view"}]
    assert called("restore", "raw.events", "--version", "5", "--yes") == (
        0, "raw.events has not changed since version 5: nothing to restore\n", "",
    )  # fmt: skip


def test_refused_prompt_changes_nothing(events_folder: Path, called: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: False)
    code, _, err = called("restore", "raw.events", "--version", "2")
    assert (code, err, rows()) == (1, "nothing was changed\n", ALL)


def test_dropped_table_comes_back(events_folder: Path, called: Any) -> None:
    with lakeconf.init().get_store().open() as lake:
        time = lake.snapshots()[-1].time
        lake.drop_table("raw.events")
    moment = time.strftime("%Y-%m-%dT%H:%M:%S.999999+0000")
    code, out, err = called("restore", "raw.events", "--timestamp", moment)
    assert (code, "Invalid value" in err) == (2, True)
    code, out, _ = called("restore", "raw.events", "--version", "4", "--format", "json", "--yes")
    assert json.loads(out) == {
        "table": "raw.events",
        "version": 4,
        "action": "create again",
        "rows_now": None,
        "rows_then": 2,
        "columns": [],
        "notes": ["the table starts without idempotency keys"],
        "snapshot_id": 6,
    }
    assert (code, rows()) == (0, ALL)


def test_time_selects_the_snapshot(events_folder: Path, called: Any) -> None:
    code, out, err = called("restore", "raw.events", "--timestamp", "2000-01-01")
    assert (code, "no snapshot exists at 2000-01-01T00:00:00+00:00" in err) == (1, True)
    code, out, err = called("restore", "raw.events", "--timestamp", "2999-01-01T00:00:00+0100", "--dry-run")
    assert (code, out) == (0, "raw.events has not changed since version 4: nothing to restore\n")


@pytest.mark.parametrize("options", [(), ("--version", "1", "--timestamp", "2026-01-01")])
def test_command_needs_one_snapshot(events_folder: Path, called: Any, options: tuple[str, ...]) -> None:
    code, _, err = called("restore", "raw.events", *options)
    assert (code, "pass either --version or --timestamp" in err) == (2, True)


def test_command_creates_no_lake(project: Path, called: Any) -> None:
    code, _, err = called("restore", "t", "--version", "1", "--yes")
    assert (code, "has no lake yet" in err) == (1, True)
    assert sorted(path.name for path in project.iterdir()) == ["lakeconf.toml"]
