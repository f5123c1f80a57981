"""Rows of unit tests as SQL, and their comparison with the rows that a model returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

import narwhals as nw
from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import NESTED_IDS, fields_of, integers
from lakeconf.errors import PipelineError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.file_rows import sql_rows
from lakeconf.sql import folded, identifier, literal
from lakeconf.write.ddl import type_sql

Row = dict[str, Any]
_INT64 = range(-(2**63), 2**63)
_FLOATS = ("float", "double")
_NUMBERS = {*integers(), "decimal", *_FLOATS}
_RETURNED, _ROW = "lakeconf_returned", "lakeconf_row"


@dataclass(frozen=True)
class RowDifference:
    """The result of a comparison."""

    columns: Sequence[str]  # the compared columns
    missing: Sequence[Sequence[str | None]] = ()  # expected rows that the model does not return, as text; NULL is None
    unexpected: Sequence[Sequence[str | None]] = ()  # rows of the model that are not expected, as text; NULL is None

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)


def rows_sql(rows: Sequence[Row], types: Mapping[str, str]) -> str:
    """Returns a query for rows, whose columns have the declared types, or those that DuckDB finds."""
    columns: dict[str, str | None] = {name: type_sql(name, text) for name, text in types.items()}
    for row in rows:
        twice = [name for name in row if sum(folded(name) == folded(other) for other in row) > 1]
        if twice:
            raise PipelineError(f"a row has the column {twice[-1]!r} twice", hint="remove one: names ignore case")
        column_names = set(map(folded, columns))
        columns |= {name: None for name in row if folded(name) not in column_names}
    if not columns:
        raise PipelineError("the columns of a table without rows are unknown", hint="write { columns = { id = … } }")
    names = [f"lakeconf_{index}" for index in range(len(columns))]
    selected = ", ".join(
        f"{name if kind is None else f'CAST({name} AS {kind})'} AS {identifier(column)}"
        for name, (column, kind) in zip(names, columns.items(), strict=True)
    )
    cells = ([(_value(row, name), kind is not None) for name, kind in columns.items()] for row in rows)
    listed = [f"({', '.join(_sql(value, typed=typed) for value, typed in row)})" for row in cells]
    values = ", ".join(listed or [f"({', '.join(['NULL'] * len(columns))})"])
    return f"SELECT {selected} FROM (VALUES {values}) AS given({', '.join(names)}){'' if rows else ' WHERE false'}"


def _value(row: Row, name: str) -> Any:
    """A value of a row, or None; names ignore case."""
    return next((value for key, value in row.items() if folded(key) == folded(name)), None)


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
        return f"{{{', '.join(f'{literal(str(key))}: {_sql(item, typed=typed)}' for key, item in value.items())}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(_sql(item, typed=typed) for item in value)}]"
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else literal(value)
    if isinstance(value, float) and not math.isfinite(value):
        text = "nan" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
    elif isinstance(value, datetime):
        text = value.isoformat(" ")
    else:
        text = value.isoformat() if isinstance(value, date | time) else str(value)
    return literal(text) if typed else f"CAST({literal(text)} AS {_kind(value)})"


def compared(lake: Lake, frame: Any, columns: Mapping[str, str], expected: Sequence[Row]) -> RowDifference:
    """Compares columns of a model's rows, by their expected names; each row counts as often as it occurs."""
    selected = ", ".join(map(identifier, columns.values()))
    relation: Any = nw.to_native(lake.sql(f"SELECT {selected} FROM {_RETURNED}", **{_RETURNED: frame}))
    kinds: dict[str, DuckDBPyType] = dict(zip(columns, relation.types, strict=True))
    keys = ", ".join(f"{_key(identifier(columns[name]), kind)} AS {identifier(name)}" for name, kind in kinds.items())
    values = ", ".join(_expected_row(number, row, kinds) for number, row in enumerate(expected))
    names = ", ".join([*map(identifier, columns), _ROW])
    # The number of an expected row with a value that its column cannot hold, so that the row equals no other.
    tables = (
        f"WITH returned AS MATERIALIZED (SELECT {keys}, CAST(NULL AS INTEGER) AS {_ROW} FROM {_RETURNED}), "
        f"expected({names}) AS MATERIALIZED ({f'VALUES {values}' if values else 'FROM returned WHERE false'})"
    )
    texts = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in columns)

    def rows(source: str) -> list[list[str | None]]:
        result = sql_rows(lake, f"{tables} SELECT {_ROW}, {texts} FROM {source}", **{_RETURNED: frame})
        return [_shown(expected[row], columns) if row is not None else [*texts] for row, *texts in result]

    missing, unexpected = ("expected EXCEPT ALL FROM returned", "returned EXCEPT ALL FROM expected")
    return RowDifference(list(columns), rows(f"(FROM {missing})"), rows(f"(FROM {unexpected})"))


def _key(value: str, kind: DuckDBPyType) -> str:
    """The SQL of a value as it is compared: ten digits of a DOUBLE, because sums depend on the order of the rows."""
    if kind.id not in _FLOATS:
        return value
    return f"CAST(format('{{:.9e}}', CAST(CAST({value} AS VARCHAR) AS DOUBLE)) AS DOUBLE)"


def _expected_row(number: int, row: Row, kinds: Mapping[str, DuckDBPyType]) -> str:
    cells = [_expected(_value(row, name), kind) for name, kind in kinds.items()]
    is_exact = " AND ".join(condition for _, condition in cells)
    return f"({', '.join(sql for sql, _ in cells)}, CASE WHEN {is_exact} THEN NULL ELSE {number} END)"


def _expected(value: Any, kind: DuckDBPyType) -> tuple[str, str]:
    """The SQL of an expected value in the type of its column, and the condition that this type holds it unchanged."""
    if value is None:
        return f"CAST(NULL AS {kind})", "true"
    if kind.id in NESTED_IDS:
        return _expected_nested(value, kind)
    number = _number(value) if kind.id in _NUMBERS else None
    text = _sql(value, typed=False) if number is None else number
    cast = f"TRY_CAST({text} AS {kind})"
    if kind.id in _FLOATS:
        return _key(cast, kind), f"{cast} IS NOT NULL"
    if isinstance(value, str) and number is None:
        return cast, f"coalesce(CAST({cast} AS VARCHAR) = {text}, false)"
    fits = kind.id == "boolean" if isinstance(value, bool) else kind.id.startswith(("date", "time"))
    is_other = number is None and (not fits or isinstance(value, int | float) is not isinstance(value, bool))
    return cast, "false" if is_other else f"coalesce({cast} = {text}, false)"


def _expected_nested(value: Any, kind: DuckDBPyType) -> tuple[str, str]:
    types = fields_of(kind)
    if isinstance(value, Mapping) and kind.id == "struct" and value.keys() <= types.keys():
        cells = [_expected(value.get(name), child) for name, child in types.items()]
        built = f"{{{', '.join(f'{literal(name)}: {cell}' for name, (cell, _) in zip(types, cells, strict=True))}}}"
    elif isinstance(value, Mapping) and kind.id == "map":
        keys = [_expected(map_key, types["key"]) for map_key in value]
        values = [_expected(item, types["value"]) for item in value.values()]
        built = f"MAP([{', '.join(cell for cell, _ in keys)}], [{', '.join(cell for cell, _ in values)}])"
        cells = keys + values
    elif isinstance(value, list) and kind.id in ("list", "array"):
        cells = [_expected(item, types["element"]) for item in value]
        built = f"[{', '.join(cell for cell, _ in cells)}]"
    else:
        return f"CAST(NULL AS {kind})", "false"
    return f"TRY_CAST({built} AS {kind})", " AND ".join(["true", *(condition for _, condition in cells)])


def _number(value: Any) -> str | None:
    """The SQL of a number, or of a string that is one; None for other values."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return f"{number:f}" if number.is_finite() else None


def _shown(row: Row, columns: Mapping[str, str]) -> list[str | None]:
    values = [_value(row, name) for name in columns]
    return [None if value is None else str(value) for value in values]
