"""Finds table columns by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lakeconf.errors import SchemaError, suggestion
from lakeconf.sql import folded

if TYPE_CHECKING:
    from lakeconf.catalog.table import Column, TableInfo


def columns_named(table: TableInfo, names: Sequence[str]) -> tuple[Column, ...]:
    """Returns columns of a table by name, in the order of the names.

    Args:
        table: The table.
        names: The names, in any ASCII case, as in DuckDB.

    Raises:
        SchemaError: A column does not exist, or a name occurs twice.
    """
    names = name_list(names, "columns")
    by_name = {folded(column.name): column for column in table.columns}
    found: dict[str, Column] = {}
    for name in names:
        if folded(name) not in by_name:
            known = [column.name for column in table.columns]
            raise SchemaError(
                f"the table {table.full_name} has no column {name!r}",
                hint=suggestion(name, known, f"use one of its columns: {', '.join(sorted(by_name))}"),
            )
        if folded(name) in found:
            raise SchemaError(
                f"the column {name!r} of {table.full_name} is selected twice", hint="name each column once"
            )
        found[folded(name)] = by_name[folded(name)]
    return tuple(found.values())


def name_list(names: object, argument: str) -> list[str]:
    """An argument that lists names: a text alone would be read as a list of its letters.

    Args:
        names: The value of the argument.
        argument: The name of the argument, for the error.

    Raises:
        SchemaError: It is not a list of texts.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        shown = repr(names) if isinstance(names, str) else '"name"'
        raise SchemaError(f"{argument} is {names!r}, and not a list of names", hint=f"write {argument}=[{shown}]")
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise SchemaError(f"{argument} contains {name!r}, which is not a name", hint="write names as text")
    return found
