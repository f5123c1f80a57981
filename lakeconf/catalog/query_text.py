"""Tables in the text of a query, found by sqlglot, and the text with other tables in their place."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import sqlglot
from sqlglot import Token, TokenType, exp

from lakeconf.sql import folded, identifier

_log = logging.getLogger("sqlglot")


def parsed(sql: str, dialect: str = "duckdb") -> list[exp.Expr | None]:
    """The statements of SQL."""
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


# Where a part of a text begins and ends.
Span = tuple[int, int]


def table_references(query: exp.Expr) -> list[exp.Table]:
    """The places in a query that name a table, and not a CTE that is visible there."""
    return [table for table in query.find_all(exp.Table) if table.db or not _is_cte(table)]


def _is_cte(table: exp.Table) -> bool:
    place: exp.Expr = table
    while place.parent is not None:
        inner, place = place, place.parent
        found = place.args.get("with_")
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
    is_recursive = isinstance(cte.parent, exp.With) and cte.parent.args.get("recursive")
    return bool(is_recursive) and isinstance(query, exp.Union) and _is_below(table, query.expression)


def _is_below(node: exp.Expr | None, root: exp.Expr) -> bool:
    while node is not None and node is not root:
        node = node.parent
    return node is root


def is_series(table: exp.Table) -> bool:
    """True for `range(…)` and `generate_series(…)`, which make rows and read nothing."""
    return isinstance(table.this, exp.GenerateSeries)


def point_to(table: exp.Table, view: str) -> None:
    """Makes a place name a view instead; its alias, its joins and its sample stay."""
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("this", exp.to_identifier(view, quoted=True))
    table.set("db", None)
    table.set("catalog", None)


def span_of(table: exp.Table) -> Span:
    """Where the name of a table is in the text of its query."""
    return int(table.parts[0].meta["start"]), int(table.parts[-1].meta["end"]) + 1


def named_as(view: str, table: exp.Table, quoted: Callable[[str], str] = identifier) -> str:
    """What to write in place of the name of a table to read a view, which columns can name like the table."""
    return view if table.alias else f"{view} AS {quoted(table.name)}"


def semicolons(tokens: Sequence[Token]) -> dict[Span, str]:
    """The changes that remove the semicolons of a single statement."""
    return {(token.start, token.end + 1): "" for token in tokens if token.token_type == TokenType.SEMICOLON}


def replaced(text: str, changes: Mapping[Span, str]) -> str:
    """A text with other parts. sqlglot writes a query in another way, and not always with the same meaning.

    Args:
        changes: The new text of each part.
    """
    made, last = [], 0
    for (start, end), part in sorted(changes.items()):
        made += [text[last:start], part]
        last = end
    return "".join([*made, text[last:]])


def original_offset(changes: Mapping[Span, str], offset: int) -> int:
    """The offset in a text of an offset in the text that `replaced` makes of it; the start of a replaced part."""
    shift = 0
    for (start, end), part in sorted(changes.items()):
        if offset < start + shift:
            break
        if offset < start + shift + len(part):
            return start
        shift += len(part) - (end - start)
    return offset - shift
