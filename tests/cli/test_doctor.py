"""`lakeconf doctor`: steps, verdict, exit code, and consent to a repair."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import lakeconf
from lakeconf.cli.inspect_commands import _show_findings, _verdict
from lakeconf.cli.output import show
from lakeconf.inspection.doctor import FAILED, Step

if TYPE_CHECKING:
    from pathlib import Path


def test_broken_store_as_text_and_as_json(project: Path, called: Any) -> None:
    (project / "catalog.sqlite").write_text("this is no database, but a text of some length")
    code, out, _ = called("doctor")
    assert (code, "✗ catalog" in out) == (1, True)
    code, out, err = called("doctor", "--store", "dev", "--format", "json")
    data = json.loads(out)
    assert (code, err, data["store"], data["ok"]) == (1, "", "dev", False)
    catalog = next(step for step in data["steps"] if step["name"] == "catalog")
    assert catalog["status"] == "failed"
    assert set(catalog) == {"name", "status", "found", "hint", "seconds"}


ODD = Step("a", "warning", "odd", "do it")
BROKEN = Step("b", FAILED, "Binder Error: no such column\n\nLINE 1: FROM t\n        ^", "do it")


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        (
            [Step("catalog", "ok", "readable"), Step("clock", "skipped", "no server")],
            ["✓ catalog             readable", "- clock               no server", "dev works"],
        ),
        (
            [ODD, Step("c", "warning", "odd")],
            [
                *("! a                   odd", "                      hint: do it", "! c                   odd"),
                "dev works; look at the warnings: a, c",
            ],
        ),
        (
            [ODD, BROKEN, Step("c", "failed", "broken")],
            [
                *("! a                   odd", "                      hint: do it"),
                "✗ b                   Binder Error: no such column LINE 1: FROM t ^",
                *("                      hint: do it", "✗ c                   broken"),
                "dev does not work: b, c failed",
            ],
        ),
    ],
)
def test_steps_and_verdict(steps: list[Step], lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for step in steps:
        _show_findings(step)
    show(_verdict("dev", steps))
    assert capsys.readouterr() == ("".join(f"{line}\n" for line in lines), "")


def test_repair_of_a_moved_catalog_needs_consent(project: Path, called: Any) -> None:
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT"})
    text = (project / "lakeconf.toml").read_text()
    (project / "lakeconf.toml").write_text(text.replace("catalog.sqlite", "moved.sqlite"))
    shutil.copy(project / "catalog.sqlite", project / "moved.sqlite")
    markers = {path: path.read_bytes() for path in (project / "data").rglob("*") if path.is_file()}
    called("doctor", "--yes")
    code, out, err = called("doctor", "--repair")
    assert (code, out) == (2, "")
    assert "was created for a catalog at another location" in err.splitlines()[0]
    assert "then pass --yes" in err
    assert {path: path.read_bytes() for path in (project / "data").rglob("*") if path.is_file()} == markers
    code, out, err = called("doctor", "--repair", "--yes")
    assert (code, "at another location" in err) == (0, True)
    assert called("doctor")[0] == 0
