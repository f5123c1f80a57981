"""Finds the place in the text of a model where DuckDB finds an error.

A run puts views in place of tables, and values in place of placeholders. To find a place, the same parts of the text
are replaced here, so that each place in the query has one in the text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from lakeconf.catalog.stored_queries import prepare_query
from lakeconf.catalog.table_references import Span, original_offset, replaced
from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.sql_errors import reported_place

_EXPLAIN = "EXPLAIN "


def error_offset(lake: Lake, text: str, changes: Mapping[Span, str], frames: Iterable[str]) -> int | None:
    """Returns the offset in the text at which DuckDB finds an error; None if it is unknown.

    Args:
        lake: A lake on DuckDB, with the frames.
        text: The query.
        changes: The parts of the text that a run replaces.
        frames: The views that the query reads instead of tables.
    """
    sql = replaced(text, changes)
    reader = lake._session.reader  # noqa: SLF001 - the place of an error is not part of a lake's interface
    try:
        prepare_query(reader, sql, frames=frames)
    except LakeconfError:
        return None
    with _errors_as_json(reader.connection):
        try:
            reader.connection.execute(f"{_EXPLAIN}{sql}")
        except LakeconfError as error:
            place = reported_place(error.message)
        else:
            return None
    if place is None:
        return None
    found = len(f"{_EXPLAIN}{sql}".encode()[:place].decode(errors="ignore")) - len(_EXPLAIN)
    offset = original_offset(changes, found)
    return offset if 0 <= offset <= len(text) else None


@contextlib.contextmanager
def _errors_as_json(connection: Connection) -> Iterator[None]:
    """Only JSON has the exact position of an error."""
    connection.execute("SET errors_as_json = true")
    try:
        yield
    finally:
        connection.execute("RESET errors_as_json")
