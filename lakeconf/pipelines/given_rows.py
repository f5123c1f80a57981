"""Rows in the configuration as SQL: the inputs of a model in a unit test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

from lakeconf.errors import PipelineError
from lakeconf.sql import folded, identifier, literal
from lakeconf.write.ddl import type_sql

Row = Mapping[str, Any]

_INT64 = range(-(2**63), 2**63)


def columns_of_rows(rows: Sequence[Row], types: Mapping[str, str]) -> dict[str, str | None]:
    """Returns the columns of rows and their DuckDB types; None for nested values without a declared type.

    Args:
        rows: The rows; a key that a row lacks is NULL.
        types: Declared types by column; they come first, also if no row has the column.

    Raises:
        PipelineError: A column has values of several types.
        SchemaError: DuckDB has no such type.
    """
    found: dict[str, str | None] = {name: type_sql(name, text) for name, text in types.items()}
    known = {folded(name): name for name in found}
    for row in rows:
        seen = set()
        for name in row:
            if folded(name) in seen:
                raise PipelineError(
                    f"a row has the column {name!r} twice", hint="remove one of them: names ignore case"
                )
            seen.add(folded(name))
            if folded(name) not in known:
                known[folded(name)] = name
                found[name] = _inferred(name, [value for one in rows for value in _values(one, name)])
    return found


def rows_sql(rows: Sequence[Row], types: Mapping[str, str]) -> str:
    """Returns a query for rows.

    Args:
        rows: The rows; a key that a row lacks is NULL.
        types: Declared types by column.

    Raises:
        PipelineError: There is no column, or a column has values of several types.
        SchemaError: DuckDB has no such type.
    """
    columns = columns_of_rows(rows, types)
    if not columns:
        raise PipelineError("the columns of a table without rows are unknown", hint="write { columns = { id = … } }")
    names = [f"lakeconf_{index}" for index in range(len(columns))]
    selected = ", ".join(
        f"{name if kind is None else f'CAST({name} AS {kind})'} AS {identifier(column)}"
        for name, (column, kind) in zip(names, columns.items(), strict=True)
    )
    listed = [f"({', '.join(_value(row, column, kind) for column, kind in columns.items())})" for row in rows]
    values = ", ".join(listed or [f"({', '.join(['NULL'] * len(columns))})"])
    # Without a number, DuckDB may return the rows in another order.
    return f"SELECT {selected} FROM (VALUES {values}) AS given({', '.join(names)}){'' if rows else ' WHERE false'}"


def _values(row: Row, name: str) -> list[Any]:
    return [value for key, value in row.items() if folded(key) == folded(name)]


def _value(row: Row, name: str, kind: str | None) -> str:
    found = _values(row, name)
    return _sql(found[0], typed=kind is not None) if found else "NULL"


def _inferred(name: str, values: Sequence[Any]) -> str | None:
    kinds = {_kind(value) for value in values}
    if len(kinds) == 1:
        return kinds.pop()
    for wide, narrow in (("DOUBLE", {"BIGINT", "DOUBLE"}), ("TIMESTAMP", {"DATE", "TIMESTAMP"})):
        if kinds <= narrow:
            return wide
    listed = ", ".join(sorted(kind or "nested" for kind in kinds))
    raise PipelineError(f"the column {name!r} has values of several types: {listed}", hint="declare its type")


def _kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if value in _INT64 else "HUGEINT"
    if isinstance(value, float):
        return "DOUBLE"
    if isinstance(value, datetime):
        return "TIMESTAMP" if value.tzinfo is None else "TIMESTAMP WITH TIME ZONE"
    simple = {str: "VARCHAR", date: "DATE", time: "TIME"}
    return next((kind for python, kind in simple.items() if isinstance(value, python)), None)


def _sql(value: Any, *, typed: bool) -> str:
    """A value as SQL. Casts of text are exact: `9.99` becomes a DECIMAL without a rounded DOUBLE in between."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{literal(str(key))}: {_sql(one, typed=typed)}' for key, one in value.items())}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(_sql(one, typed=typed) for one in value)}]"
    if isinstance(value, bool):
        return literal(value)
    if isinstance(value, float) and not math.isfinite(value):
        text = "nan" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
    elif isinstance(value, datetime):
        text = value.isoformat(" ")
    else:
        text = value.isoformat() if isinstance(value, date | time) else str(value)
    return literal(text) if typed else f"CAST({literal(text)} AS {_kind(value)})"
