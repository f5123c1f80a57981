"""`--verbose` and `--debug`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import lakeconf
from lakeconf.cli import app

if TYPE_CHECKING:
    from pathlib import Path


CONFIG = """
[stores.dev]
metadata_backend = { type = "sqlite", uri = "lake/catalog.sqlite" }
storage_backend = { type = "local", path = "lake/data" }
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lakeconf.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    with lakeconf.init().get_store("dev").open() as lake:
        lake.create_table("raw.events", {"id": "BIGINT"})
    return tmp_path


@pytest.mark.parametrize("arguments", [["-v", "tables"], ["tables", "-v"], ["tables", "--verbose"]])
def test_verbose_logs_to_stderr_in_any_position(
    project: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(arguments) == 0
    shown = capsys.readouterr()
    assert "INFO    lakeconf.lake: opened dev at snapshot" in shown.err
    assert "opened dev" not in shown.out


def test_logging_is_restored_after_each_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("lakeconf")
    handlers, level = list(logger.handlers), logger.level
    for arguments in (["--debug", "tables", "-v"], ["tables"]):
        capsys.readouterr()
        assert app.run(arguments) == 0
    assert capsys.readouterr().err == ""
    assert (list(logger.handlers), logger.level) == (handlers, level)


def test_each_record_is_logged_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["-v", "--debug", "tables", "-v", "--debug"]) == 0
    assert capsys.readouterr().err.count("opened dev") == 1


def test_debug_shows_the_traceback_of_an_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--debug", "tables", "--store", "nowhere"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last)" in shown
    assert shown.count("nowhere") >= 2
    assert app.run(["-v", "tables", "--store", "nowhere"]) == 1
    assert "Traceback" not in capsys.readouterr().err
