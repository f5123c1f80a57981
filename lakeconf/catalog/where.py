"""Reads the `where` of a scan, a delete or an overwrite."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import duckdb
import narwhals as nw
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakeconf.catalog.expression import (
    NotUnderstoodError,
    condition_of,
    conjuncts,
    is_condition_of,
    typed,
    without_columns,
)
from lakeconf.catalog.literals import (
    GRAMMAR,
    Text,
    between,
    compare,
    constant,
    one_of,
    only,
    refusal,
    shown,
    truth,
    without_parentheses,
)
from lakeconf.catalog.predicates import (
    And,
    Comparison,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    certainly,
    literal_type,
)
from lakeconf.catalog.sql_references import parsed
from lakeconf.catalog.table import Column
from lakeconf.catalog.types import all_types, sql_type
from lakeconf.connection.duckdb_facts import untested
from lakeconf.errors import LakeconfError, PredicateError, SchemaError, suggestion
from lakeconf.sql import folded, identifier, parser_reason

Where: TypeAlias = "str | nw.Expr"


def predicate_of(where: Where | Predicate, columns: Sequence[Column]) -> Predicate:
    """Returns a predicate unchanged, and parses a condition.

    Args:
        where: SQL in DuckDB's dialect, an expression of narwhals, or a predicate.
    """
    if isinstance(where, Predicate):
        return where
    return parse(where, columns)


# What narwhals and DuckDB raise while narwhals converts an expression.
ERRORS = (nw.exceptions.NarwhalsError, duckdb.Error, NotImplementedError, ValueError, TypeError)


_COLUMN = re.compile(r'column "((?:[^"]|"")+)"', re.IGNORECASE)


def problem(error: BaseException, columns: Iterable[str], otherwise: str) -> tuple[str, str]:
    """What is wrong with an expression, and a hint.

    Args:
        error: One of `ERRORS`, or an error of Spark.
        columns: The columns that an expression can use.
        otherwise: The hint if no column is unknown.
    """
    known = list(columns)
    if isinstance(error, nw.exceptions.ColumnNotFoundError):
        # Only the error of DuckDB, which narwhals replaces, has the name.
        found = _COLUMN.search(str(error.__cause__ or error.__context__ or ""))
        name = found[1].replace('""', '"') if found else ""
        named = f": {name!r}" if found else ""
        return f"the expression uses an unknown column{named}", suggestion(
            name, known, f"use one of the columns: {', '.join(known)}"
        )
    by_narwhals = isinstance(error, ERRORS)
    failed = "narwhals cannot convert the expression to SQL" if by_narwhals else "Spark cannot compute the expression"
    # narwhals adds hints of its own, and Spark its plan.
    return f"{failed}: {str(error).strip().splitlines()[0]}", otherwise


def _all_errors() -> tuple[type[Exception], ...]:
    """`ERRORS`, and the base of the errors of a Spark session if there can be one."""
    errors = sys.modules.get("pyspark.errors")
    return ERRORS if errors is None else (*ERRORS, errors.PySparkException)


@contextlib.contextmanager
def named_columns(columns: Iterable[str]) -> Iterator[None]:
    """Translates the errors of narwhals and Spark for values and conditions of an update or a merge.

    Args:
        columns: The columns that an expression can use.
    """
    try:
        yield
    except LakeconfError:
        raise
    except _all_errors() as error:
        message, hint = problem(error, columns, "use other operations, or write the change as SQL: lake.execute(…)")
        raise SchemaError(message, hint=hint) from error


_OPERATORS: dict[type[exp.Expr], tuple[Operator, Operator]] = {
    # Each operator as written, and with its operands swapped.
    exp.EQ: ("=", "="),
    exp.NEQ: ("!=", "!="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}


def parse(where: str | nw.Expr, columns: Sequence[Column]) -> Predicate:
    """Parses a condition on a table: any boolean expression over its columns.

    Args:
        where: SQL in DuckDB's dialect, or a narwhals expression, which narwhals converts to SQL.
        columns: The table's top-level columns; their names are compared case-insensitively.

    Returns:
        The predicate. What planning does not understand is one `Expression`; see `nodes.split`.
    """
    if not isinstance(where, (str, nw.Expr)):
        raise _not_a_condition(where)
    text = where if isinstance(where, str) else _sql_of(where, columns)
    try:
        return parse_understood(text, columns)
    except NotUnderstoodError as error:
        if untested(duckdb.__version__) is not None:
            # `session_values` reads plans, which are those of the tested version.
            raise PredicateError(f"{error.message}; with DuckDB 1.5, it would", hint=GRAMMAR) from error
        return _with_expression(conjuncts(text), columns)


def _with_expression(conditions: Sequence[str], columns: Sequence[Column]) -> Predicate:
    understood, others = [], []
    for condition in conditions:
        try:
            understood.append(parse_understood(condition, columns))
        except NotUnderstoodError:
            others.append(condition)
    if not others:
        return And(tuple(understood))
    expression = typed(others, columns)
    return And((*understood, expression)) if understood else expression


def _not_a_condition(where: object) -> PredicateError:
    if isinstance(where, bool):
        return without_columns(str(where))
    return PredicateError(f"{where!r} is not a condition", hint="write a text in SQL, or an expression of narwhals")


def parse_understood(text: str, columns: Sequence[Column]) -> Predicate:
    """Parses a condition that planning understands completely."""
    try:
        statements = parsed(text)
        if len(statements) != 1 or statements[0] is None:
            raise PredicateError(f"{text!r} is not a single condition", hint=GRAMMAR)
        return _Reader(columns).predicate(_without_schemas(statements[0]))
    except SqlglotError as error:
        raise PredicateError(f"{text!r} is not valid SQL: {parser_reason(error)}", hint=GRAMMAR) from error
    except RecursionError as error:
        raise PredicateError("the condition is nested too deeply", hint="use IN instead of many ORs") from error


def _sql_of(where: nw.Expr, columns: Sequence[Column]) -> str:
    """Converts a narwhals expression to SQL by filtering a DuckDB relation with these columns."""
    listed = ", ".join(f"CAST(NULL AS {_shown_type(column)}) AS {identifier(column.name)}" for column in columns)
    with duckdb.connect() as connection:
        relation = connection.sql(f"SELECT {listed}")
        try:
            sql = nw.from_native(relation).filter(where).to_native().sql_query()
        except ERRORS as error:
            message, hint = problem(error, [column.name for column in columns], GRAMMAR)
            raise PredicateError(message, hint=hint) from error
    condition = sqlglot.parse_one(sql, dialect="duckdb").args.get("where")
    if condition is None:
        raise PredicateError("narwhals cannot convert the expression to a condition", hint="write it as SQL")
    text = str(_without_schemas(condition).this.sql(dialect="duckdb"))
    if is_condition_of(text, sql):
        return text
    # sqlglot writes some operators and functions differently.
    written = condition_of(sql)
    if written is None:
        raise PredicateError("narwhals cannot convert the expression to a condition", hint="write it as SQL")
    return written


def _without_schemas(tree: exp.Expr) -> exp.Expr:
    """DuckDB writes lists with the schema of the function: `main.list_value(1, 2)`."""
    for call in list(tree.find_all(exp.Dot)):
        if call.this.name == "main" and call.expression.name.lower() == "list_value":
            call.replace(exp.Array(expressions=call.expression.expressions))
    return tree


def _shown_type(column: Column) -> str:
    """The type of a column for narwhals; columns without a type that it knows can only be tested for NULL."""
    known = all(kind in ("struct", "list", "map") or literal_type(kind) for kind in all_types(column))
    return sql_type(column) if known else "VARCHAR"


class _Reader:
    def __init__(self, columns: Iterable[Column]) -> None:
        self._columns = {folded(column.name): column for column in columns}

    def predicate(self, node: exp.Expr) -> Predicate:
        """Converts a boolean expression to a predicate."""
        node = without_parentheses(node)
        if isinstance(node, exp.And | exp.Or):
            operands = tuple(self.predicate(operand) for operand in node.flatten())
            return And(operands) if isinstance(node, exp.And) else Or(operands)
        if isinstance(node, exp.Column):
            return truth(self._column(node))
        if type(node) in _OPERATORS:
            return self._comparison(node)
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise refusal(node)
        return handler(self, node)

    def _comparison(self, node: exp.Expr) -> Predicate:
        only(node, "this", "expression")
        as_written, exchanged = _OPERATORS[type(node)]
        left, right = without_parentheses(node.this), without_parentheses(node.expression)
        if isinstance(left, exp.Column):
            return compare(self._column(left), as_written, constant(right))
        if isinstance(right, exp.Column):
            return compare(self._column(right), exchanged, constant(left))
        raise refusal(node)

    def negation(self, node: exp.Expr) -> Predicate:
        return Not(self.predicate(node.this))

    def is_value(self, node: exp.Expr) -> Predicate:
        only(node, "this", "expression")
        if isinstance(node.expression, exp.Null):
            return IsNull(self._column(node.this))
        if not isinstance(node.expression, exp.Boolean):
            raise refusal(node)
        try:
            return certainly(self.predicate(node.this), value=bool(node.expression.this))
        except PredicateError as error:
            raise refusal(node) from error  # DuckDB casts values of other types to BOOLEAN

    def is_nan(self, node: exp.Expr) -> Predicate:
        return compare(self._column(node.this), "=", float("nan"))

    def is_in(self, node: exp.Expr) -> Predicate:
        only(node, "this", "expressions")
        return self._one_of(node, node.this, node.expressions)

    def contains(self, node: exp.Expr) -> Predicate:
        only(node, "this", "expression")
        if not isinstance(node.this, exp.Array):
            raise refusal(node)
        return self._one_of(node, node.expression, node.this.expressions)

    def _one_of(self, node: exp.Expr, column: exp.Expr, literals: list[exp.Expr]) -> Predicate:
        if not literals:
            raise PredicateError(f"the list in {shown(node)} is empty", hint="add a value, or omit the condition")
        return one_of(self._column(column), [constant(literal) for literal in literals])

    def between(self, node: exp.Expr) -> Predicate:
        only(node, "this", "low", "high")
        return between(self._column(node.this), constant(node.args["low"]), constant(node.args["high"]))

    def like(self, node: exp.Expr) -> Predicate:
        escape = ""
        if isinstance(node, exp.Escape):
            escape = node.expression.name
            node = node.this
        only(node, "this", "expression", "negate")
        if not isinstance(node, exp.Like):
            raise refusal(node)
        column, pattern = self._column(node.this), constant(node.expression)
        if not isinstance(pattern, Text) or column.type != "varchar":
            raise refusal(node)
        text, is_prefix = _read_pattern(pattern.value, escape, node)
        found = StartsWith(column, text) if is_prefix else Comparison(column, "=", text)
        return Not(found) if node.args.get("negate") else found

    def starts_with(self, node: exp.Expr) -> Predicate:
        only(node, "this", "expression")
        column, prefix = self._column(node.this), constant(node.expression)
        if not isinstance(prefix, Text) or column.type != "varchar":
            raise refusal(node)
        return StartsWith(column, prefix.value)

    def _column(self, node: exp.Expr) -> Column:
        node = without_parentheses(node)
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            raise refusal(node)
        if node.table:
            raise NotUnderstoodError(
                f"{shown(node)}: a `where` does not support nested fields or table names",
                hint="write only the name of a column, or filter after the scan",
            )
        column = self._columns.get(folded(node.name))
        if column is None:
            known = [column.name for column in self._columns.values()]
            hint = suggestion(node.name, known, f"use one of its columns: {', '.join(known)}")
            raise PredicateError(f"the table has no column {node.name!r}", hint=hint)
        return column


_HANDLERS: dict[type[exp.Expr], Callable[[_Reader, exp.Expr], Predicate]] = {
    exp.Not: _Reader.negation,
    exp.Is: _Reader.is_value,
    exp.IsNan: _Reader.is_nan,
    exp.In: _Reader.is_in,
    exp.Contains: _Reader.contains,
    exp.Between: _Reader.between,
    exp.Like: _Reader.like,
    exp.Escape: _Reader.like,
    exp.StartsWith: _Reader.starts_with,
}


def _read_pattern(pattern: str, escape: str, node: exp.Expr) -> tuple[str, bool]:
    """Returns the prefix of a LIKE pattern, and True if any text may follow it."""
    text, rest = "", pattern.rstrip("%") if not escape else pattern
    characters = iter(rest)
    for character in characters:
        if escape and character == escape:
            text += next(characters, "")
        elif character == "%" and not "".join(characters).strip("%"):
            return text, True
        elif character in "%_":
            raise NotUnderstoodError(f"{shown(node)}: LIKE only supports a prefix", hint="write LIKE 'prefix%'")
        else:
            text += character
    return text, rest != pattern
