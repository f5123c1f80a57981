"""`lakeconf doctor`: steps, verdict, exit code, and consent to a repair."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import lakeconf
from lakeconf.cli.app import run
from lakeconf.cli.inspect_commands import _show_findings, _verdict
from lakeconf.cli.output import show
from lakeconf.inspection.doctor import FAILED, Step

if TYPE_CHECKING:
    from pathlib import Path


def test_exit_code_and_unknown_store(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "catalog.sqlite").write_text("this is no database, but a text of some length")
    assert run(["doctor"]) == 1
    assert "✗ catalog" in capsys.readouterr().out
    assert run(["doctor", "--store", "dve"]) == 1
    assert "did you mean" in capsys.readouterr().err


STEPS = {
    "ok": [Step("catalog", "ok", "readable"), Step("clock", "skipped", "no server")],
    "warning": [Step("catalog", "ok", "readable"), Step("a", "warning", "odd", "do it"), Step("b", "warning", "odd")],
    "failed": [Step("a", "warning", "odd"), Step("b", "failed", "broken", "do it"), Step("c", "failed", "broken")],
}


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        ("ok", ["✓ catalog             readable", "- clock               no server", "dev works"]),
        (
            "warning",
            [
                "✓ catalog             readable",
                "! a                   odd",
                "                      hint: do it",
                "! b                   odd",
                "dev works; look at the warnings: a, b",
            ],
        ),
        (
            "failed",
            [
                "! a                   odd",
                "✗ b                   broken",
                "                      hint: do it",
                "✗ c                   broken",
                "dev does not work: b, c failed",
            ],
        ),
    ],
)
def test_steps_and_verdict(steps: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for step in STEPS[steps]:
        _show_findings(step)
    show(_verdict("dev", STEPS[steps]))
    assert capsys.readouterr() == ("".join(f"{line}\n" for line in lines), "")


def test_json_of_a_broken_store(project: Path, called: Any) -> None:
    (project / "catalog.sqlite").write_text("this is no database, but a text of some length")
    code, out, err = called("doctor", "--store", "dev", "--format", "json")
    data = json.loads(out)
    assert (code, err, data["store"], data["ok"]) == (1, "", "dev", False)
    catalog = next(step for step in data["steps"] if step["name"] == "catalog")
    assert catalog["status"] == "failed"
    assert set(catalog) == {"name", "status", "found", "hint", "seconds"}


@pytest.fixture
def moved(project: Path) -> Path:
    """A store whose catalog is a copy."""
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT"})
    text = (project / "lakeconf.toml").read_text()
    (project / "lakeconf.toml").write_text(text.replace("catalog.sqlite", "moved.sqlite"))
    shutil.copy(project / "catalog.sqlite", project / "moved.sqlite")
    return project


def test_repair_of_a_moved_catalog_needs_consent(moved: Path, called: Any) -> None:
    markers = {path: path.read_bytes() for path in (moved / "data").rglob("*") if path.is_file()}
    code, out, err = called("doctor", "--repair")
    assert (code, out) == (2, "")
    assert "was created for a catalog at another location" in err.splitlines()[0]
    assert "then pass --yes" in err
    assert {path: path.read_bytes() for path in (moved / "data").rglob("*") if path.is_file()} == markers
    code, out, err = called("doctor", "--repair", "--yes")
    assert (code, "at another location" in err) == (0, True)
    assert called("doctor")[0] == 0


def test_only_a_repair_changes_the_store(moved: Path, called: Any) -> None:
    before = {path: path.read_bytes() for path in (moved / "data").rglob("*") if path.is_file()}
    called("doctor", "--yes")
    assert {path: path.read_bytes() for path in (moved / "data").rglob("*") if path.is_file()} == before


def test_message_of_several_lines_is_shown_on_one(capsys: pytest.CaptureFixture[str]) -> None:
    _show_findings(Step("catalog", FAILED, "Binder Error: no such column\n\nLINE 1: FROM t\n        ^"))
    assert capsys.readouterr().out == "✗ catalog             Binder Error: no such column LINE 1: FROM t ^\n"
