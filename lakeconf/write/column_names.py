"""The names of a table's columns and nested fields while it is changed: no two of them may be the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import fields_of, parsed_type
from lakeconf.errors import SchemaError
from lakeconf.sql import folded

_HINT = "use another name, or drop or rename that one, too"


class ColumnNames:
    """The columns of a table, or the fields of one of them; names ignore case, as in DuckDB."""

    def __init__(self, columns: Mapping[str, DuckDBPyType | str]) -> None:
        # The fields of a column are only looked at if a change names one.
        self.names: dict[str, tuple[str, DuckDBPyType | str | ColumnNames]] = {
            folded(name): (name, kind) for name, kind in columns.items()
        }

    def drop(self, path: Sequence[str]) -> None:
        """Drops a column or a field of the table."""
        holder, last = self._holder(path), folded(path[-1])
        if "element" in map(folded, path[2:-1]):  # DuckLake cannot read files that have none of the other fields
            problem = f"{'.'.join(path)!r} cannot be dropped, because it is in a list inside of another value"
            raise SchemaError(problem, hint="create a table without the field, and append the rows to it")
        if holder is None or last not in holder.names:
            raise SchemaError(f"{'.'.join(path)!r} is dropped twice", hint="name it once, or only its column")
        del holder.names[last]
        if not holder.names and len(path) > 1:
            # Elements of lists and maps cannot be dropped.
            what = path[0] if path[-2] in ("element", "key", "value") else ".".join(path[:-1])
            raise SchemaError(f"{'.'.join(path)!r} is the last field of its struct", hint=f"drop {what!r}")

    def rename(self, path: Sequence[str], new: str) -> None:
        """Renames a column or a field, unless the table does not have it."""
        holder, old = self._holder(path), folded(path[-1])
        if holder is None or old not in holder.names:
            return
        _, inner = holder.names.pop(old)
        _check_free(holder, new, f"cannot rename {'.'.join(path)!r} to {new!r}", len(path))
        holder.names[folded(new)] = (new, inner)

    def add(self, path: Sequence[str], kind: str) -> None:
        """Adds a column, or a field to a column, unless the table does not have that column."""
        holder, last = self._holder(path), path[-1]
        if holder is None:
            return
        _check_free(holder, last, f"cannot add {'.'.join(path)!r}", len(path))
        holder.names[folded(last)] = (last, kind)

    def _holder(self, path: Sequence[str]) -> ColumnNames | None:
        """What has the last name of a path; None if the table has no such column."""
        holder = self
        for name in map(folded, path[:-1]):
            if name not in holder.names:
                return None
            called, inner = holder.names[name]
            if not isinstance(inner, ColumnNames):
                inner = ColumnNames(fields_of(parsed_type(inner) if isinstance(inner, str) else inner))
                holder.names[name] = (called, inner)
            holder = inner
        return holder


def _check_free(holder: ColumnNames, name: str, change: str, depth: int) -> None:
    if folded(name) in holder.names:
        what = "column" if depth == 1 else "field"
        raise SchemaError(f"{change}: there is a {what} {holder.names[folded(name)][0]!r}", hint=_HINT)
