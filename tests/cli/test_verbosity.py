"""`--verbose`, `--debug` and the progress line."""

from __future__ import annotations

import io
import logging
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import lakeconf
from lakeconf.cli import app, progress
from lakeconf.cli.progress import ProgressLine
from lakeconf.logs import EventLogger

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def test_short_command_on_a_terminal_shows_no_progress(project: Path) -> None:
    master, replica = pty.openpty()
    command = [sys.executable, "-m", "lakeconf", "sql", "SELECT 42 AS answer"]
    done = subprocess.run(command, cwd=project, stdout=subprocess.PIPE, stderr=replica, check=True, timeout=120)
    os.close(replica)
    shown = b""
    try:
        while chunk := os.read(master, 1024):
            shown += chunk
    except OSError:  # the terminal has no more writers
        pass
    os.close(master)
    assert b"42" in done.stdout
    # A slow machine may show the line; the command must then erase it.
    assert shown == b"" or shown.endswith(b"\r\x1b[K")


class Terminal(io.StringIO):
    """A stream that sets an event when something is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def flush(self) -> None:
        super().flush()
        self.drawn.set()


def test_progress_line_shows_the_latest_record_and_is_erased() -> None:
    terminal = Terminal()
    line = ProgressLine(terminal, first_seconds=0, every_seconds=60)
    log = EventLogger("commit")
    line.emit(logging.makeLogRecord({"msg": "merging files of %s", "args": ("raw.events",)}))
    line.start()
    assert terminal.drawn.wait(30)
    assert "merging files of raw.events (0 s)" in terminal.getvalue()
    line.close()
    assert terminal.getvalue().endswith("\r\x1b[K")
    before = terminal.getvalue()
    log.info("later")
    line.clear()
    assert terminal.getvalue() == before


ERASE = "\r\x1b[K"


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


@pytest.fixture
def line(terminal: Terminal) -> Iterator[ProgressLine]:
    """A line that draws at once, and only once."""
    made = ProgressLine(terminal, first_seconds=0, every_seconds=3600)
    yield made
    made.close()


def record(text: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": text})


def test_defaults_do_not_flicker() -> None:
    assert (progress._FIRST_SECONDS, progress._EVERY_SECONDS) == (1.0, 0.5)


def test_line_that_is_closed_early_draws_nothing(terminal: Terminal) -> None:
    line = ProgressLine(terminal, first_seconds=3600)
    line.emit(record("reading"))
    line.start()
    line.close()
    assert terminal.getvalue() == ""
    assert not line._thread.is_alive()


def test_line_without_a_record_draws_nothing(terminal: Terminal, line: ProgressLine) -> None:
    line._draw()
    line.clear()
    assert terminal.getvalue() == ""


def test_each_drawing_replaces_the_one_before(terminal: Terminal, line: ProgressLine) -> None:
    line.emit(record("first"))
    line._draw()
    line.emit(record("second"))
    line._draw()
    assert terminal.getvalue() == f"{ERASE}first (0 s){ERASE}second (0 s)"
    line.clear()
    line.clear()
    assert terminal.getvalue().endswith(f"second (0 s){ERASE}")
    assert terminal.getvalue().count(ERASE) == 3


def test_seconds_are_those_since_the_record(
    terminal: Terminal, line: ProgressLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    line.emit(record("reading"))
    now = 112.4
    line._draw()
    assert terminal.getvalue() == f"{ERASE}reading (12 s)"


@pytest.mark.parametrize(("columns", "shown"), [("12", "reading (0 "), ("13", "reading (0 s"), ("80", "reading (0 s)")])
def test_line_is_shorter_than_the_terminal(
    columns: str, shown: str, terminal: Terminal, line: ProgressLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that fills the terminal would wrap, and then only its second half would be erased."""
    monkeypatch.setenv("COLUMNS", columns)
    line.emit(record("reading"))
    line._draw()
    assert terminal.getvalue() == ERASE + shown


def test_line_listens_to_information_and_restores_the_level(terminal: Terminal) -> None:
    logger = logging.getLogger("lakeconf")
    before = logger.level
    try:
        for level, heard in ((logging.WARNING, logging.INFO), (logging.DEBUG, logging.DEBUG), (0, logging.INFO)):
            logger.setLevel(level)
            line = ProgressLine(terminal, first_seconds=3600)
            line.start()
            assert (logger.level, line in logger.handlers) == (heard, True)
            EventLogger("commit").debug("a detail")
            EventLogger("commit").info("writing")
            assert line._text == "writing"
            line.close()
            assert (logger.level, line in logger.handlers) == (level, False)
    finally:
        logger.setLevel(before)


def test_line_draws_again_until_it_is_closed(terminal: Terminal) -> None:
    line = ProgressLine(terminal, first_seconds=0, every_seconds=0)
    line.emit(record("reading"))
    line.start()
    for _ in range(3):
        terminal.drawn.clear()
        assert terminal.drawn.wait(30)
    line.close()
    assert terminal.getvalue().count("reading (0 s)") >= 3
    assert terminal.getvalue().endswith(ERASE)
