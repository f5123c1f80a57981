"""Parses a `where`, given as SQL or as a narwhals expression, into a predicate; rejects unsupported syntax."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

import duckdb
import narwhals as nw
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakeconf.catalog.predicate.datetimes import parse_date, parse_timestamp
from lakeconf.catalog.predicate.literals import Raw, Text, between, compare, one_of
from lakeconf.catalog.predicate.nodes import (
    And,
    Comparison,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    literal_type,
)
from lakeconf.catalog.table import Column
from lakeconf.errors import PredicateError, suggestion
from lakeconf.sql import folded, identifier

Where: TypeAlias = "str | nw.Expr"

_GRAMMAR = "use columns, literals, =, !=, <, <=, >, >=, AND, OR, NOT, IN, BETWEEN, IS NULL and LIKE 'prefix%'"
_OPERATORS: dict[type[exp.Expr], tuple[Operator, Operator]] = {
    # Each operator as written, and with its operands swapped.
    exp.EQ: ("=", "="),
    exp.NEQ: ("!=", "!="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}


def parse(where: Where, columns: Sequence[Column]) -> Predicate:
    """Parses a condition on a table.

    Args:
        where: SQL in DuckDB's dialect, or a narwhals expression, which narwhals converts to SQL.
        columns: The table's top-level columns; their names are compared case-insensitively.

    Raises:
        PredicateError: The syntax is not supported, a column is unknown, or a literal does not fit its column. The hint
            says what to write.
    """
    text = where if isinstance(where, str) else _sql_of(where, columns)
    try:
        statements = sqlglot.parse(text, dialect="duckdb")
        if len(statements) != 1 or statements[0] is None:
            raise PredicateError(f"{text!r} is not a single condition", hint=_GRAMMAR)
        root = statements[0]
        if isinstance(root, exp.Select) and not isinstance(where, str):
            root = root.args["where"].this
        return _Reader(columns).predicate(root)
    except SqlglotError as error:
        # Remove sqlglot's terminal escape sequences.
        reason = re.sub("\x1b\\[[0-9;]*m", "", str(error)).splitlines()[0]
        raise PredicateError(f"{text!r} is not valid SQL: {reason}", hint=_GRAMMAR) from error
    except RecursionError as error:
        raise PredicateError("the condition is nested too deeply", hint="use IN instead of many ORs") from error


def _sql_of(where: nw.Expr, columns: Sequence[Column]) -> str:
    """Converts a narwhals expression to SQL by filtering a DuckDB relation with these columns."""
    # A nested column can only be tested for NULL, so any type works.
    typed = ", ".join(f"CAST(NULL AS {literal_type(c.type) or 'VARCHAR'}) AS {identifier(c.name)}" for c in columns)
    with duckdb.connect() as connection:
        relation = connection.sql(f"SELECT {typed}")
        try:
            return nw.from_native(relation).filter(where).to_native().sql_query()
        except (nw.exceptions.NarwhalsError, duckdb.Error, NotImplementedError) as error:
            raise PredicateError(f"narwhals cannot convert the expression to SQL: {error}", hint=_GRAMMAR) from error


class _Reader:
    def __init__(self, columns: Iterable[Column]) -> None:
        self._columns = {folded(column.name): column for column in columns}

    def predicate(self, node: exp.Expr) -> Predicate:
        """Converts a boolean expression to a predicate."""
        node = _without_parentheses(node)
        if isinstance(node, exp.And | exp.Or):
            operands = tuple(self.predicate(operand) for operand in node.flatten())
            return And(operands) if isinstance(node, exp.And) else Or(operands)
        if isinstance(node, exp.Column):
            return compare(self._column(node), "=", True)  # noqa: FBT003
        if type(node) in _OPERATORS:
            return self._comparison(node)
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise _refusal(node)
        return handler(self, node)

    def _comparison(self, node: exp.Expr) -> Predicate:
        _only(node, "this", "expression")
        as_written, exchanged = _OPERATORS[type(node)]
        left, right = _without_parentheses(node.this), _without_parentheses(node.expression)
        if isinstance(left, exp.Column):
            return compare(self._column(left), as_written, _literal(right))
        if isinstance(right, exp.Column):
            return compare(self._column(right), exchanged, _literal(left))
        raise _refusal(node)

    def negation(self, node: exp.Expr) -> Predicate:
        return Not(self.predicate(node.this))

    def is_null(self, node: exp.Expr) -> Predicate:
        _only(node, "this", "expression")
        if not isinstance(node.expression, exp.Null):
            raise _refusal(node)
        return IsNull(self._column(node.this))

    def is_nan(self, node: exp.Expr) -> Predicate:
        return compare(self._column(node.this), "=", float("nan"))

    def is_in(self, node: exp.Expr) -> Predicate:
        _only(node, "this", "expressions")
        return self._one_of(node, node.this, node.expressions)

    def contains(self, node: exp.Expr) -> Predicate:
        _only(node, "this", "expression")
        if not isinstance(node.this, exp.Array):
            raise _refusal(node)
        return self._one_of(node, node.expression, node.this.expressions)

    def _one_of(self, node: exp.Expr, column: exp.Expr, literals: list[exp.Expr]) -> Predicate:
        if not literals:
            raise PredicateError(f"the list in {_shown(node)} is empty")
        return one_of(self._column(column), [_literal(literal) for literal in literals])

    def between(self, node: exp.Expr) -> Predicate:
        _only(node, "this", "low", "high")
        return between(self._column(node.this), _literal(node.args["low"]), _literal(node.args["high"]))

    def like(self, node: exp.Expr) -> Predicate:
        escape = ""
        if isinstance(node, exp.Escape):
            escape = node.expression.name
            node = node.this
        _only(node, "this", "expression", "negate")
        if not isinstance(node, exp.Like):
            raise _refusal(node)
        column, pattern = self._column(node.this), _literal(node.expression)
        if not isinstance(pattern, Text) or column.type != "varchar":
            raise _refusal(node)
        text, is_prefix = _read_pattern(pattern.value, escape, node)
        found = StartsWith(column, text) if is_prefix else Comparison(column, "=", text)
        return Not(found) if node.args.get("negate") else found

    def starts_with(self, node: exp.Expr) -> Predicate:
        _only(node, "this", "expression")
        column, prefix = self._column(node.this), _literal(node.expression)
        if not isinstance(prefix, Text) or column.type != "varchar":
            raise _refusal(node)
        return StartsWith(column, prefix.value)

    def _column(self, node: exp.Expr) -> Column:
        node = _without_parentheses(node)
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            raise _refusal(node)
        if node.table:
            raise PredicateError(
                f"{_shown(node)}: a `where` does not support nested fields or table names",
                hint="write only the name of a column, or filter after the scan",
            )
        column = self._columns.get(folded(node.name))
        if column is None:
            known = [column.name for column in self._columns.values()]
            hint = suggestion(node.name, known, f"its columns: {', '.join(known)}")
            raise PredicateError(f"the table has no column {node.name!r}", hint=hint)
        return column


_HANDLERS: dict[type[exp.Expr], Callable[[_Reader, exp.Expr], Predicate]] = {
    exp.Not: _Reader.negation,
    exp.Is: _Reader.is_null,
    exp.IsNan: _Reader.is_nan,
    exp.In: _Reader.is_in,
    exp.Contains: _Reader.contains,
    exp.Between: _Reader.between,
    exp.Like: _Reader.like,
    exp.Escape: _Reader.like,
    exp.StartsWith: _Reader.starts_with,
}


def _literal(node: exp.Expr) -> Raw:
    node = _without_parentheses(node)
    if isinstance(node, exp.Null):
        raise PredicateError("a comparison with NULL is never true", hint="write IS NULL or IS NOT NULL")
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return Text(str(node.this)) if node.is_string else _number(str(node.this))
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(f"-{node.this.this}")
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        return _cast(node, _literal(node.this))
    raise _refusal(node)


def _number(text: str) -> Raw:
    """Types a number as DuckDB does: DOUBLE with an exponent, else an integer or a decimal."""
    return float(text) if "e" in text.lower() else Decimal(text)


def _cast(node: exp.Cast, raw: Raw) -> Raw:
    _only(node, "this", "to")
    if node.to.this == exp.DType.DECIMAL and isinstance(raw, Text):
        return _decimal(node, raw.value)
    read = _CASTS.get(node.to.this)
    if read is None or not isinstance(raw, Text):
        raise _refusal(node)
    value = read(raw.value)
    if isinstance(value, datetime) and (value.tzinfo is not None) != (node.to.this == exp.DType.TIMESTAMPTZ):
        # Otherwise the meaning would depend on the session's time zone.
        raise PredicateError(
            f"{_shown(node)}: a TIMESTAMPTZ needs an offset, such as +00; a TIMESTAMP must not have one"
        )
    return value


def _decimal(node: exp.Cast, text: str) -> Decimal:
    """Reads a constant of the type DECIMAL(precision, scale), as DuckDB 2.0 writes one; DuckDB would round others."""
    sizes = [int(size.name) for size in node.to.expressions]
    if len(sizes) != 2 or not re.fullmatch(r"-?\d+(\.\d+)?", text):
        raise _refusal(node)
    precision, scale = sizes
    whole, _, fraction = text.removeprefix("-").partition(".")
    if len(fraction) > scale or len(whole.lstrip("0")) > precision - scale:
        raise _refusal(node)
    return Decimal(text)


def _blob(text: str) -> bytes:
    if not re.fullmatch(r"(\\x[0-9A-Fa-f]{2}|[\x20-\x5b\x5d-\x7e])*", text):
        raise PredicateError(f"{text!r} is not a BLOB", hint=r"write each byte as \xAA")
    return re.sub(rb"\\x(..)", lambda found: bytes.fromhex(found[1].decode()), text.encode())


def _double(text: str) -> Raw:
    try:
        return float(text)
    except ValueError as error:
        raise PredicateError(f"{text!r} is not a number") from error


_CASTS: dict[exp.DType, Callable[[str], Raw]] = {
    exp.DType.DATE: parse_date,
    exp.DType.TIMESTAMP: parse_timestamp,
    exp.DType.TIMESTAMPNTZ: parse_timestamp,
    exp.DType.TIMESTAMPTZ: parse_timestamp,
    exp.DType.VARBINARY: _blob,
    exp.DType.DOUBLE: _double,
    exp.DType.TEXT: Text,
    exp.DType.VARCHAR: Text,
    exp.DType.UUID: Text,
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
            raise PredicateError(f"{_shown(node)}: LIKE only supports a prefix", hint="write LIKE 'prefix%'")
        else:
            text += character
    return text, rest != pattern


def _without_parentheses(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _only(node: exp.Expr, *known: str) -> None:
    """Rejects a node with arguments other than the known ones."""
    if any(value for key, value in node.args.items() if key not in known):
        raise _refusal(node)


def _refusal(node: exp.Expr) -> PredicateError:
    return PredicateError(f"a `where` does not support {_shown(node)}", hint=_GRAMMAR)


def _shown(node: exp.Expr) -> str:
    return repr(node.sql(dialect="duckdb"))
