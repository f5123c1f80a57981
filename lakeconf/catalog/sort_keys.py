"""The order of rows in files, as text such as `day DESC NULLS FIRST`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lakeconf.catalog.column_types import NESTED, Fact, has
from lakeconf.catalog.tables import Column
from lakeconf.errors import SchemaError, suggestion
from lakeconf.sql import folded, identifier

SORT_KEY = re.compile(
    r"(?P<column>.+?)(?P<direction>\s+(?:ASC|DESC))?(?P<nulls>\s+NULLS\s+(?:FIRST|LAST))?", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column that rows are ordered by."""

    column: str
    descending: bool = False  # True if the largest value comes first
    nulls_first: bool = False  # True if NULL comes before all values

    def __str__(self) -> str:
        return f"{self.column}{self._order}"

    @property
    def sql(self) -> str:
        """The key in an ORDER BY of DuckDB."""
        return f"{identifier(self.column)}{self._order}"

    @property
    def sql_of_number(self) -> str:
        """The same for a column of floating-point numbers: DuckDB turns -0.0 into 0.0 in a column that it sorts by."""
        name = identifier(self.column)
        return f"CASE WHEN {name} = 0 THEN 0 ELSE {name} END{self._order}"

    @property
    def _order(self) -> str:
        return f" {'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


def sort_keys(texts: Sequence[str], columns: Sequence[Column]) -> tuple[SortKey, ...]:
    """Parses sort keys of a table."""
    if not texts:
        raise SchemaError("there is no column to sort by", hint="name at least one, such as day")
    keys = tuple(_sort_key(text.strip(), columns) for text in texts)
    for number, key in enumerate(keys):
        if key.column in [earlier.column for earlier in keys[:number]]:
            raise SchemaError(f"the column {key.column!r} is in the sort order twice")
    return keys


def _sort_key(text: str, columns: Sequence[Column]) -> SortKey:
    by_name = {folded(column.name): column for column in columns}
    # A column may be named like a key, such as `price desc`.
    match = None if folded(text) in by_name else SORT_KEY.fullmatch(text)
    name = match["column"] if match else text
    if folded(name) not in by_name:
        names = [column.name for column in columns]
        hint = suggestion(name, names, f"use one of the columns: {', '.join(names)}")
        raise SchemaError(f"the sort key {text!r} names an unknown column: {name!r}", hint=hint)
    column = by_name[folded(name)]
    if column.type in NESTED or has(column.type, Fact.UNORDERED):
        raise SchemaError(f"cannot sort by the column {column.name!r}: its type is {column.type}")
    direction, nulls = (match["direction"] or "", match["nulls"] or "") if match else ("", "")
    return SortKey(column.name, direction.strip().upper() == "DESC", nulls.upper().endswith("FIRST"))
