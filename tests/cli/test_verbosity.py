"""`--verbose` and `--debug`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import lakeconf
from lakeconf.cli import app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def lake(project: Path) -> None:
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("raw.events", {"id": "BIGINT"})


def test_verbose_logs_to_stderr_in_any_position_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["-v", "tables"], ["tables", "-v"], ["tables", "--verbose"], ["-v", "--debug", "tables", "-v", "--debug"],
    ):  # fmt: skip
        assert app.run(arguments) == 0
        shown = capsys.readouterr()
        assert shown.err.count("INFO    lakeconf.lake: opened dev at snapshot") == 1
        assert "opened dev" not in shown.out


def test_logging_is_restored_after_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("lakeconf")
    handlers, level = list(logger.handlers), logger.level
    for arguments in (["--debug", "tables", "-v"], ["tables"]):
        capsys.readouterr()
        assert app.run(arguments) == 0
    assert capsys.readouterr().err == ""
    assert (list(logger.handlers), logger.level) == (handlers, level)


def test_debug_shows_the_traceback_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--debug", "tables", "--store", "nowhere"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last)" in shown
    assert shown.count("nowhere") >= 2
    assert app.run(["-v", "tables", "--store", "nowhere"]) == 1
    assert "Traceback" not in capsys.readouterr().err
