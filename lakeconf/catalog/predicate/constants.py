"""Reads constants in SQL, and refuses syntax that a `where` does not support."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal

from sqlglot import exp

from lakeconf.catalog.predicate.datetimes import parse_date, parse_timestamp
from lakeconf.catalog.predicate.expression import NotUnderstoodError
from lakeconf.catalog.predicate.literals import Raw, Text
from lakeconf.catalog.predicate.nodes import Comparison, Predicate
from lakeconf.catalog.table import Column
from lakeconf.catalog.types import sql_type
from lakeconf.errors import PredicateError
from lakeconf.sql import identifier

GRAMMAR = "use columns, literals, =, !=, <, <=, >, >=, AND, OR, NOT, IN, BETWEEN, IS NULL and LIKE 'prefix%'"


def constant(node: exp.Expr) -> Raw:
    """Reads a literal, or a cast of one.

    Raises:
        PredicateError: It is no constant, it is NULL, or its text does not fit the type.
    """
    node = without_parentheses(node)
    if isinstance(node, exp.Null):
        raise PredicateError("a comparison with NULL is never true", hint="write IS NULL or IS NOT NULL")
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return Text(str(node.this)) if node.is_string else _number(str(node.this))
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(f"-{node.this.this}")
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        return _cast(node, constant(node.this))
    raise refusal(node)


def _number(text: str) -> Raw:
    """Types a number as DuckDB does: DOUBLE with an exponent, else an integer or a decimal."""
    return float(text) if "e" in text.lower() else Decimal(text)


def _cast(node: exp.Cast, raw: Raw) -> Raw:
    only(node, "this", "to")
    if node.to.this == exp.DType.DECIMAL and isinstance(raw, Text):
        return _decimal(node, raw.value)
    read = _CASTS.get(node.to.this)
    if read is None or not isinstance(raw, Text):
        raise refusal(node)
    value = read(raw.value)
    if isinstance(value, datetime) and (value.tzinfo is not None) != (node.to.this == exp.DType.TIMESTAMPTZ):
        # Otherwise the meaning would depend on the session's time zone.
        raise PredicateError(
            f"{shown(node)}: a TIMESTAMPTZ needs an offset, such as +00; a TIMESTAMP must not have one",
            hint="write TIMESTAMPTZ '2026-01-31 00:00:00+00', or TIMESTAMP '2026-01-31 00:00:00'",
        )
    return value


def _decimal(node: exp.Cast, text: str) -> Decimal:
    """Reads a constant of the type DECIMAL(precision, scale), as DuckDB 2.0 writes one; DuckDB would round others."""
    sizes = [int(size.name) for size in node.to.expressions]
    if len(sizes) != 2 or not re.fullmatch(r"-?\d+(\.\d+)?", text):
        raise refusal(node)
    precision, scale = sizes
    whole, _, fraction = text.removeprefix("-").partition(".")
    if len(fraction) > scale or len(whole.lstrip("0")) > precision - scale:
        raise refusal(node)
    return Decimal(text)


def _blob(text: str) -> bytes:
    if not re.fullmatch(r"(\\x[0-9A-Fa-f]{2}|[\x20-\x5b\x5d-\x7e])*", text):
        raise PredicateError(f"{text!r} is not a BLOB", hint=r"write each byte as \xAA")
    return re.sub(rb"\\x(..)", lambda found: bytes.fromhex(found[1].decode()), text.encode())


def _double(text: str) -> Raw:
    try:
        return float(text)
    except ValueError as error:
        raise PredicateError(f"{text!r} is not a number", hint="write a number such as 1.5") from error


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


def without_parentheses(node: exp.Expr) -> exp.Expr:
    """The node inside its parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def only(node: exp.Expr, *known: str) -> None:
    """Rejects a node with arguments other than the known ones."""
    if any(value for key, value in node.args.items() if key not in known):
        raise refusal(node)


def refusal(node: exp.Expr) -> NotUnderstoodError:
    """The error for syntax that planning does not understand."""
    return NotUnderstoodError(f"a `where` does not support {shown(node)}", hint=GRAMMAR)


def shown(node: exp.Expr) -> str:
    """The SQL of a node, quoted for a message."""
    return repr(node.sql(dialect="duckdb"))


def truth(column: Column) -> Predicate:
    """The condition that a column is true.

    Raises:
        PredicateError: The column is not BOOLEAN.
    """
    if column.type != "boolean":
        raise PredicateError(
            f"the condition is the column {column.name!r} alone, which is {sql_type(column)} and not BOOLEAN",
            hint=f"compare it: {identifier(column.name)} = …",
        )
    return Comparison(column, "=", True)  # noqa: FBT003
