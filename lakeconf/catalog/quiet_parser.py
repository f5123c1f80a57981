"""sqlglot's parser without its log: it writes statements that it does not know to stderr, with their values."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

import sqlglot
from sqlglot import exp

_log = logging.getLogger("sqlglot")


def parsed(sql: str, dialect: str = "duckdb") -> list[exp.Expr | None]:
    """The statements of SQL.

    Args:
        sql: The SQL.
        dialect: Its dialect.

    Raises:
        sqlglot.errors.SqlglotError: The SQL cannot be parsed.
    """
    with _quiet():
        return sqlglot.parse(sql, dialect=dialect)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drops what this thread logs: the application may use sqlglot in others."""
    thread = threading.get_ident()

    def of_another_thread(record: logging.LogRecord) -> bool:  # noqa: ARG001 - the interface of a filter
        return threading.get_ident() != thread

    _log.addFilter(of_another_thread)
    try:
        yield
    finally:
        _log.removeFilter(of_another_thread)
