"""Progress of long commands: one line on a terminal that shows the latest log record and how long it has taken."""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import time
from typing import TextIO

import click

from lakeconf.logs import TerminalFormatter

# Short commands show no progress, so that the line does not flicker.
_FIRST_SECONDS = 1.0
_EVERY_SECONDS = 0.5
_ERASE = "\r\x1b[K"


class ProgressLine(logging.Handler):
    """Draws the latest record of the logger `lakeconf` on one line, which the next drawing replaces."""

    def __init__(
        self, stream: TextIO, *, first_seconds: float = _FIRST_SECONDS, every_seconds: float = _EVERY_SECONDS
    ) -> None:
        super().__init__(logging.INFO)
        self._stream, self._first, self._every = stream, first_seconds, every_seconds
        self._text, self._since, self._is_drawn = "", time.monotonic(), False
        self._level_before = logging.NOTSET
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_done, name="lakeconf-progress", daemon=True)

    def start(self) -> None:
        """Starts to listen and to draw."""
        logger = logging.getLogger("lakeconf")
        logger.addHandler(self)
        self._level_before = logger.level
        logger.setLevel(min(logger.level or logging.INFO, logging.INFO))
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Stores a record for the next drawing."""
        self._text, self._since = record.getMessage(), time.monotonic()

    def clear(self) -> None:
        """Erases the line, so that other output can be written to the terminal."""
        with self._locked():
            if self._is_drawn:
                self._stream.write(_ERASE)
                self._stream.flush()
                self._is_drawn = False

    def close(self) -> None:
        """Stops drawing and erases the line."""
        logger = logging.getLogger("lakeconf")
        logger.removeHandler(self)
        logger.setLevel(self._level_before)
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()
        self.clear()
        super().close()

    def _draw_until_done(self) -> None:
        if self._done.wait(self._first):
            return
        while True:
            self._draw()
            if self._done.wait(self._every):
                return

    def _draw(self) -> None:
        with self._locked():
            if not self._text:
                return
            text = f"{self._text} ({time.monotonic() - self._since:.0f} s)"
            self._stream.write(f"{_ERASE}{text[: shutil.get_terminal_size().columns - 1]}")
            self._stream.flush()
            self._is_drawn = True

    def _locked(self) -> threading.RLock:
        lock = self.lock
        if lock is None:
            raise RuntimeError("the handler has no lock")
        return lock


# Commands that may take long: they show a progress line on a terminal.
_LONG = frozenset({"copy", "diff", "maintain", "plan", "report", "run", "sql", "verify"})
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_HANDLER, _PROGRESS = "lakeconf.log_handler", "lakeconf.progress"


def verbosity_options() -> list[click.Option]:
    """The options `--verbose` and `--debug` of a command."""
    return [
        click.Option(
            ["-v", "--verbose"], is_flag=True, expose_value=False, help="Log events to stderr.", callback=_verbose
        ),
        click.Option(
            ["--debug"], is_flag=True, expose_value=False, help="Log details and tracebacks to stderr.", callback=_debug
        ),
    ]


def clear_progress() -> None:
    """Erases the progress line before other output is written to the terminal."""
    context = click.get_current_context(silent=True)
    line: ProgressLine | None = context.meta.get(_PROGRESS) if context else None
    if line is not None:
        line.clear()


def _verbose(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's flag
    if value:
        _listen(context, logging.INFO)
    elif not context.resilient_parsing:
        # The callback runs for every command. Options that are given come first, so a handler is known here.
        _show_progress(context)


def _debug(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's flag
    if value:
        _listen(context, logging.DEBUG)


def _show_progress(context: click.Context) -> None:
    """Shows a progress line on the terminal until the command ends, if the command may take long."""
    if context.info_name in _LONG and _HANDLER not in context.meta and sys.stderr.isatty():
        line = ProgressLine(sys.stderr)
        context.meta[_PROGRESS] = line
        context.call_on_close(line.close)
        line.start()


def _listen(context: click.Context, level: int) -> None:
    """Writes the records of lakeconf to stderr until the command ends."""
    logger = logging.getLogger("lakeconf")
    before = logger.level
    handler: logging.Handler = context.meta.get(_HANDLER) or logging.StreamHandler()
    if _HANDLER not in context.meta:
        handler.setFormatter(TerminalFormatter(_FORMAT))
        logger.addHandler(handler)
        context.meta[_HANDLER] = handler
        root = context.find_root()
        root.call_on_close(lambda: logger.removeHandler(handler))
        root.call_on_close(lambda: logger.setLevel(before))
    logger.setLevel(min(level, before or level))
