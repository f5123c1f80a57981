"""Lookup of table columns by name."""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.catalog.table import Column, TableInfo
from lakeconf.errors import SchemaError, suggestion
from lakeconf.sql import folded


def columns_named(table: TableInfo, names: Sequence[str]) -> tuple[Column, ...]:
    """The columns of a table by their names, in the order wanted.

    Args:
        table: The table.
        names: Names as DuckDB compares them: in any case of the letters of ASCII.

    Raises:
        SchemaError: The table has no such column, or a name is given twice.
    """
    by_name = {folded(column.name): column for column in table.columns}
    full_name = f"{table.schema_name}.{table.name}"
    found: dict[str, Column] = {}
    for name in names:
        if folded(name) not in by_name:
            known = [column.name for column in table.columns]
            raise SchemaError(
                f"the table {full_name} has no column {name!r}",
                hint=suggestion(name, known, f"it has {', '.join(sorted(by_name))}"),
            )
        if folded(name) in found:
            raise SchemaError(f"the column {name!r} of {full_name} is asked for twice", hint="name each column once")
        found[folded(name)] = by_name[folded(name)]
    return tuple(found.values())
