"""Finds the type of each value of a query with DuckDB."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from lakeconf.engines.spark.sql.typed_tree import (
    BASE,
    COLUMNS,
    HINT,
    TYPE,
    WRAPPERS,
    column_types,
    columns_of,
    is_branch,
    reason_of,
    set_type,
    type_of,
)
from lakeconf.engines.spark.sql.value_types import BIGINT, BOOLEAN, NULL
from lakeconf.errors import UnsupportedError

PREDICATES = (
    exp.And,
    exp.Or,
    exp.Not,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Between,
    exp.In,
    exp.Is,
    exp.Exists,
    exp.Like,
)
# Parts of values that are no values themselves.
_PARTS = (exp.Star, exp.Distinct, exp.Ordered, exp.Order, exp.WindowSpec, exp.DataType, exp.Identifier, exp.Var)


class InferredTypes:
    """Adds DuckDB's types to the values of a qualified query."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._tables: dict[str, dict[str, str]] = {}
        # DuckDB's own spelling of the types.
        found = connection.execute("SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal")
        for table, column, type_name in found.fetchall():
            self._tables.setdefault(table.lower(), {})[column.lower()] = type_name

    def add(self, tree: exp.Query) -> None:
        for scope in traverse_scope(tree):
            for _, source in scope.selected_sources.values():
                if isinstance(source, exp.Table):
                    source.meta[BASE] = True
            if isinstance(scope.expression, exp.SetOperation):
                self._add_union(scope.expression)
            elif isinstance(scope.expression, exp.Values):
                self._add_constants(scope.expression, scope)
            else:
                self._add_select(scope)

    def _add_union(self, query: exp.SetOperation) -> None:
        sides = [columns_of(side.unnest()) for side in (query.this, query.expression)]
        selects = [", ".join(f"CAST(NULL AS {type_})" for _, type_ in side) for side in sides]
        types = self._described(f"SELECT {selects[0]} UNION ALL SELECT {selects[1]}")
        query.meta[COLUMNS] = [(name, found) for (name, _), found in zip(sides[0], types, strict=True)]

    def _add_constants(self, values: exp.Values, scope: Scope) -> None:
        items = [item for row in values.expressions for item in row.expressions]
        if any(item.find(exp.Query, exp.Column) for item in items):
            raise UnsupportedError(
                "the query cannot be translated for Spark: VALUES with other values than constants", hint=HINT
            )
        self._add_types([node for item in items for node in item.walk() if _is_value(node)], scope)
        types = self._described(f"FROM ({exp.Values(expressions=values.copy().expressions).sql(dialect='duckdb')})")
        names = [column.name for column in values.args["alias"].columns] if values.args.get("alias") else []
        if len(names) != len(types):
            raise UnsupportedError(
                "the query cannot be translated for Spark: VALUES without names of columns", hint=HINT
            )
        values.meta[COLUMNS] = list(zip(names, types, strict=True))

    def _add_select(self, scope: Scope) -> None:
        query = scope.expression
        if not isinstance(query, exp.Select):
            raise UnsupportedError(f"the query cannot be translated for Spark: {query.key}", hint=HINT)
        values = [node for node in scope.walk() if _is_value(node)]
        ordered = {id(node) for node in query.args["order"].walk()} if query.args.get("order") else set()
        self._add_types([node for node in values if id(node) not in ordered], scope)
        query.meta[COLUMNS] = [(item.alias_or_name, type_of(item.unalias()).name) for item in query.expressions]
        self._add_types([node for node in values if TYPE not in node.meta], scope)

    def _add_types(self, values: list[exp.Expr], scope: Scope) -> None:
        unknown = []
        for node in values:
            known = self._known_type(node, scope)
            if known is not None:
                set_type(node, known)
            # A function before OVER or FILTER may not be valid without it.
            elif not isinstance(node.parent, WRAPPERS) or node.arg_key != "this":
                unknown.append(node)
        if unknown:
            examples = _Examples()
            listed = ", ".join(node.transform(examples.replaced).sql(dialect="duckdb") for node in unknown)
            types = self._described(f"SELECT {listed} {examples.source()}")
            if len(types) != len(unknown):
                raise UnsupportedError(
                    "the query cannot be translated for Spark: a value becomes several columns", hint=HINT
                )
            for node, found in zip(unknown, types, strict=True):
                set_type(node, found)
                inner = node
                while isinstance(inner, WRAPPERS):
                    inner = set_type(inner.this, found)

    def _described(self, sql: str) -> list[str]:
        try:
            return [str(row[1]) for row in self._connection.execute(f"DESCRIBE {sql}").fetchall()]
        except duckdb.Error as error:
            raise UnsupportedError(
                f"the query cannot be translated for Spark: the type of a part is unknown: {reason_of(error)}",
                hint=HINT,
            ) from error

    def _known_type(self, node: exp.Expr, scope: Scope) -> str | None:
        if isinstance(node, exp.Column):
            return self._column_type(node, scope)
        if isinstance(node, PREDICATES):
            return BOOLEAN
        if isinstance(node, exp.Grouping):
            return BIGINT
        if isinstance(node, exp.Null):
            return NULL
        if isinstance(node, exp.Subquery):
            return column_types(node.unnest())[0]
        return None

    def _column_type(self, column: exp.Column, scope: Scope | None) -> str:
        name, table = column.name, column.table
        while scope:
            columns = self._columns_in(scope, table)
            if columns is not None and name in columns:
                return columns[name]
            scope = scope.parent
        raise UnsupportedError(f"the query cannot be translated for Spark: the column {name!r} is not clear", hint=HINT)

    def _columns_in(self, scope: Scope, table: str) -> Mapping[str, str] | None:
        if not table:
            # An ORDER BY refers to the columns of its own query by their aliases.
            return dict(scope.expression.meta.get(COLUMNS, ()))
        _, source = scope.selected_sources.get(table, (None, None))
        if isinstance(source, exp.Table):
            return self._tables.get(source.name)
        return dict(columns_of(source.expression)) if source is not None else None


def _is_value(node: exp.Expr) -> bool:
    if isinstance(node, exp.Subquery):
        return not isinstance(node.parent, exp.From | exp.Join | exp.In | exp.Exists | exp.SetOperation | exp.Subquery)
    if isinstance(node, _PARTS) or is_branch(node):
        return False
    return isinstance(node, exp.Condition | exp.Filter | exp.Interval)


class _Examples:
    """A source with a column for each type, with which DuckDB finds the types of other values.

    Constants would not do: DuckDB computes with them, and NULL has a type of its own.
    """

    def __init__(self) -> None:
        self._types: dict[str, str] = {}

    def replaced(self, part: exp.Expr) -> exp.Expr:
        """Replaces columns, subqueries and what is only valid in its own query by the column of their type."""
        known = isinstance(part, exp.Column | exp.Subquery | exp.Grouping | exp.Exists | exp.In)
        if not known or TYPE not in part.meta:
            return part
        return exp.column(self._types.setdefault(part.meta[TYPE], f"c{len(self._types)}"))

    def source(self) -> str:
        """The source; each of its columns can be used inside and outside of aggregates."""
        if not self._types:
            return ""
        columns = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for type_, name in self._types.items())
        return f"FROM (SELECT {columns}) GROUP BY {', '.join(self._types.values())}"
