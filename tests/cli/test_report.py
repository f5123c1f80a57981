"""`lakeconf report`: writes one file, and overwrites nothing without consent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def test_page_is_written(events_folder: Path, called: Any) -> None:
    assert called("report", "--store", "dev") == (0, "wrote lake.html\n", "")
    page = (events_folder / "lake.html").read_text(encoding="utf-8")
    assert ">The lake of dev</h1>" in page
    assert ">raw.events</a></td>" in page
    assert called("report", "-o", "other.html") == (0, "wrote other.html\n", "")
    assert (events_folder / "other.html").stat().st_size > 1_000


def test_existing_file_is_kept_without_force(events_folder: Path, called: Any) -> None:
    (events_folder / "lake.html").write_text("mine")
    code, out, err = called("report")
    assert (code, out, (events_folder / "lake.html").read_text()) == (2, "", "mine")
    assert "lake.html already exists; use --force to overwrite it" in err
    assert called("report", "--force") == (0, "wrote lake.html\n", "")
    assert "<h1 " in (events_folder / "lake.html").read_text(encoding="utf-8")


def test_file_that_cannot_be_written(events_folder: Path, called: Any) -> None:
    code, out, err = called("report", "-o", "none/lake.html")
    assert (code, out) == (2, "")
    assert "none/lake.html cannot be written: No such file" in err


def test_missing_lake_is_not_created(project: Path, called: Any) -> None:
    code, out, err = called("report")
    assert (code, out) == (1, "")
    assert "has no lake yet" in err
    assert [path.name for path in project.iterdir()] == ["lakeconf.toml"]


def test_json(events_folder: Path, called: Any) -> None:
    code, out, err = called("report", "--format", "json")
    size = (events_folder / "lake.html").stat().st_size
    assert (code, err, json.loads(out)) == (0, "", {"path": "lake.html", "store": "dev", "bytes": size})
