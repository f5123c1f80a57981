"""Reads the `where` of a scan, a delete or an overwrite, with DuckDB's parser."""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

import duckdb
import narwhals as nw

from lakeconf.catalog.column_types import all_types, sql_type
from lakeconf.catalog.pruning.expression import (
    NotUnderstoodError,
    conjuncts,
    is_always_true,
    is_condition_of,
    parsed_condition,
    shown,
    too_deep,
    typed,
    without_columns,
)
from lakeconf.catalog.pruning.literals import Raw, Text, between, compare, one_of
from lakeconf.catalog.pruning.predicates import (
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
    parse_date,
    parse_timestamp,
)
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import closed_connection
from lakeconf.connection.duckdb_facts import untested
from lakeconf.errors import LakeconfError, PredicateError, SchemaError, suggestion
from lakeconf.sql import folded, identifier

Where: TypeAlias = "str | nw.Expr"
Tree: TypeAlias = Mapping[str, Any]
GRAMMAR = "use columns, literals, =, !=, <, <=, >, >=, AND, OR, NOT, IN, BETWEEN, IS NULL and LIKE 'prefix%'"
_OPERATORS: Mapping[str, tuple[Operator, Operator]] = {
    # Each operator as written, and with its operands swapped.
    "COMPARE_EQUAL": ("=", "="),
    "COMPARE_NOTEQUAL": ("!=", "!="),
    "COMPARE_LESSTHAN": ("<", ">"),
    "COMPARE_LESSTHANOREQUALTO": ("<=", ">="),
    "COMPARE_GREATERTHAN": (">", "<"),
    "COMPARE_GREATERTHANOREQUALTO": (">=", "<="),
}
_ZONED = "TIMESTAMP WITH TIME ZONE"
# What narwhals and DuckDB raise while narwhals converts an expression.
ERRORS = (nw.exceptions.NarwhalsError, duckdb.Error, NotImplementedError, ValueError, TypeError)
_COLUMN = re.compile(r'column "((?:[^"]|"")+)"', re.IGNORECASE)


def predicate_of(where: Where | Predicate, columns: Sequence[Column]) -> Predicate:
    """Returns a predicate unchanged, and parses a condition."""
    return where if isinstance(where, Predicate) else parse(where, columns)


def problem(error: BaseException, columns: Iterable[str], otherwise: str) -> tuple[str, str]:
    """What is wrong with an expression, and a hint."""
    names = list(columns)
    if isinstance(error, nw.exceptions.ColumnNotFoundError):
        # Only the error of DuckDB, which narwhals replaces, has the name.
        match = _COLUMN.search(str(error.__cause__ or error.__context__ or ""))
        name = match[1].replace('""', '"') if match else ""
        named = f": {name!r}" if match else ""
        return f"the expression uses an unknown column{named}", suggestion(
            name, names, f"use one of the columns: {', '.join(names)}"
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
    """Translates the errors of narwhals and Spark for values and conditions of an update or a merge."""
    try:
        yield
    except (LakeconfError, duckdb.OperationalError):  # such as a lost server: the expression is not to blame
        raise
    except _all_errors() as error:
        message, hint = problem(error, columns, "use other operations, or write the change as SQL: lake.execute(…)")
        raise SchemaError(message, hint=hint) from error


def parse(where: Where, columns: Sequence[Column]) -> Predicate:
    """Parses a condition on a table: any boolean expression over its columns."""
    text = where if isinstance(where, str) else _sql_of(where, columns)
    try:
        with closed_connection() as connection:
            return _parse(connection, text, columns)
    except RecursionError as error:
        raise too_deep() from error


def _parse(connection: duckdb.DuckDBPyConnection, text: str, columns: Sequence[Column]) -> Predicate:
    reader = _ConditionReader(connection, columns)
    try:
        return reader.predicate(parsed_condition(text))
    except NotUnderstoodError as error:
        if untested(duckdb.__version__) is not None:
            # `check_bound` reads plans, which are those of the tested version.
            raise PredicateError(f"{error.message}; with DuckDB 1.5, it would", hint=GRAMMAR) from error
    understood: list[Predicate] = []
    others = []
    for condition in conjuncts(connection, text):
        try:
            understood.append(reader.predicate(parsed_condition(condition)))
        except NotUnderstoodError:
            others.append(condition)
    computed = [condition for condition in others if not is_always_true(connection, condition)]
    if computed or not understood:
        understood.append(typed(connection, computed or others, columns))
    return understood[0] if len(understood) == 1 else And(tuple(understood))


def check_constants(value: object) -> None:
    """Rejects constants in expressions that DuckDB's Python client reads as others."""
    hint = None
    if isinstance(value, Decimal) and value.is_finite() and value and int(value.as_tuple().exponent) > 0:
        hint = f'write it without an exponent: Decimal("{value:f}")'  # it reads 1E+3 as 1.000
    elif isinstance(value, float) and math.isnan(value):
        hint = "use is_nan(), or SQL"  # it reads NULL
    elif getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):  # times of pandas
        hint = "write SQL, which keeps nanoseconds"
    if hint is not None:
        raise PredicateError(f"DuckDB reads {value!r} as another value", hint=hint)
    if isinstance(value, nw.Expr):
        value = [(node.exprs, *node.kwargs.values()) for node in getattr(value, "_nodes", ())]
    for part in value if isinstance(value, list | tuple | set | frozenset) else ():
        check_constants(part)


def _sql_of(where: object, columns: Sequence[Column]) -> str:
    """Converts a narwhals expression to SQL by filtering a DuckDB relation with these columns."""
    if isinstance(where, bool):
        raise without_columns(str(where))
    if not isinstance(where, nw.Expr):
        raise PredicateError(
            f"{where!r} is not a condition", hint="write a string of SQL, or an expression of narwhals"
        )
    check_constants(where)
    listed = ", ".join(f"CAST(NULL AS {_shown_type(column)}) AS {identifier(column.name)}" for column in columns)
    with closed_connection() as connection:
        relation = connection.sql(f"SELECT {listed}")
        try:
            # A NUL, which can only be in a string, would end the statement.
            sql = nw.from_native(relation).filter(where).to_native().sql_query().replace("\0", "' || chr(0) || '")
        except ERRORS as error:
            message, hint = problem(error, [column.name for column in columns], GRAMMAR)
            raise PredicateError(message, hint=hint) from error
    for place in re.finditer("WHERE", sql):  # it may be in the name of a column
        if is_condition_of(sql[place.end() :], sql):
            return sql[place.end() :].strip()
    raise PredicateError("narwhals cannot convert the expression to a condition", hint="write it as SQL")


def _shown_type(column: Column) -> str:
    """The type of a column for narwhals; columns without a type that it knows can only be tested for NULL."""
    is_known = all(kind in ("struct", "list", "map") or literal_type(kind) for kind in all_types(column))
    return sql_type(column) if is_known else "VARCHAR"


class _ConditionReader:
    """Reads DuckDB's tree of a condition."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, columns: Iterable[Column]) -> None:
        self._connection = connection
        self._columns = {folded(column.name): column for column in columns}

    def predicate(self, node: Tree) -> Predicate:
        """Converts a boolean expression to a predicate."""
        kind = node["type"]
        if kind in ("CONJUNCTION_AND", "CONJUNCTION_OR"):
            operands = tuple(map(self.predicate, node["children"]))
            return And(operands) if kind == "CONJUNCTION_AND" else Or(operands)
        if kind == "COLUMN_REF":
            return _truth(self._column(node))
        if kind in _OPERATORS:
            return self._comparison(node)
        handler = _HANDLERS.get(str(node.get("function_name", kind)).lower() if kind == "FUNCTION" else kind)
        if handler is None or (kind == "FUNCTION" and not _is_plain(node)):
            raise self._refusal(node)
        return handler(self, node)

    def _comparison(self, node: Tree) -> Predicate:
        as_written, exchanged = _OPERATORS[node["type"]]
        left, right = node["left"], node["right"]
        if left["type"] == "COLUMN_REF":
            return compare(self._column(left), as_written, self.constant(right))
        if right["type"] == "COLUMN_REF":
            return compare(self._column(right), exchanged, self.constant(left))
        raise self._refusal(node)

    def negation(self, node: Tree) -> Predicate:
        return Not(self.predicate(node["children"][0]))

    def is_null(self, node: Tree) -> Predicate:
        return IsNull(self._column(node["children"][0]))

    def is_not_null(self, node: Tree) -> Predicate:
        return Not(self.is_null(node))

    def is_value(self, node: Tree) -> Predicate:
        """`IS TRUE` and `IS NOT FALSE`, which compare a cast with a constant."""
        cast, constant = node["left"], node["right"]
        value = constant.get("value", {}) if constant["type"] == "VALUE_CONSTANT" else {}
        is_cast = cast["type"] == "OPERATOR_CAST" and cast["cast_type"]["id"] == "BOOLEAN" and not cast["try_cast"]
        if not is_cast or value.get("type", {}).get("id") != "BOOLEAN" or value["is_null"]:
            raise self._refusal(node)
        try:
            predicate = certainly(self.predicate(cast["child"]), value=bool(value["value"]))
        except PredicateError as error:
            raise self._refusal(node) from error  # DuckDB casts values of other types to BOOLEAN
        return predicate if node["type"] == "COMPARE_NOT_DISTINCT_FROM" else Not(predicate)

    def is_nan(self, node: Tree) -> Predicate:
        (column,) = self._arguments(node, 1)
        return compare(self._column(column), "=", float("nan"))

    def is_in(self, node: Tree) -> Predicate:
        column, *values = node["children"]
        return self._one_of(node, column, values)

    def is_not_in(self, node: Tree) -> Predicate:
        return Not(self.is_in(node))

    def contains(self, node: Tree) -> Predicate:
        values, column = self._arguments(node, 2)
        if values.get("function_name") != "list_value":
            raise self._refusal(node)
        return self._one_of(node, column, values["children"])

    def _one_of(self, node: Tree, column: Tree, literals: Sequence[Tree]) -> Predicate:
        if not literals:
            raise PredicateError(f"the list in {self._shown(node)} is empty", hint="add a value, or omit the condition")
        if any(literal["class"] == "SUBQUERY" for literal in literals):
            raise self._refusal(node)
        return one_of(self._column(column), [self.constant(literal) for literal in literals])

    def between(self, node: Tree) -> Predicate:
        return between(self._column(node["input"]), self.constant(node["lower"]), self.constant(node["upper"]))

    def like(self, node: Tree) -> Predicate:
        column, *texts = node["children"]
        pattern, *escapes = map(self.constant, texts)
        escape = escapes[0] if escapes else Text("")
        if not isinstance(pattern, Text) or not isinstance(escape, Text) or self._column(column).type != "varchar":
            raise self._refusal(node)
        text, is_prefix = self._read_pattern(pattern.value, escape.value, node)
        return StartsWith(self._column(column), text) if is_prefix else Comparison(self._column(column), "=", text)

    def not_like(self, node: Tree) -> Predicate:
        return Not(self.like(node))

    def starts_with(self, node: Tree) -> Predicate:
        column, text = self._arguments(node, 2)
        prefix = self.constant(text)
        if not isinstance(prefix, Text) or self._column(column).type != "varchar":
            raise self._refusal(node)
        return StartsWith(self._column(column), prefix.value)

    def constant(self, node: Tree) -> Raw:
        """Reads a literal, or a cast of one."""
        if node["type"] == "VALUE_CONSTANT":
            return self._literal(node)
        if node["type"] == "OPERATOR_CAST" and not node["try_cast"]:
            return self._cast(node, self.constant(node["child"]))
        raise self._refusal(node)

    def _literal(self, node: Tree) -> Raw:
        value, kind = node["value"], node["value"]["type"]["id"]
        if value["is_null"]:
            raise PredicateError("a comparison with NULL is never true", hint="write IS NULL or IS NOT NULL")
        raw = value["value"]
        if kind == "BOOLEAN":
            return bool(raw)
        if kind == "VARCHAR":
            return Text(str(raw))
        if kind == "DOUBLE":
            return float(raw)
        if kind == "DECIMAL":
            return Decimal(f"{_integer(raw)}E-{value['type']['type_info']['scale']}")
        if kind in ("INTEGER", "BIGINT", "HUGEINT", "UHUGEINT", "UBIGINT"):
            return Decimal(_integer(raw))
        raise self._refusal(node)

    def _cast(self, node: Tree, raw: Raw) -> Raw:
        kind = node["cast_type"]["id"]
        if not isinstance(raw, Text):
            raise self._refusal(node)
        if kind == "DECIMAL":
            return self._decimal(node, raw.value)
        if kind == "BOOLEAN" and raw.value in ("t", "f"):
            return raw.value == "t"  # `true` is written as a cast
        if kind not in _CASTS:
            raise self._refusal(node)
        value = _CASTS[kind](raw.value)
        if isinstance(value, datetime) and (value.tzinfo is not None) != (kind == _ZONED):
            # Otherwise the meaning would depend on the session's time zone.
            raise PredicateError(
                f"{self._shown(node)}: a TIMESTAMPTZ needs an offset, such as +00; a TIMESTAMP must not have one",
                hint="write TIMESTAMPTZ '2026-01-31 00:00:00+00', or TIMESTAMP '2026-01-31 00:00:00'",
            )
        return value

    def _decimal(self, node: Tree, text: str) -> Decimal:
        """Reads a constant of the type DECIMAL(precision, scale), as DuckDB 2.0 writes one; others would be rounded."""
        sizes = node["cast_type"]["type_info"] or {"width": 18, "scale": 3}
        if not re.fullmatch(r"-?\d+(\.\d+)?", text):
            raise self._refusal(node)
        whole, _, fraction = text.removeprefix("-").partition(".")
        if len(fraction) > sizes["scale"] or len(whole.lstrip("0")) > sizes["width"] - sizes["scale"]:
            raise self._refusal(node)
        return Decimal(text)

    def _arguments(self, node: Tree, count: int) -> Sequence[Tree]:
        arguments: Sequence[Tree] = node["children"]
        if len(arguments) != count:
            raise self._refusal(node)
        return arguments

    def _column(self, node: Tree) -> Column:
        if node["type"] != "COLUMN_REF":
            raise self._refusal(node)
        names = node["column_names"]
        if len(names) > 1:
            raise NotUnderstoodError(
                f"{self._shown(node)}: a `where` does not support nested fields or table names",
                hint="write only the name of a column, or filter after the scan",
            )
        column = self._columns.get(folded(names[0]))
        if column is None:
            existing = [column.name for column in self._columns.values()]
            hint = suggestion(names[0], existing, f"use one of its columns: {', '.join(existing)}")
            raise PredicateError(f"the table has no column {names[0]!r}", hint=hint)
        return column

    def _read_pattern(self, pattern: str, escape: str, node: Tree) -> tuple[str, bool]:
        """Returns the prefix of a LIKE pattern, and True if any text may follow it."""
        text, rest = "", pattern.rstrip("%") if not escape else pattern
        characters: Iterator[str] = iter(rest)
        for character in characters:
            if escape and character == escape:
                text += next(characters, "")
            elif character == "%" and not "".join(characters).strip("%"):
                return text, True
            elif character in "%_":
                raise NotUnderstoodError(
                    f"{self._shown(node)}: LIKE only supports a prefix", hint="write LIKE 'prefix%'"
                )
            else:
                text += character
        return text, rest != pattern

    def _refusal(self, node: Tree) -> NotUnderstoodError:
        """The error for syntax that planning does not understand."""
        return NotUnderstoodError(f"a `where` does not support {self._shown(node)}", hint=GRAMMAR)

    def _shown(self, node: Tree) -> str:
        return repr(shown(self._connection, node))


_HANDLERS: Mapping[str, Callable[[_ConditionReader, Tree], Predicate]] = {
    "OPERATOR_NOT": _ConditionReader.negation,
    "OPERATOR_IS_NULL": _ConditionReader.is_null,
    "OPERATOR_IS_NOT_NULL": _ConditionReader.is_not_null,
    "COMPARE_NOT_DISTINCT_FROM": _ConditionReader.is_value,
    "COMPARE_DISTINCT_FROM": _ConditionReader.is_value,
    "COMPARE_IN": _ConditionReader.is_in,
    "COMPARE_NOT_IN": _ConditionReader.is_not_in,
    "COMPARE_BETWEEN": _ConditionReader.between,
    # Functions and operators by name.
    "isnan": _ConditionReader.is_nan,
    "contains": _ConditionReader.contains,
    "list_contains": _ConditionReader.contains,
    "~~": _ConditionReader.like,
    "!~~": _ConditionReader.not_like,
    "like_escape": _ConditionReader.like,
    "not_like_escape": _ConditionReader.not_like,
    "starts_with": _ConditionReader.starts_with,
    "^@": _ConditionReader.starts_with,
}


def _is_plain(node: Tree) -> bool:
    """True for a call of one of DuckDB's functions without DISTINCT, FILTER or ORDER BY."""
    parts = (node.get("filter"), node.get("distinct"), node.get("order_bys", {}).get("orders"), node.get("catalog"))
    return not any(parts) and node["schema"] in ("", "main")


def _truth(column: Column) -> Predicate:
    """The condition that a column is true."""
    if column.type != "boolean":
        raise PredicateError(
            f"the condition is the column {column.name!r} alone, which is {sql_type(column)} and not BOOLEAN",
            hint=f"compare it: {identifier(column.name)} = …",
        )
    return Comparison(column, "=", True)  # noqa: FBT003


def _integer(value: Any) -> int:
    """An integer in DuckDB's JSON, where one of 128 bits has two parts."""
    return (int(value["upper"]) << 64) + int(value["lower"]) if isinstance(value, Mapping) else int(value)


def _blob(text: str) -> bytes:
    if not re.fullmatch(r"(\\x[0-9A-Fa-f]{2}|[\x20-\x5b\x5d-\x7e])*", text):
        raise PredicateError(f"{text!r} is not a BLOB", hint=r"write each byte as \xAA")
    return re.sub(rb"\\x(..)", lambda match: bytes.fromhex(match[1].decode()), text.encode())


def _double(text: str) -> Raw:
    try:
        return float(text)
    except ValueError as error:
        raise PredicateError(f"{text!r} is not a number", hint="write a number such as 1.5") from error


_CASTS: Mapping[str, Callable[[str], Raw]] = {
    "DATE": parse_date,
    "TIMESTAMP": parse_timestamp,
    _ZONED: parse_timestamp,
    "BLOB": _blob,
    "DOUBLE": _double,
    "VARCHAR": Text,
    "UUID": Text,
}
