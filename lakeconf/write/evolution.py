"""Changes to the columns of a table, as SQL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_lookup import name_list
from lakeconf.catalog.types import parsed_type
from lakeconf.engines.schema_check import check_names, check_promotion, fits
from lakeconf.errors import SchemaError
from lakeconf.sql import folded, identifier, literal, qualified
from lakeconf.write.column_names import ColumnNames, fields
from lakeconf.write.constants import text_of
from lakeconf.write.ddl import known_column, type_sql

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True)
class Evolution:
    """Changes to a table's columns, applied in this order: drop, rename, promote, add.

    Names refer to columns, or with dots to nested fields: `device.os`, `tags.element.kind`, `map.value.kind`.

    Attributes:
        drop: Names.
        rename: New names by old names; a new name has no dots.
        promote: New types by name.
        add: Types by name.
        defaults: Values of added columns, for existing rows and for new rows that do not set the column.
    """

    drop: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    promote: Mapping[str, str] = field(default_factory=dict)
    add: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)

    def statements(self, quoted: str, types: Mapping[str, str]) -> tuple[str, ...]:
        """The SQL that makes the changes.

        Args:
            quoted: The table, with the lake and the schema.
            types: The table's columns and the DuckDB names of their types.

        Raises:
            SchemaError: A column or a type does not exist, two columns would have the same name, or a default is for a
                column that is not added.
        """
        self._check_arguments()
        for name in self.defaults:
            if name not in self.add:
                raise SchemaError(f"there is a default for {name!r}, but the column is not added", hint="add it too")
        check_names([_parts(name)[-1] for name in self.add] + [*self.rename.values()])
        alter = f"ALTER TABLE {quoted}"
        dropped = [f"{alter} DROP COLUMN {_existing(name, types)}" for name in name_list(self.drop, "drop")]
        renames, renamed = self._renamed(types)
        self._check_distinct(types)
        added = []
        for name, text in self.add.items():
            value = self.defaults.get(name)
            wanted = type_sql(name, text)
            # DuckLake only accepts a literal, and casts it to the column's type.
            default = "" if value is None else f" DEFAULT {literal(_stored(name, value, wanted))}"
            added.append(f"{alter} ADD COLUMN {_path(name)} {wanted}{default}")
        return (
            *dropped,
            *(f"{alter} RENAME COLUMN {change}" for change in renames),
            *(f"{alter} ALTER COLUMN {_promotion(name, text, renamed)}" for name, text in self.promote.items()),
            *added,
        )

    def _check_arguments(self) -> None:
        given = {"rename": self.rename, "promote": self.promote, "add": self.add, "defaults": self.defaults}
        for name, value in given.items():
            if not isinstance(value, Mapping):
                raise SchemaError(f"{name} is not a dictionary: {value!r}", hint=f"write {name}={{'column': …}}")

    def _check_distinct(self, types: Mapping[str, str]) -> None:
        """Refuses two columns, or two fields of a column, with the same name at any step."""
        names = ColumnNames(types)
        for name in self.drop:
            names.drop(_parts(name))
        for old, new in self.rename.items():
            names.rename(_parts(old), new)
        for name, count in Counter(folded(_path(name)) for name in self.promote).items():
            if count > 1:
                raise SchemaError(f"promote has two types for {name}", hint="name the column once")
        for name, text in self.add.items():
            names.add(_parts(name), text)

    def _renamed(self, types: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """The changes of names, and the columns after them; a later change sees the names of those before it."""
        gone = {folded(name) for name in map(_column, self.drop) if name is not None}
        known, made = {name: text for name, text in types.items() if folded(name) not in gone}, []
        for old, new in self.rename.items():
            first, *rest = _parts(old)
            column = known_column(first, known, "cannot rename an unknown column:")
            made.append(f"{_path(old)} TO {identifier(new)}")
            known = known if rest else {new if name == column else name: text for name, text in known.items()}
        return made, known


def evolution_for(frame: Mapping[str, str], types: Mapping[str, str]) -> Evolution:
    """The changes with which a table can store the rows of a frame: new columns and wider types.

    Args:
        frame: The frame's columns and the DuckDB names of their types.
        types: The table's columns and the DuckDB names of their types.
    """
    known = {folded(name): name for name in types}
    add, promote = {}, {}
    for name, given in frame.items():
        own = known.get(folded(name))
        if own is None:
            add[name] = given
        elif not fits(parsed_type(given), parsed_type(types[own])) and fits(
            parsed_type(types[own]), parsed_type(given)
        ):
            promote[identifier(own)] = given
    return Evolution(add={identifier(name): text for name, text in add.items()}, promote=promote)


def _parts(name: str) -> list[str]:
    """The parts of a dotted name; a part that contains a dot is quoted."""
    if not isinstance(name, str):
        raise SchemaError(f"{name!r} is not the name of a column", hint="write names as text")
    found = [(quoted.replace('""', '"') or plain) for quoted, plain in _PART.findall(name)]
    if not found or ".".join(match.group() for match in _PART.finditer(name)) != name:
        raise SchemaError(f"{name!r} is not the name of a column", hint='write column, column.field, or "odd.column"')
    return found


def _path(name: str) -> str:
    return qualified(*_parts(name))


def _column(name: str) -> str | None:
    """The column with this name; None for the name of a nested field."""
    first, *rest = _parts(name)
    return None if rest else first


def _existing(name: str, types: Mapping[str, str]) -> str:
    """The quoted name of a column or nested field that a table has."""
    why, (first, *rest) = "cannot drop an unknown column:", _parts(name)
    found = parsed_type(types[known_column(first, types, why)])
    for part in rest:
        inner = fields(found)
        if not inner:
            raise SchemaError(f"{why} {name!r}", hint=f"omit {part!r}: a column of the type {found} has no fields")
        found = inner[known_column(part, {field: str(kind) for field, kind in inner.items()}, why)]
    return _path(name)


def _promotion(name: str, text: str, types: Mapping[str, str]) -> str:
    first, *rest = _parts(name)
    # DuckDB only changes the type of a whole column, not of a nested field.
    column = known_column(first, types, "cannot promote an unknown column:")
    return f"{identifier(column)} SET DATA TYPE {_promoted(parsed_type(types[column]), rest, type_sql(name, text))}"


def _promoted(found: DuckDBPyType, path: Sequence[str], new: str) -> str:
    """The type, with the type of the nested field at `path` replaced."""
    if not path:
        check_promotion(found, parsed_type(new))
        return new
    first, *rest = path
    called = fields(found)
    known = known_column(first, {name: str(part) for name, part in called.items()}, "cannot promote an unknown column:")
    inner = {name: _promoted(part, rest, new) if name == known else str(part) for name, part in called.items()}
    if found.id == "list":
        return f"{inner['element']}[]"
    if found.id == "map":
        return f"MAP({inner['key']}, {inner['value']})"
    return f"STRUCT({', '.join(f'{identifier(name)} {text}' for name, text in inner.items())})"


def _stored(name: str, value: object, wanted: str) -> str:
    """A default as the text that DuckLake stores."""
    text = text_of(value, parsed_type(wanted))
    if text == "NULL":
        raise SchemaError(
            f"the default of {name!r} is the text NULL, which DuckLake would store as a NULL in new rows",
            hint="use another text",
        )
    return text
