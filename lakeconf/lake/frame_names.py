"""Runs queries over frames on DuckDB, which knows frames by the names of views.

A view exists as long as the connection, and a lazy result reads it when its rows are fetched. So each query gets views
with unique names: with the names that the user chose, a later query would change the rows of an earlier one, and tables
of the lake with these names would be hidden from later queries and from the lake's own views.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import narwhals as nw
import sqlglot
from sqlglot import exp

from lakeconf.catalog import quiet_parser
from lakeconf.catalog.table_references import named_as, replaced, span_of, table_references
from lakeconf.engines.base import Engine
from lakeconf.errors import LakeconfError, QueryError
from lakeconf.sql import folded

# Views with this prefix are unique already; see `unique_view`.
_PREFIX = "lakeconf_input_"


def unique_view() -> str:
    """A name that no other view has."""
    return f"{_PREFIX}{uuid.uuid4().hex}"


def query_on_duckdb(engine: Engine, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
    """Runs a query over frames; each frame gets a view with a unique name.

    Args:
        engine: The engine of the lake, which is DuckDB.
        sql: A query.
        frames: The frame of each table in the query, by name.

    Raises:
        QueryError: The names of tables in the query cannot be found, or DuckDB rejects the query.
    """
    if all(name.startswith(_PREFIX) for name in frames):
        return engine.query(sql, frames)
    views = {folded(name): unique_view() for name in frames}
    changed = _renamed(sql, views)
    given = {views[folded(name)]: frame for name, frame in frames.items()}
    with _names_of_the_user({view: name for name, view in views.items()}):
        return engine.query(changed, given)


def _renamed(sql: str, views: Mapping[str, str]) -> str:
    try:
        parsed = quiet_parser.parsed(sql)
    except sqlglot.errors.SqlglotError:
        raise QueryError(
            "the names of frames cannot be found in the query",
            hint="use other syntax, or write the frames to tables and use lake.sql(…)",
        ) from None
    tables = [table for tree in parsed if tree is not None for table in table_references(tree)]
    changes = {
        span_of(table): _read(views[folded(table.name)], table)
        for table in tables
        if isinstance(table.this, exp.Identifier) and not table.db and folded(table.name) in views
    }
    return replaced(sql, changes)


def _read(view: str, table: exp.Table) -> str:
    return view if isinstance(table.parent, exp.Describe | exp.Summarize) else named_as(view, table)


@contextlib.contextmanager
def _names_of_the_user(names: Mapping[str, str]) -> Iterator[None]:
    """Errors name the frames as the user does."""
    try:
        yield
    except LakeconfError as error:
        for view, name in names.items():
            error.message = error.message.replace(view, name)
        error.args = (error.message,)
        raise
