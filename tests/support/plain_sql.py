"""Runs statements the way a writer without lakeconf does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakeconf import Lake


def run_plain(lake: Lake, *statements: str) -> None:
    """Runs statements with the lake as the default database; its own connections look names up in DuckDB first."""
    connection = lake._session.writer.cursor()
    connection.execute(f"USE {lake._session.alias}")
    for statement in statements:
        connection.execute(statement)
    connection.close()
