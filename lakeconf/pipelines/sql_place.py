"""Finds the place in the text of a model where DuckDB finds an error.

A run puts views in place of tables, and values in place of placeholders. To find a place, the same parts of the text
are replaced here, so that each place in the query has one in the text.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from lakeconf.catalog.stored_queries import prepare_query
from lakeconf.catalog.table_references import is_series, table_references
from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.sql_errors import reported_place
from lakeconf.sql import identifier

_EXPLAIN = "EXPLAIN "


@dataclass(frozen=True)
class Replacement:
    """A part of the text and the SQL in its place."""

    start: int
    end: int
    sql: str


def error_offset(
    lake: Lake, text: str, parsed: exp.Query, views: Mapping[str, str] | None, values: Mapping[str, str]
) -> int | None:
    """Returns the offset in the text at which DuckDB finds an error; None if it is unknown.

    Args:
        lake: A lake on DuckDB, with the views.
        text: The query.
        parsed: The parsed query.
        views: The view of each table in the query; None if it reads the tables themselves.
        values: The SQL of each placeholder.
    """
    replacements = _replacements(text, parsed, views, values)
    if replacements is None:
        return None
    sql = "".join(_replaced(text, replacements))
    reader = lake._session.reader  # noqa: SLF001 - the place of an error is not part of a lake's interface
    try:
        prepare_query(reader, sql, frames=(views or {}).values())
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
    return _original(found, replacements, len(text))


@contextlib.contextmanager
def _errors_as_json(connection: Connection) -> Iterator[None]:
    """Only JSON has the exact position of an error."""
    connection.execute("SET errors_as_json = true")
    try:
        yield
    finally:
        connection.execute("RESET errors_as_json")


def _replacements(
    text: str, parsed: exp.Query, views: Mapping[str, str] | None, values: Mapping[str, str]
) -> list[Replacement] | None:
    found = []
    for table in table_references(parsed):
        if views is None or is_series(table):
            continue
        found_places = [part.meta.get(side) for part in table.parts for side in ("start", "end")]
        places = [place for place in found_places if isinstance(place, int)]
        view = views.get(".".join(part.name for part in table.parts))
        if view is None or not places or len(places) < len(found_places):
            return None
        alias = "" if table.alias else f" AS {identifier(table.name)}"
        found.append(Replacement(places[0], places[-1] + 1, identifier(view) + alias))
    tokens = sqlglot.tokenize(text, dialect="duckdb")
    for sign, name in itertools.pairwise(tokens):
        if sign.token_type == sqlglot.TokenType.PARAMETER and name.text in values:
            found.append(Replacement(sign.start, name.end + 1, values[name.text]))
    return sorted(found, key=lambda one: one.start)


def _replaced(text: str, replacements: Iterable[Replacement]) -> Iterator[str]:
    at = 0
    for one in replacements:
        yield text[at : one.start]
        yield one.sql
        at = one.end
    yield text[at:]


def _original(offset: int, replacements: Iterable[Replacement], length: int) -> int | None:
    """The place in the text of a place in the text with the replacements."""
    moved = 0
    for one in replacements:
        start = one.start + moved
        if offset < start:
            break
        if offset < start + len(one.sql):
            return one.start
        moved += len(one.sql) - (one.end - one.start)
    return offset - moved if 0 <= offset - moved <= length else None
