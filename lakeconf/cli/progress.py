"""Progress of long commands: one line on a terminal that shows the latest log record and how long it has taken."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from typing import TextIO

# Short commands show no progress, so that the line does not flicker.
_FIRST_SECONDS = 1.0
_EVERY_SECONDS = 0.5
_ERASE = "\r\x1b[K"


class ProgressLine(logging.Handler):
    """Draws the latest record of the logger `lakeconf` on one line, which the next drawing replaces.

    Args:
        stream: The terminal.
        first_seconds: How long to wait before the first drawing, in seconds.
        every_seconds: The time between two drawings, in seconds.
    """

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

    def idle(self) -> None:
        """Erases the line and draws nothing until the next record."""
        with self._locked():
            self._text = ""
            self.clear()

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
