"""`lakeconf import`: prints or writes a lakeconf.toml, and overwrites nothing without consent."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.config.model import init

if TYPE_CHECKING:
    from pathlib import Path

METAXY = """\
project = "x"

[stores.dev]
type = "metaxy.DuckDB"

[stores.dev.config.ducklake]
alias = "ducklake"

[stores.dev.config.ducklake.metadata_backend]
type = "postgres"
host = "localhost"
port = 5432
database = "meta"
user = "lake"
password = "planted-password"

[stores.dev.config.ducklake.storage_backend]
type = "local"
path = "/tmp/storage"
"""
NOTES = [
    "note: the secret dev.metadata_backend.password was not copied: export DEV_METADATA_PASSWORD=…",
    "note: project applies to metaxy only",
]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "metaxy.toml"
    path.write_text(METAXY)
    return path


def test_result_is_printed_and_notes_go_to_stderr(source: Path, called: Any) -> None:
    code, out, err = called("import", str(source))
    assert (code, err.splitlines()) == (0, NOTES)
    assert tomllib.loads(out)["stores"]["dev"]["metadata_backend"]["password"] == "${DEV_METADATA_PASSWORD}"
    assert "planted" not in out + err
    assert [path.name for path in source.parent.iterdir()] == ["metaxy.toml"]


def test_result_is_written(source: Path, called: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = called("import", str(source))[1]
    code, out, err = called("import", str(source), "--output", "lakeconf.toml")
    assert (code, out, err.splitlines()) == (0, "", NOTES)
    assert (source.parent / "lakeconf.toml").read_text().rstrip("\n") == printed.rstrip("\n")
    monkeypatch.setenv("DEV_METADATA_PASSWORD", "x")
    assert init().get_store("dev").metadata_backend.type == "postgres"


def test_existing_file_is_kept_without_force(source: Path, called: Any) -> None:
    output = source.parent / "lakeconf.toml"
    output.write_text("mine")
    code, out, err = called("import", str(source), "-o", "lakeconf.toml")
    assert (code, out, output.read_text()) == (2, "", "mine")
    assert "lakeconf.toml already exists; use --force to overwrite it" in err
    assert called("import", str(source), "-o", "lakeconf.toml", "--force")[0] == 0
    assert "[stores.dev.metadata_backend]" in output.read_text()


def test_file_that_cannot_be_read_or_written(source: Path, called: Any) -> None:
    code, out, err = called("import", "missing.toml")
    assert (code, out) == (1, "")
    assert "missing.toml cannot be read: No such file" in err
    code, out, err = called("import", str(source), "-o", "none/lakeconf.toml")
    assert (code, out) == (2, "")
    assert "none/lakeconf.toml cannot be written: No such file" in err
    assert called("import")[0] == 2


def test_json(source: Path, called: Any) -> None:
    printed = called("import", str(source))[1]
    code, out, err = called("import", str(source), "--format", "json")
    found = json.loads(out)
    assert (code, err, found["path"]) == (0, "", None)
    assert found["text"].rstrip("\n") == printed.rstrip("\n")
    assert [f"note: {note}" for note in found["notes"]] == NOTES
    assert "planted-password" not in out
    written = source.with_name("written.toml")
    assert json.loads(called("import", str(source), "--format", "json", "-o", str(written))[1])["path"] == str(written)
    assert written.read_text() == found["text"]
