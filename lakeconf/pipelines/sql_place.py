"""Finds the place in the text of a model where DuckDB finds an error.

A run puts views in place of tables, and values in place of placeholders. To find a place, the same parts of the text
are replaced here, so that each place in the query has one in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb

from lakeconf.catalog.stored_queries import prepare_query
from lakeconf.catalog.table_references import Span, original_offset, replaced
from lakeconf.connection.closed import closed_connection
from lakeconf.connection.error_places import errors_as_json, reported
from lakeconf.errors import LakeconfError
from lakeconf.lake.lake import Lake
from lakeconf.sql import identifier

_EXPLAIN = "EXPLAIN "


def error_offset(
    lake: Lake, text: str, changes: Mapping[Span, str], frames: Mapping[str, Any], *, on_duckdb: bool
) -> int | None:
    """Returns the offset in the text at which DuckDB finds an error; None if it is unknown.

    Args:
        lake: A lake; if DuckDB runs the query, with the frames as views.
        text: The query.
        changes: The parts of the text that a run replaces.
        frames: The views that the query reads instead of tables, with their frames.
        on_duckdb: True if DuckDB runs the query, False if Spark does.
    """
    sql = replaced(text, changes)
    message = _message_in_lake(lake, sql, frames) if on_duckdb else _message_for_types(lake, sql, frames)
    error = None if message is None else reported(message)
    if error is None or error.position is None:
        return None
    found = len(f"{_EXPLAIN}{sql}".encode()[: error.position].decode(errors="ignore")) - len(_EXPLAIN)
    return text_offset(text, changes, found)


def text_offset(text: str, changes: Mapping[Span, str], offset: int) -> int | None:
    """Returns the offset in the text of an offset in the query that a run makes of it; None if it is outside.

    Args:
        text: The query.
        changes: The parts of the text that a run replaces.
        offset: The offset in the query with these changes.
    """
    found = original_offset(changes, offset)
    return found if 0 <= found <= len(text) else None


def _message_in_lake(lake: Lake, sql: str, frames: Iterable[str]) -> str | None:
    """The error of DuckDB as JSON, on the connection of the lake; None if there is none."""
    reader = lake._session.reader  # noqa: SLF001 - the place of an error is not part of a lake's interface
    try:
        prepare_query(reader, sql, frames=frames)
    except LakeconfError:
        return None
    with errors_as_json(reader.connection):
        try:
            reader.connection.execute(f"{_EXPLAIN}{sql}")
        except LakeconfError as error:
            return error.message
    return None


def _message_for_types(lake: Lake, sql: str, frames: Mapping[str, Any]) -> str | None:
    """The error of DuckDB as JSON for empty tables with the types of Spark's frames; None if there is none."""
    with closed_connection(errors_as_json=True) as connection:
        try:
            for name, frame in frames.items():
                columns = (f"{identifier(column)} {kind}" for column, kind in lake.columns_of(frame).items())
                connection.execute(f"CREATE TABLE {identifier(name)} ({', '.join(columns)})")
        except (duckdb.Error, LakeconfError):
            return None
        try:
            connection.execute(f"{_EXPLAIN}{sql}")
        except duckdb.Error as error:
            return str(error)
    return None
