"""`lakeconf init` writes a valid configuration; docs/getting-started.md."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from doc_pages import blocks

from lakeconf.cli.app import run
from lakeconf.config.config import validate
from lakeconf.config.warnings import warnings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_an_existing_file_is_kept_without_force(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lakeconf.toml").mkdir()
    assert run(["init"]) == 2
    assert "File 'lakeconf.toml' is a directory." in capsys.readouterr().err
    (folder / "lakeconf.toml").rmdir()
    (folder / "lakeconf.toml").write_text("mine")
    assert run(["init"]) == 2
    assert "lakeconf.toml already exists; use --force to overwrite it" in capsys.readouterr().err
    assert (folder / "lakeconf.toml").read_text() == "mine"
    assert run(["init", "--force"]) == 0
    assert validate() == [] == warnings()


def test_getting_started_needs_only_the_package_that_it_installs(folder: Path) -> None:
    assert run(["init"]) == 0
    code, *_ = blocks("getting-started.md", "python")
    without = "import sys; sys.modules |= dict.fromkeys(['pyarrow', 'pandas', 'numpy', 'polars', 'pyspark'])\n"
    subprocess.run([sys.executable, "-c", without + code], check=True)


def test_gitignore_lists_the_folder_of_the_local_lake(folder: Path) -> None:
    assert run(["init"]) == 0
    assert not (folder / ".gitignore").exists()
    git = shutil.which("git") or "git"
    subprocess.run([git, "init", "-q"], check=True)
    (folder / ".gitignore").write_text("build/")
    (folder / ".lakeconf").mkdir()
    (folder / ".lakeconf" / "catalog.sqlite").touch()
    for _ in range(2):
        assert run(["init", "--force"]) == 0
        assert (folder / ".gitignore").read_text() == "build/\n.lakeconf/\n"
    status = subprocess.run([git, "status", "--short"], capture_output=True, text=True, check=True)
    assert status.stdout.split() == ["??", ".gitignore", "??", "lakeconf.toml"]


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".git").mkdir()
    assert run(["init", "-o", "my lake.toml", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": "my lake.toml", "store": "dev", "ignored": True}
    assert run(["init", "-o", "my lake.toml", "--force"]) == 0
    assert "check it with: lakeconf validate --config 'my lake.toml'" in capsys.readouterr().out
