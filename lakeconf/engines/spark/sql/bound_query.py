"""Binds a query with DuckDB: resolves each name, and finds the type of each value.

sqlglot qualifies the names. DuckDB must then plan the qualified query exactly as the original one, so a mistake is an
error, and no query with another meaning is translated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from lakeconf.catalog.quiet_parser import parsed
from lakeconf.connection.closed import closed_connection
from lakeconf.engines.spark.sql.inferred_types import InferredTypes
from lakeconf.engines.spark.sql.logical_plan import logical_plan
from lakeconf.engines.spark.sql.parentheses import with_parentheses
from lakeconf.engines.spark.sql.shorthands import written_in_full
from lakeconf.engines.spark.sql.typed_tree import BASE, HINT, reason_of
from lakeconf.errors import QueryError, UnsupportedError
from lakeconf.sql import identifier, parser_reason


@dataclass(frozen=True)
class BoundQuery:
    """A query whose names are resolved; `type_of` returns the types of its values.

    Attributes:
        tree: The query: each column has the name of its table, and `*` is expanded.
        columns: The names and types of the columns of its result, as in DuckDB; names can be equal.
    """

    tree: exp.Query
    columns: Sequence[tuple[str, str]]


def bind(sql: str, tables: Mapping[str, Mapping[str, str]]) -> BoundQuery:
    """Binds a query.

    Args:
        sql: A query in DuckDB's SQL.
        tables: The columns of each table, with DuckDB's types.

    Raises:
        QueryError: DuckDB refuses the query.
        UnsupportedError: sqlglot does not understand it in the same way.
    """
    with closed_connection() as connection:
        try:
            for name, columns in tables.items():
                listed = ", ".join(f"{identifier(column)} {kind}" for column, kind in columns.items())
                connection.execute(f"CREATE TABLE {identifier(name)} ({listed})")
            plan, result = logical_plan(connection, sql), connection.sql(sql)
        except duckdb.Error as error:
            raise QueryError(f"DuckDB rejects the query: {error}".splitlines()[0], hint=reason_of(error)) from error
        tree = next(
            (
                found
                for found in _candidates(_qualified(sql, tables, len(getattr(result, "columns", ()))))
                if _has_plan(connection, found, plan)
            ),
            None,
        )
        if tree is None:
            raise UnsupportedError("the query cannot be translated for Spark: a part of it is unknown", hint=HINT)
        InferredTypes(connection).add(tree)
        returned = list(zip(result.columns, map(str, result.types), strict=True))
    return BoundQuery(tree, returned)


def base_tables(query: BoundQuery) -> list[exp.Table]:
    """The places in a bound query that name a table, and not a CTE."""
    return [table for table in query.tree.find_all(exp.Table) if table.meta.get(BASE)]


def _has_plan(connection: duckdb.DuckDBPyConnection, tree: exp.Query, plan: Any) -> bool:
    try:
        text = with_parentheses(tree).sql(dialect="duckdb", identify=True)
        return bool(logical_plan(connection, text) == plan)
    except duckdb.Error:
        return False


def _candidates(tree: exp.Query) -> Iterator[exp.Query]:
    """The query; and with the left or the right column of USING, of which sqlglot always takes the first value."""
    yield tree
    for number in (0, -1):
        changed = tree.copy()
        for value in list(changed.find_all(exp.Coalesce)):
            items = [value.this, *value.expressions]
            if all(isinstance(item, exp.Column) and item.name == items[0].name for item in items):
                value.replace(items[number])
        yield changed


def _qualified(sql: str, tables: Mapping[str, Mapping[str, str]], width: int) -> exp.Query:
    try:
        (tree,) = parsed(sql)
        for select in tree.find_all(exp.Select) if tree else ():
            _move_joins(select)
        if tree is not None:
            _order_by_all(tree, width)
            written_in_full(tree)
        quoted: dict[str, object] = {
            identifier(name): {identifier(column): type_ for column, type_ in columns.items()}
            for name, columns in tables.items()
        }
        found = qualify(tree, schema=quoted, dialect="duckdb", quote_identifiers=True) if tree else tree
    # sqlglot also raises ValueError, for some of DuckDB's syntax that it does not know.
    except (SqlglotError, ValueError, RecursionError) as error:
        raise UnsupportedError(
            f"the query cannot be translated for Spark: {parser_reason(error)}", hint=HINT
        ) from error
    if not isinstance(found, exp.Query):
        raise UnsupportedError("the query cannot be translated for Spark: it is not a SELECT", hint=HINT)
    return found


def _move_joins(select: exp.Select) -> None:
    """Moves the joins of `FROM a JOIN b`, without SELECT, to where they are in other queries."""
    source = select.args.get("from_")
    if source is not None and source.this.args.get("joins") and not select.args.get("joins"):
        select.set("joins", source.this.args.pop("joins"))


def _order_by_all(tree: exp.Expr, width: int) -> None:
    """Writes `ORDER BY ALL` of the outermost query as `ORDER BY 1, 2, …`."""
    order = tree.args.get("order")
    if not isinstance(tree, exp.Select) or order is None:
        return
    key = order.expressions[0]
    if len(order.expressions) == 1 and isinstance(key.this, exp.Var) and key.this.name.upper() == "ALL":
        keys = [key.copy() for _ in range(width)]
        for number, one in enumerate(keys, start=1):
            one.set("this", exp.Literal.number(number))
        order.set("expressions", keys)
