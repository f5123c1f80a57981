"""Changes the columns of a table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import fields_of, parsed_type
from lakeconf.catalog.tables import name_list
from lakeconf.commit.actions import Action, DefineTable, Target
from lakeconf.commit.evolved_columns import ChangedColumns
from lakeconf.ducklake import check_placeholders
from lakeconf.engines.schema_check import as_list_types, check_names, check_promotion, fits
from lakeconf.errors import SchemaError
from lakeconf.sql import folded, identifier, literal, qualified
from lakeconf.write.column_names import ColumnNames
from lakeconf.write.constants import text_of
from lakeconf.write.context import WriteContext, table_key
from lakeconf.write.ddl import described_columns, known_column, type_sql
from lakeconf.write.operations.define import define, described_after

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True)
class Evolution:
    """Changes the columns of a table, in this order: drop, rename, promote, add; see `Table.evolve`.

    Names refer to columns, or with dots to nested fields: `device.os`, `tags.element.kind`, `map.value.kind`.
    """

    drop: Sequence[str] = ()  # names
    rename: Mapping[str, str] = field(default_factory=dict)  # new names by old names; a new name has no dots
    promote: Mapping[str, str] = field(default_factory=dict)  # new types by name
    add: Mapping[str, str] = field(default_factory=dict)  # types by name
    # Values of added columns, for existing rows and for new rows that do not set the column.
    defaults: Mapping[str, object] = field(default_factory=dict)

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """The change of the table; nothing if there are no changes."""
        return self.actions(context, context.target())

    def actions(self, context: WriteContext, before: Target) -> Sequence[DefineTable]:
        """The change of a table that is known already."""
        info, name = before.info, context.quoted(before.info)
        statements = self.statements(name, before.types)
        if not statements:
            return ()
        changes = self.changes()
        self.check_added(before.evolved.nested)
        before.evolved.check(changes)
        check_placeholders("\n".join(statements), f"the change of {info.full_name}")
        described = described_after(context, statements, name, before)
        types = {column: type_name for column, type_name, _ in described}
        evolved = Target(
            replace(info, columns=described_columns(described, info.columns)),
            types,
            stored=None,
            evolved=before.evolved.after(changes, info.columns),
        )
        action = define(context, before, statements, targets={table_key(context.table): evolved})
        return [replace(action, adds_nested=bool(changes.nested))]

    def statements(self, quoted: str, types: Mapping[str, str]) -> tuple[str, ...]:
        """The SQL that makes the changes."""
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
            type_name = type_sql(name, text)
            # DuckLake only accepts a literal, and casts it to the column's type.
            default = "" if value is None else f" DEFAULT {literal(stored_default(name, value, type_name))}"
            added.append(f"{alter} ADD COLUMN {_path(name)} {type_name}{default}")
        return (
            *dropped,
            *(f"{alter} RENAME COLUMN {change}" for change in renames),
            *(f"{alter} ALTER COLUMN {_promotion(name, text, renamed)}" for name, text in self.promote.items()),
            *added,
        )

    def changes(self) -> ChangedColumns:
        """The changes as paths."""
        added = {name: _parts(name) for name in self.add}
        columns = {name: path[0] for name, path in added.items() if len(path) == 1}
        nested = (folded(column) for name, column in columns.items() if fields_of(parsed_type(self.add[name])))
        defaults = {name: value for name, value in self.defaults.items() if name in columns and value is not None}
        return ChangedColumns(
            [*map(_parts, self.drop)],
            [(_parts(old), new) for old, new in self.rename.items()],
            [*map(_parts, self.promote)],
            [*added.values()],
            frozenset(nested),
            {columns[name]: literal(stored_default(name, value, self.add[name])) for name, value in defaults.items()},
        )

    def check_added(self, added: Collection[str]) -> None:
        """Rejects a change of a nested column that the transaction has added.

        DuckLake would store the column without its fields, or twice, and then nobody could open the lake.
        """
        fields = [name for name in self.drop if len(_parts(name)) > 1]
        for name in (*fields, *self.rename, *self.promote):
            if folded(_parts(name)[0]) in added:
                raise SchemaError(
                    f"the transaction has added the column of {name!r}, which DuckLake cannot then change",
                    hint="add the column as it should be, or change it in another transaction",
                )

    def _check_arguments(self) -> None:
        arguments = {"rename": self.rename, "promote": self.promote, "add": self.add, "defaults": self.defaults}
        for name, value in arguments.items():
            if not isinstance(value, Mapping):
                raise SchemaError(f"{name} is not a dictionary: {value!r}", hint=f"write {name}={{'column': …}}")

    def _check_distinct(self, types: Mapping[str, str]) -> None:
        """Rejects two columns, or two fields of a column, with the same name at any step."""
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
        gone = {folded(path[0]) for path in map(_parts, self.drop) if len(path) == 1}
        known, changes = {name: text for name, text in types.items() if folded(name) not in gone}, []
        for old, new in self.rename.items():
            first, *rest = _parts(old)
            column = known_column(first, known, "cannot rename an unknown column:")
            changes.append(f"{_path(old)} TO {identifier(new)}")
            known = known if rest else {new if name == column else name: text for name, text in known.items()}
        return changes, known


def evolved_for(context: WriteContext, target: Target, frame: Any) -> tuple[Target, Sequence[DefineTable]]:
    """The table with the columns that it lacks for an adopted frame, and wider types; and the actions for that."""
    schema = context.session.engine.schema(frame)
    definitions = evolution_for(schema, target.types).actions(context, target)
    for definition in definitions:
        target = definition.targets[table_key(context.table)]
    return target, definitions


def evolution_for(frame: Mapping[str, str], types: Mapping[str, str]) -> Evolution:
    """The changes with which a table can store the rows of a frame: new columns and nested fields, wider types."""
    known = {folded(name): name for name in types}
    add, promote = {}, {}
    for name, type_name in as_list_types(frame).items():
        own = known.get(folded(name))
        if own is None:
            add[identifier(name)] = type_name
            continue
        theirs, ours = parsed_type(type_name), parsed_type(types[own])
        if not fits(theirs, ours) and fits(ours, theirs):
            promote[identifier(own)] = type_name
        else:
            add |= _new_fields(theirs, ours, identifier(own))
    return Evolution(add=add, promote=promote)


def _new_fields(theirs: DuckDBPyType, ours: DuckDBPyType, path: str) -> dict[str, str]:
    """The nested fields of a frame's column that the table's column lacks, with their types."""
    if theirs.id != ours.id:
        return {}
    known, added = {folded(name): (name, part) for name, part in fields_of(ours).items()}, dict[str, str]()
    for name, part in fields_of(theirs).items():
        if folded(name) in known:
            called, kind = known[folded(name)]
            added |= _new_fields(part, kind, f"{path}.{identifier(called)}")
        else:
            added[f"{path}.{identifier(name)}"] = str(part)
    return added


def _parts(name: str) -> list[str]:
    """The parts of a dotted name; a part that contains a dot is quoted."""
    if not isinstance(name, str):
        raise SchemaError(f"{name!r} is not the name of a column", hint="write names as strings")
    parts = [(quoted.replace('""', '"') or plain) for quoted, plain in _PART.findall(name)]
    if not parts or ".".join(match.group() for match in _PART.finditer(name)) != name:
        raise SchemaError(f"{name!r} is not the name of a column", hint='write column, column.field, or "odd.column"')
    return parts


def _path(name: str) -> str:
    return qualified(*_parts(name))


def _existing(name: str, types: Mapping[str, str]) -> str:
    """The quoted name of a column or nested field that a table has."""
    why, (first, *rest) = "cannot drop an unknown column:", _parts(name)
    kind = parsed_type(types[known_column(first, types, why)])
    for part in rest:
        inner = fields_of(kind)
        if not inner:
            raise SchemaError(f"{why} {name!r}", hint=f"omit {part!r}: a column of the type {kind} has no fields")
        kind = inner[known_column(part, {field: str(type_) for field, type_ in inner.items()}, why)]
    return _path(name)


def _promotion(name: str, text: str, types: Mapping[str, str]) -> str:
    first, *rest = _parts(name)
    # DuckDB only changes the type of a whole column, not of a nested field.
    column = known_column(first, types, "cannot promote an unknown column:")
    return f"{identifier(column)} SET DATA TYPE {_promoted(parsed_type(types[column]), rest, type_sql(name, text))}"


def _promoted(kind: DuckDBPyType, path: Sequence[str], new: str) -> str:
    """The type, with the type of the nested field at `path` replaced."""
    if not path:
        check_promotion(kind, parsed_type(new))
        return new
    first, *rest = path
    called = fields_of(kind)
    known = known_column(first, {name: str(part) for name, part in called.items()}, "cannot promote an unknown column:")
    inner = {name: _promoted(part, rest, new) if name == known else str(part) for name, part in called.items()}
    if kind.id == "list":
        return f"{inner['element']}[]"
    if kind.id == "map":
        return f"MAP({inner['key']}, {inner['value']})"
    return f"STRUCT({', '.join(f'{identifier(name)} {text}' for name, text in inner.items())})"


def stored_default(name: str, value: object, type_name: str) -> str:
    """A default as the string that DuckLake stores."""
    text = text_of(value, parsed_type(type_name))
    if text == "NULL":
        raise SchemaError(
            f"the default of {name!r} is the text NULL, which DuckLake would store as a NULL in new rows",
            hint="use another text",
        )
    if "\0" in text:
        raise SchemaError(f"the default of {name!r} contains the character NUL", hint="use another text")
    return text
