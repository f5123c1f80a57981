"""Queries in Spark's SQL, and the tables that SQL names, found by sqlglot, which an extra installs."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import narwhals as nw
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import by_timestamp, by_version
from lakeconf.catalog.sql_references import Span, replaced
from lakeconf.catalog.tables import joined_name
from lakeconf.commit.scope import Scope
from lakeconf.engines.engine import spark_operations
from lakeconf.errors import QueryError, TableNotFoundError, UnsupportedError
from lakeconf.lake.table import Table
from lakeconf.sql import folded, parser_reason

_log = logging.getLogger("sqlglot")
# A snapshot that follows the name of a table.
_AS_OF = re.compile(
    r"\s+(?:FOR\s+)?(?:SYSTEM_)?(VERSION|TIMESTAMP|TIME)\s+AS\s+OF\s+(?:'([^']*)'|(\w+)(?![\w(.]))", re.IGNORECASE
)
_HINT = "run it with spark.sql, and name only tables of this lake"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drops what sqlglot logs in this thread: the application may use sqlglot in others."""
    thread = threading.get_ident()

    def of_another_thread(record: logging.LogRecord) -> bool:  # noqa: ARG001 - the interface of a filter
        return threading.get_ident() != thread

    _log.addFilter(of_another_thread)
    try:
        yield
    finally:
        _log.removeFilter(of_another_thread)


def parsed(text: str, dialect: str) -> exp.Query:
    """The query in a text."""
    try:
        with quiet():
            trees = sqlglot.parse(text, dialect=dialect)
    except (SqlglotError, ValueError, RecursionError) as error:
        raise QueryError(f"the query cannot be parsed: {parser_reason(error)}", hint=_HINT) from error
    # A comment behind the semicolon is a statement for sqlglot.
    found = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise QueryError("the text is not a single query", hint="write SELECT … FROM …")
    return found[0]


def table_references(query: exp.Query) -> list[exp.Table]:
    """The places in a query that name a table, and not a CTE that is visible there, nor a table function."""
    named = (table for table in query.find_all(exp.Table) if isinstance(table.this, exp.Identifier))
    return [table for table in named if table.db or not _is_cte(table)]


def _is_cte(table: exp.Table) -> bool:
    place: Any = table
    while place.parent is not None:
        inner, place = place, place.parent
        # The key has another name since sqlglot 28.
        found = place.args.get("with_") or place.args.get("with")
        visible = [] if found is None or inner is found else found.expressions
        if isinstance(place, exp.With):
            visible = place.expressions[: inner.index] if isinstance(inner.index, int) else []
        elif isinstance(place, exp.CTE) and _is_step(table, place):
            visible = [place]
        if folded(table.name) in {folded(cte.alias) for cte in visible}:
            return True
    return False


def _is_step(table: exp.Table, cte: exp.CTE) -> bool:
    """True in the second query of a recursive CTE, which reads the CTE itself."""
    query = cte.this.unnest()
    if not (isinstance(cte.parent, exp.With) and cte.parent.args.get("recursive") and isinstance(query, exp.Union)):
        return False
    place: Any = table
    while place is not None and place is not query.expression:
        place = place.parent
    return place is not None


class _Place(NamedTuple):
    """A table of the lake in the text of a query."""

    table: exp.Table  # the place in the tree of the query
    name: str  # the name, as `Lake.table` accepts it
    scope: Scope  # the lake, at the snapshot at which the query reads the table
    span: Span  # where the name is in the text, with the snapshot


@dataclass(frozen=True)
class SparkText:
    """A query in Spark's SQL over a lake."""

    text: str  # the query
    scope: Scope  # the lake, at the snapshot of the query

    def places(self) -> list[_Place]:
        """The places that name a table which may be one of the lake, in the order of the text."""
        query = parsed(self.text, "spark")
        tables = table_references(query)
        if any("start" not in part.meta for table in tables for part in table.parts):
            raise UnsupportedError("the query cannot be read: the place of a table is unknown", hint=_HINT)
        _check_columns(query, tables)
        return sorted(map(self._place, tables), key=attrgetter("span"))

    def _place(self, table: exp.Table) -> _Place:
        alias = self.scope.session.alias
        if table.catalog and folded(table.catalog) != folded(alias):
            raise UnsupportedError(f"the query names another database, {table.catalog!r}", hint=_HINT)
        name = joined_name(table.db or "main", table.name)
        start, end = int(table.parts[0].meta["start"]), int(table.parts[-1].meta["end"]) + 1
        version = table.args.get("version")
        if not version:
            return _Place(table, name, self.scope, (start, end))
        written = _AS_OF.match(self.text, end) if isinstance(version.expression, exp.Literal) else None
        at = None if written is None else snapshot_at(self.scope.session.reader, written[1], written[2] or written[3])
        if written is None or at is None:
            hint = "write VERSION AS OF 3, or TIMESTAMP AS OF '2024-05-17 10:00:00+00:00'"
            raise UnsupportedError(f"the snapshot at which the query reads {name!r} is not a constant", hint=hint)
        return _Place(table, name, replace(self.scope, at=at, transaction=None), (start, written.end()))


def _check_columns(query: exp.Query, tables: Sequence[exp.Table]) -> None:
    """Refuses `raw.orders.id`: a view takes the place of the table, and has no schema."""
    schemas = {(folded(table.db), folded(table.name)) for table in tables if table.db and not table.alias}
    others = {folded(table.alias) for table in query.find_all(exp.Table) if table.alias}
    for column in query.find_all(exp.Column):
        # A column with fields, as in `alias.column.field`, has the same form.
        if (folded(column.db), folded(column.table)) in schemas and folded(column.db) not in others:
            named = ".".join(part.name for part in column.parts)
            hint = f"give the table an alias: FROM … AS t, and write t.{column.name}"
            raise QueryError(f"the column {named} is named with the schema of its table", hint=hint)


def snapshot_at(reader: CatalogReader, kind: str, value: str) -> int | None:
    """The snapshot that a query names; None if this is not the number of a snapshot or a time with an offset."""
    if kind.upper() == "VERSION":
        return by_version(reader, int(value)).snapshot_id if value.isdecimal() else None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return by_timestamp(reader, time).snapshot_id if time.tzinfo is not None else None


def query_in_spark_sql(scope: Scope, query: str) -> nw.LazyFrame[Any]:
    """Runs a query in Spark's SQL, with the settings of the lake's session, at the snapshot of the lake."""
    session = scope.session
    engine = spark_operations(session.engine, "lake.sql(…, dialect='spark')")
    text = SparkText(query, replace(scope, at=scope.snapshot_id))
    frames: dict[str, Any] = {}
    changes: dict[Span, str] = {}
    for place in text.places():
        try:
            frame = Table(place.scope, place.name).scan()
        except TableNotFoundError:
            if place.table.db:
                raise
            continue
        view = f"lakeconf_table_{uuid.uuid4().hex}"
        frames[view] = frame
        changes[place.span] = view if place.table.alias else f"{view} AS {_quoted(place.table.name)}"
    return engine.run_sql(replaced(query, changes).rstrip().rstrip(";"), frames)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
