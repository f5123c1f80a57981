"""Loggers below `lakeconf` in Python's `logging`, which report events of a lake.

A record never contains a row, a statement or a secret. Names from a lake are untrusted, so control characters in them
are escaped before a handler sees them.
"""

from __future__ import annotations

import logging
from typing import Any

# The application installs handlers. Without this one, Python would print warnings to stderr.
logging.getLogger("lakeconf").addHandler(logging.NullHandler())

# C0 and C1 control characters, line and paragraph separators, characters that change the direction of text, and halves
# of surrogate pairs, which no output can encode.
_UNSAFE = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (
        *range(0x20),
        *range(0x7F, 0xA0),
        0x061C,
        0x200E,
        0x200F,
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xD800, 0xE000),
    )
}


def event_logger(name: str) -> logging.Logger:
    """The logger of a part of lakeconf, which escapes the strings among the arguments of its records."""
    logger = logging.getLogger(f"lakeconf.{name}")
    if not logger.filters:
        logger.addFilter(_escape_arguments)
    return logger


def _escape_arguments(record: logging.LogRecord) -> bool:
    """Escapes arguments: numbers stay numbers, other values become strings. It passes every record."""
    if isinstance(record.args, tuple):
        record.args = tuple(value if isinstance(value, int | float) else escaped(str(value)) for value in record.args)
    return True


def escaped(text: str) -> str:
    """Escapes characters that control a terminal or start a new line."""
    return text.translate(_UNSAFE)


class TerminalFormatter(logging.Formatter):
    """Formats records for a terminal: control characters in tracebacks are escaped, and no line of one is a command."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is logging's
        # A log of CI runs commands at the start of a line, also behind spaces.
        return "\n".join(f"| {escaped(line)}" for line in super().formatException(ei).split("\n"))
