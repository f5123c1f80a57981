"""Keeps secrets out of the log of py4j, which connects Python to Spark's JVM."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

_LOGGERS = ("py4j.clientserver", "py4j.java_gateway")


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Suppresses py4j's DEBUG messages, which contain everything that it sends and receives."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(max(logger.getEffectiveLevel(), logging.INFO))
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
