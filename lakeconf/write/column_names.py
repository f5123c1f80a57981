"""The names of a table's columns and nested fields while it is changed: no two of them may be the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.types import parsed_type
from lakeconf.errors import SchemaError
from lakeconf.sql import folded

_HINT = "use another name, or drop or rename that one, too"


class ColumnNames:
    """The columns of a table, or the fields of one of them; names ignore case, as in DuckDB.

    Args:
        columns: The types, or the DuckDB names of the types, by name.

    Attributes:
        names: For each folded name, the name and its type or fields.
    """

    def __init__(self, columns: Mapping[str, DuckDBPyType | str]) -> None:
        # The fields of a column are only looked at if a change names one.
        self.names: dict[str, tuple[str, DuckDBPyType | str | ColumnNames]] = {
            folded(name): (name, kind) for name, kind in columns.items()
        }

    def drop(self, path: Sequence[str]) -> None:
        """Drops a column or a field of the table.

        Raises:
            SchemaError: It was dropped before, possibly with its column; or it is the last field of a struct, which
                DuckLake drops, and then nobody can open the lake.
        """
        held, last = self._holder(path), folded(path[-1])
        if held is None or last not in held.names:
            raise SchemaError(f"{'.'.join(path)!r} is dropped twice", hint="name it once, or only its column")
        del held.names[last]
        if not held.names and len(path) > 1:
            # Elements of lists and maps cannot be dropped.
            what = path[0] if path[-2] in ("element", "key", "value") else ".".join(path[:-1])
            raise SchemaError(f"{'.'.join(path)!r} is the last field of its struct", hint=f"drop {what!r}")

    def rename(self, path: Sequence[str], new: str) -> None:
        """Renames a column or a field, unless the table does not have it.

        Raises:
            SchemaError: Another one has the new name.
        """
        held, old = self._holder(path), folded(path[-1])
        if held is None or old not in held.names:
            return
        _, inner = held.names.pop(old)
        _check_free(held, new, f"cannot rename {'.'.join(path)!r} to {new!r}", len(path))
        held.names[folded(new)] = (new, inner)

    def add(self, path: Sequence[str], kind: str) -> None:
        """Adds a column, or a field to a column, unless the table does not have that column.

        Raises:
            SchemaError: Another one has the name.
        """
        held, last = self._holder(path), path[-1]
        if held is None:
            return
        _check_free(held, last, f"cannot add {'.'.join(path)!r}", len(path))
        held.names[folded(last)] = (last, kind)

    def _holder(self, path: Sequence[str]) -> ColumnNames | None:
        """What has the last name of a path; None if the table has no such column."""
        held = self
        for name in map(folded, path[:-1]):
            if name not in held.names:
                return None
            called, inner = held.names[name]
            if not isinstance(inner, ColumnNames):
                inner = ColumnNames(fields(parsed_type(inner) if isinstance(inner, str) else inner))
                held.names[name] = (called, inner)
            held = inner
        return held


def _check_free(held: ColumnNames, name: str, change: str, depth: int) -> None:
    if folded(name) in held.names:
        what = "column" if depth == 1 else "field"
        raise SchemaError(f"{change}: there is a {what} {held.names[folded(name)][0]!r}", hint=_HINT)


def fields(found: DuckDBPyType) -> dict[str, DuckDBPyType]:
    """The fields of a struct, the element of a list, or the key and the value of a map; empty for other types."""
    if found.id not in ("struct", "list", "map"):
        return {}
    called = {"child": "element"} if found.id == "list" else {}
    return {called.get(name, name): part for name, part in found.children if isinstance(part, DuckDBPyType)}
