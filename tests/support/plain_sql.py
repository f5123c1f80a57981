"""Runs statements and queries the way a client without lakeconf does."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from lake_parts import session_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake
    from lakeconf.connection.connection import Connection


@contextlib.contextmanager
def plain_connection(lake: Lake) -> Iterator[Connection]:
    """A connection with the lake as the default database; its own connections look names up in DuckDB first."""
    session = session_of(lake)
    with session.writer.cursor() as connection:
        connection.execute(f"USE {session.alias}")
        yield connection


def run_plain(lake: Lake, *statements: str) -> None:
    """Runs statements."""
    with plain_connection(lake) as connection:
        for statement in statements:
            connection.execute(statement)


def plain_rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    with plain_connection(lake) as connection:
        return connection.rows(query)
