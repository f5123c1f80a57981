"""Finds the place in the text of a model where DuckDB finds an error.

A run puts views in place of tables, and values in place of placeholders. To find a place, the same parts of the text
are replaced here, so that each place in the query has one in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakeconf.catalog.stored_queries import prepare_query
from lakeconf.catalog.table_references import Span, original_offset, replaced
from lakeconf.connection.error_places import errors_as_json, reported
from lakeconf.errors import LakeconfError
from lakeconf.lake.lake import Lake

_EXPLAIN = "EXPLAIN "


def error_offset(lake: Lake, text: str, changes: Mapping[Span, str], views: Iterable[str]) -> int | None:
    """Returns the offset in the text at which DuckDB finds an error; None if it is unknown.

    Args:
        lake: A lake with the views.
        text: The query.
        changes: The parts of the text that a run replaces.
        views: The views that the query reads instead of tables.
    """
    sql = replaced(text, changes)
    message = _message_in_lake(lake, sql, views)
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
