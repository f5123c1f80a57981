"""Rows in the configuration as SQL: the inputs of a model in a unit test, and the comparison with the expected rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import integers
from lakeconf.connection.connection import fetched
from lakeconf.errors import PipelineError
from lakeconf.lake.lake import Lake
from lakeconf.sql import folded, identifier, literal
from lakeconf.write.ddl import type_sql

GivenRow = Mapping[str, Any]
_INT64 = range(-(2**63), 2**63)


def columns_of_rows(rows: Sequence[GivenRow], types: Mapping[str, str]) -> dict[str, str | None]:
    """Returns the columns of rows and their DuckDB types; None for nested values without a declared type."""
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


def rows_sql(rows: Sequence[GivenRow], types: Mapping[str, str]) -> str:
    """Returns a query for rows."""
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


def _values(row: GivenRow, name: str) -> list[Any]:
    return [value for key, value in row.items() if folded(key) == folded(name)]


def _value(row: GivenRow, name: str, kind: str | None) -> str:
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


@dataclass(frozen=True)
class RowDifference:
    """The result of a comparison."""

    columns: Sequence[str]  # the compared columns
    missing: Sequence[Sequence[str | None]] = ()  # expected rows that the model does not return, as text; NULL is None
    unexpected: Sequence[Sequence[str | None]] = ()  # rows of the model that are not expected, as text; NULL is None
    wrong_order: bool = False  # True if all rows are equal, but not their order

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.wrong_order)


_NESTED = ("list", "array", "map", "struct")
_FLOATS = ("float", "double")
_NUMBERS = {*integers(), "decimal", *_FLOATS}
_RETURNED, _ROW = "lakeconf_returned", "lakeconf_row"


def compared(
    lake: Lake, frame: Any, columns: Mapping[str, str], expected: Sequence[GivenRow], *, ordered: bool
) -> RowDifference:
    """Compares columns of a model's rows, by their expected names; each row counts as often as it occurs."""
    selected = ", ".join(map(identifier, columns.values()))
    relation: Any = lake.query(f"SELECT {selected} FROM {_RETURNED}", {_RETURNED: frame}).to_native()
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
        query = lake.query(f"{tables} SELECT {_ROW}, {texts} FROM {source}", {_RETURNED: frame})
        found = fetched(query, lake._session.writer.secrets)  # noqa: SLF001 - for scrubbing only
        return [_shown(expected[row], columns) if row is not None else [*texts] for row, *texts in found]

    missing, unexpected = (
        rows("(FROM expected EXCEPT ALL FROM returned)"),
        rows("(FROM returned EXCEPT ALL FROM expected)"),
    )
    if missing or unexpected or not ordered:
        return RowDifference(list(columns), missing, unexpected)
    wanted, found = rows("expected"), rows("returned")
    return (
        RowDifference(list(columns)) if wanted == found else RowDifference([*columns], wanted, found, wrong_order=True)
    )


def _key(value: str, kind: DuckDBPyType) -> str:
    """The SQL of a value as it is compared: ten digits of a DOUBLE, because sums depend on the order of the rows."""
    if kind.id not in _FLOATS:
        return value
    return f"CAST(format('{{:.9e}}', CAST(CAST({value} AS VARCHAR) AS DOUBLE)) AS DOUBLE)"


def _expected_row(number: int, row: GivenRow, kinds: Mapping[str, DuckDBPyType]) -> str:
    cells = [_expected(next(iter(_values(row, name)), None), kind) for name, kind in kinds.items()]
    is_exact = " AND ".join(condition for _, condition in cells)
    return f"({', '.join(sql for sql, _ in cells)}, CASE WHEN {is_exact} THEN NULL ELSE {number} END)"


def _expected(value: Any, kind: DuckDBPyType) -> tuple[str, str]:
    """The SQL of an expected value in the type of its column, and the condition that this type holds it unchanged."""
    if value is None:
        return f"CAST(NULL AS {kind})", "true"
    if kind.id in _NESTED:
        return _expected_nested(value, kind)
    number = _number(value) if kind.id in _NUMBERS else None
    given = _sql(value, typed=False) if number is None else number
    cast = f"TRY_CAST({given} AS {kind})"
    if kind.id in _FLOATS:
        return _key(cast, kind), f"{cast} IS NOT NULL"
    if isinstance(value, str) and number is None:
        return cast, f"coalesce(CAST({cast} AS VARCHAR) = {given}, false)"
    fits = kind.id == "boolean" if isinstance(value, bool) else kind.id.startswith(("date", "time"))
    is_other = number is None and (not fits or isinstance(value, int | float) is not isinstance(value, bool))
    return cast, "false" if is_other else f"coalesce({cast} = {given}, false)"


def _expected_nested(value: Any, kind: DuckDBPyType) -> tuple[str, str]:
    types: dict[str, Any] = dict(kind.children)
    if isinstance(value, Mapping) and kind.id == "struct" and value.keys() <= types.keys():
        cells = [_expected(value.get(name), child) for name, child in types.items()]
        made = f"{{{', '.join(f'{literal(name)}: {cell}' for name, (cell, _) in zip(types, cells, strict=True))}}}"
    elif isinstance(value, Mapping) and kind.id == "map":
        keys = [_expected(one, types["key"]) for one in value]
        values = [_expected(one, types["value"]) for one in value.values()]
        made = f"MAP([{', '.join(cell for cell, _ in keys)}], [{', '.join(cell for cell, _ in values)}])"
        cells = keys + values
    elif isinstance(value, list) and kind.id in ("list", "array"):
        cells = [_expected(one, types["child"]) for one in value]
        made = f"[{', '.join(cell for cell, _ in cells)}]"
    else:
        return f"CAST(NULL AS {kind})", "false"
    return f"TRY_CAST({made} AS {kind})", " AND ".join(["true", *(condition for _, condition in cells)])


def _number(value: Any) -> str | None:
    """The SQL of a number, or of a text that is one; None for other values."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    return f"{found:f}" if found.is_finite() else None


def _shown(row: GivenRow, columns: Mapping[str, str]) -> list[str | None]:
    found = [next(iter(_values(row, name)), None) for name in columns]
    return [None if value is None else str(value) for value in found]
