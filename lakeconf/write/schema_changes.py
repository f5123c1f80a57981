"""The names of a table's columns and nested fields while it is changed: no two of them may be the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.admission import check_folder
from lakeconf.catalog.column_types import fields_of, parsed_type
from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.sql_references import find_references
from lakeconf.catalog.stored_queries import StoredQueries, view_names
from lakeconf.catalog.tables import (
    NO_ID,
    TableInfo,
    full_name,
    joined_name,
    name_list,
    refuse_internal,
    split_name,
    table_folder,
    tables,
)
from lakeconf.commit.audits import is_query
from lakeconf.commit.change import Change, SchemaChange
from lakeconf.commit.conflicts import ReadDependency, check_columns
from lakeconf.commit.evolved_columns import ColumnChanges
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import described
from lakeconf.commit.transaction import Target, Transaction
from lakeconf.ducklake import check_placeholders
from lakeconf.engines.schema_check import as_list_types, check_names, check_promotion, fits
from lakeconf.errors import (
    ConnectionFailed,
    LakeconfError,
    QueryError,
    SchemaError,
    TableNotFoundError,
    UnsupportedError,
    suggestion,
)
from lakeconf.sql import folded, identifier, literal, qualified
from lakeconf.write.ddl import (
    Definition,
    comment_statements,
    described_columns,
    known_column,
    new_table,
    text_of,
    type_sql,
)
from lakeconf.write.writes import (
    Writing,
    adopt,
    has_rows,
    quoted,
    read_dependency,
    read_dependency_at_commit,
    table_key,
    target,
    written_for,
)

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
        held, last = self._holder(path), folded(path[-1])
        if "element" in map(folded, path[2:-1]):  # DuckLake cannot read files that have none of the other fields
            problem = f"{'.'.join(path)!r} cannot be dropped, because it is in a list inside of another value"
            raise SchemaError(problem, hint="create a table without the field, and append the rows to it")
        if held is None or last not in held.names:
            raise SchemaError(f"{'.'.join(path)!r} is dropped twice", hint="name it once, or only its column")
        del held.names[last]
        if not held.names and len(path) > 1:
            # Elements of lists and maps cannot be dropped.
            what = path[0] if path[-2] in ("element", "key", "value") else ".".join(path[:-1])
            raise SchemaError(f"{'.'.join(path)!r} is the last field of its struct", hint=f"drop {what!r}")

    def rename(self, path: Sequence[str], new: str) -> None:
        """Renames a column or a field, unless the table does not have it."""
        held, old = self._holder(path), folded(path[-1])
        if held is None or old not in held.names:
            return
        _, inner = held.names.pop(old)
        _check_free(held, new, f"cannot rename {'.'.join(path)!r} to {new!r}", len(path))
        held.names[folded(new)] = (new, inner)

    def add(self, path: Sequence[str], kind: str) -> None:
        """Adds a column, or a field to a column, unless the table does not have that column."""
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
                inner = ColumnNames(fields_of(parsed_type(inner) if isinstance(inner, str) else inner))
                held.names[name] = (called, inner)
            held = inner
        return held


def _check_free(held: ColumnNames, name: str, change: str, depth: int) -> None:
    if folded(name) in held.names:
        what = "column" if depth == 1 else "field"
        raise SchemaError(f"{change}: there is a {what} {held.names[folded(name)][0]!r}", hint=_HINT)


_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True)
class Evolution:
    """Changes to a table's columns, applied in this order: drop, rename, promote, add.

    Names refer to columns, or with dots to nested fields: `device.os`, `tags.element.kind`, `map.value.kind`.
    """

    drop: Sequence[str] = ()  # names
    rename: Mapping[str, str] = field(default_factory=dict)  # new names by old names; a new name has no dots
    promote: Mapping[str, str] = field(default_factory=dict)  # new types by name
    add: Mapping[str, str] = field(default_factory=dict)  # types by name
    # Values of added columns, for existing rows and for new rows that do not set the column.
    defaults: Mapping[str, object] = field(default_factory=dict)

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

    def changes(self) -> ColumnChanges:
        """The changes as paths."""
        added = {name: _parts(name) for name in self.add}
        columns = {name: path[0] for name, path in added.items() if len(path) == 1}
        nested = (folded(column) for name, column in columns.items() if fields_of(parsed_type(self.add[name])))
        given = {name: value for name, value in self.defaults.items() if name in columns and value is not None}
        return ColumnChanges(
            [*map(_parts, self.drop)],
            [(_parts(old), new) for old, new in self.rename.items()],
            [*map(_parts, self.promote)],
            [*added.values()],
            frozenset(nested),
            {columns[name]: literal(_stored(name, value, self.add[name])) for name, value in given.items()},
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
        given = {"rename": self.rename, "promote": self.promote, "add": self.add, "defaults": self.defaults}
        for name, value in given.items():
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
        known, made = {name: text for name, text in types.items() if folded(name) not in gone}, []
        for old, new in self.rename.items():
            first, *rest = _parts(old)
            column = known_column(first, known, "cannot rename an unknown column:")
            made.append(f"{_path(old)} TO {identifier(new)}")
            known = known if rest else {new if name == column else name: text for name, text in known.items()}
        return made, known


def evolution_for(frame: Mapping[str, str], types: Mapping[str, str]) -> Evolution:
    """The changes with which a table can store the rows of a frame: new columns and nested fields, wider types."""
    known = {folded(name): name for name in types}
    add, promote = {}, {}
    for name, given in as_list_types(frame).items():
        own = known.get(folded(name))
        if own is None:
            add[identifier(name)] = given
        elif not fits(parsed_type(given), parsed_type(types[own])) and fits(
            parsed_type(types[own]), parsed_type(given)
        ):
            promote[identifier(own)] = given
        else:
            add |= _new_fields(parsed_type(given), parsed_type(types[own]), identifier(own))
    return Evolution(add=add, promote=promote)


def _new_fields(given: DuckDBPyType, own: DuckDBPyType, path: str) -> dict[str, str]:
    """The nested fields of a frame's column that the table's column lacks, with their types."""
    if given.id != own.id:
        return {}
    known, added = {folded(name): (name, part) for name, part in fields_of(own).items()}, dict[str, str]()
    for name, part in fields_of(given).items():
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
    found = [(quoted.replace('""', '"') or plain) for quoted, plain in _PART.findall(name)]
    if not found or ".".join(match.group() for match in _PART.finditer(name)) != name:
        raise SchemaError(f"{name!r} is not the name of a column", hint='write column, column.field, or "odd.column"')
    return found


def _path(name: str) -> str:
    return qualified(*_parts(name))


def _existing(name: str, types: Mapping[str, str]) -> str:
    """The quoted name of a column or nested field that a table has."""
    why, (first, *rest) = "cannot drop an unknown column:", _parts(name)
    found = parsed_type(types[known_column(first, types, why)])
    for part in rest:
        inner = fields_of(found)
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
    called = fields_of(found)
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
    if "\0" in text:
        raise SchemaError(f"the default of {name!r} contains the character NUL", hint="use another text")
    return text


def create(scope: Scope, name: str, definition: Definition) -> None:
    """Creates an empty table, and its schema if it does not exist; in a transaction, at its commit."""
    refuse_internal(name)
    schema, table = split_name(name)
    created = joined_name(schema, table)
    session = scope.session
    folder = _free_folder(scope, name)
    quoted_schema = qualified(session.alias, schema)
    full = f"{quoted_schema}.{identifier(table)}"
    statements = definition.statements(quoted_schema, full)
    check_placeholders("\n".join(statements), f"the definition of {created}")
    with Writing(scope, f"create table {created}") as transaction:
        if transaction.explicit:
            described = _described(transaction, statements, full)
            info = new_table(schema, table, folder, described, definition.partitioned_by)
            transaction.targets[table_key(name)] = Target(info, {column: text for column, text, _ in described})
        transaction.add(Change(created, SchemaChange(statements)))


@repeated
def _free_folder(scope: Scope, name: str) -> str:
    """The folder of a table that does not exist yet."""
    schema, table = split_name(name)
    with scope.session.reader.one_state() as reader:
        if exists(scope, name, reader):
            raise SchemaError(
                f"the table {joined_name(schema, table)} already exists",
                hint="use lake.table(…), or pass if_not_exists=True",
            )
        folder = table_folder(reader, schema, table, scope.snapshot_id)
    check_folder(scope.session.reader.data_path, folder)
    return folder


def exists(scope: Scope, name: str, reader: CatalogReader | None = None) -> bool:
    """True if there is a table with this name at the lake's snapshot; in a transaction, after it."""
    reader = reader or scope.session.reader
    pending = scope.transaction.targets.get(table_key(name)) if scope.transaction else None
    if pending is not None:
        return pending.exists
    return table_key(name) in {folded(info.full_name) for info in tables(reader, scope.snapshot_id)}


def evolve(transaction: Transaction, name: str, evolution: Evolution) -> None:
    """Changes a table's columns."""
    before = target(transaction, name)
    full = quoted(transaction.session, before.info)
    statements = evolution.statements(full, before.types)
    if not statements:
        return
    evolution.check_added(before.evolved.nested)
    changes = evolution.changes()
    before.evolved.check(changes)
    check_placeholders("\n".join(statements), f"the change of {before.info.full_name}")
    described = _described(transaction, statements, full, before.info)
    info = replace(before.info, columns=described_columns(described, before.info.columns))
    _add_definition(transaction, before.info, statements, read_dependency(transaction, before.info, on_rows=False))
    types = {column: text for column, text, _ in described}
    transaction.targets[table_key(name)] = Target(
        info, types, evolved=before.evolved.after(changes, before.info.columns)
    )


def adopt_for(transaction: Transaction, name: str, frame: object, *, widen: bool) -> tuple[Any, Target]:
    """A frame and its table, which gets the columns that it lacks and wider types for the values, if wanted."""
    adopted = adopt(transaction, name, frame)
    if widen:
        schema = transaction.session.engine.schema(adopted)
        evolve(transaction, name, evolution_for(schema, target(transaction, name).types))
    return adopted, target(transaction, name)


def drop(scope: Scope, name: str) -> None:
    """Drops a table; earlier snapshots keep it."""
    full = full_name(name)
    with Writing(scope, f"drop table {full}") as transaction:
        before = _changeable(transaction, name)
        if has_rows(transaction, before.info):
            raise SchemaError(f"the transaction has written to {full}", hint="drop the table in another transaction")
        statement = f"DROP TABLE {quoted(transaction.session, before.info)}"
        _add_definition(transaction, before.info, (statement,), read_dependency_at_commit(transaction, before.info))
        transaction.targets[table_key(name)] = replace(before, ended_by=f"dropped {full}", exists=False)


def rename(scope: Scope, name: str, new_name: str) -> None:
    """Renames a table within its schema."""
    (schema, _), (new_schema, new_table) = split_name(name), split_name(new_name)
    old, new = full_name(name), full_name(new_name)
    if folded(schema) != folded(new_schema):
        raise SchemaError(
            f"DuckLake cannot move {old} to the schema {new_schema!r}", hint=f"use {joined_name(schema, new_table)!r}"
        )
    if table_key(name) != table_key(new_name) and exists(scope, new_name):
        raise SchemaError(f"the table {new} already exists", hint="drop or rename it first")
    with Writing(scope, f"rename table {old} to {new}") as transaction:
        before = _changeable(transaction, name)
        _check_unchanged(transaction, before.info)
        info = replace(before.info, name=new_table)
        full = quoted(transaction.session, before.info)
        statement = f"ALTER TABLE {full} RENAME TO {identifier(new_table)}"
        check_placeholders(statement, f"the new name of {old}")
        _described(transaction, (statement,), quoted(transaction.session, info), before.info)
        depends_on = read_dependency(transaction, before.info, on_rows=False)
        _add_definition(transaction, before.info, (statement,), depends_on)
        renamed = replace(before, ended_by=f"renamed {old} to {new}", exists=False)
        transaction.targets[table_key(name)] = renamed
        transaction.targets[table_key(new_name)] = replace(renamed, info=info, exists=True)


def _check_unchanged(transaction: Transaction, info: TableInfo) -> None:
    """Refuses to rename a table whose definition the transaction has changed.

    DuckLake would store its columns twice, and then nobody could read the lake.
    """
    defined = [change.table for change in transaction.changes if isinstance(change.body, SchemaChange)]
    changed = folded(info.full_name) in map(folded, defined)
    if changed and info.table_id != NO_ID:
        raise SchemaError(
            f"the transaction has changed columns or comments of {info.full_name}, which DuckLake cannot then rename",
            hint="rename the table in another transaction",
        )


def set_comments(transaction: Transaction, name: str, comment: str | None, columns: Mapping[str, str | None]) -> None:
    """Sets or removes the comment of a table, and those of some of its columns."""
    before = target(transaction, name)
    statements = comment_statements(quoted(transaction.session, before.info), before.types, comment, columns)
    _define(transaction, before.info, statements, "a comment")


def set_defaults(transaction: Transaction, name: str, defaults: Mapping[str, str]) -> None:
    """Sets the values of columns for new rows that do not set them."""
    info = target(transaction, name).info
    alter = f"ALTER TABLE {quoted(transaction.session, info)} ALTER COLUMN"
    statements = tuple(f"{alter} {identifier(name)} SET DEFAULT {literal(value)}" for name, value in defaults.items())
    _define(transaction, info, statements, "a default")


def _define(transaction: Transaction, info: TableInfo, statements: tuple[str, ...], what: str) -> None:
    check_placeholders("\n".join(statements), f"{what} of {info.full_name}")
    if statements:
        _add_definition(transaction, info, statements, read_dependency(transaction, info, on_rows=False))


def _changeable(transaction: Transaction, name: str) -> Target:
    """A table to drop or rename."""
    try:
        return target(transaction, name)
    except UnsupportedError as error:
        raise SchemaError(f"{full_name(name)} is not a table", hint="use lake.drop_view(…) for a view") from error


def _add_definition(
    transaction: Transaction, info: TableInfo, statements: tuple[str, ...], depends_on: ReadDependency | None
) -> None:
    # The catalog records no table id for a rename, so only `written_for` finds a table that took the name of another.
    read = written_for(transaction, info)
    transaction.add(Change(info.full_name, SchemaChange(statements), depends_on, written_for=read))


def drop_view(scope: Scope, name: str) -> None:
    """Drops a view of the lake."""
    schema, view = split_name(name)
    dropped = joined_name(schema, view)
    known = view_names(scope.session.reader, scope.snapshot_id)
    if folded(dropped) not in map(folded, known):
        raise TableNotFoundError(f"no view {dropped!r}", hint=suggestion(dropped, known) or None)
    statement = f"DROP VIEW {qualified(scope.session.alias, schema, view)}"
    with Writing(scope, f"drop view {dropped}") as transaction:
        transaction.add(Change(dropped, SchemaChange((statement,))))


def create_view(scope: Scope, name: str, sql: str) -> None:
    """Creates or replaces a view of the lake."""
    refuse_internal(name)
    # Without this check, DuckDB would run statements that follow the query.
    if not is_query(sql):
        raise QueryError("a view needs a single query", hint="write one SELECT … or FROM …")
    reader = scope.session.reader
    StoredQueries.load(reader).check(find_references(reader.connection, sql))  # DuckDB binds what the query uses
    schema, view = split_name(name)
    created = joined_name(schema, view)
    quoted_schema = qualified(scope.session.alias, schema)
    statements = (
        f"CREATE SCHEMA IF NOT EXISTS {quoted_schema}",
        f"CREATE OR REPLACE VIEW {quoted_schema}.{identifier(view)} AS {sql}",
    )
    with Writing(scope, f"create view {created}") as transaction:
        check_placeholders(statements[1], f"the view {created}")
        transaction.add(Change(created, SchemaChange(statements)))


def _described(
    transaction: Transaction, statements: Sequence[str], full: str, before: TableInfo | None = None
) -> list[tuple[str, str, bool]]:
    """The columns of the table `full` after some statements, which change the table `before`; nothing is changed."""
    bodies = [change.body for change in transaction.changes]
    earlier = [statement for body in bodies if isinstance(body, SchemaChange) for statement in body.sql]
    try:
        return described(transaction.session, [*earlier, *statements], full)
    except ConnectionFailed:
        raise
    except LakeconfError as error:
        read = None if before is None else written_for(transaction, before)
        if read is not None:
            reader = transaction.session.reader
            check_columns(reader, [read], latest(reader).snapshot_id)
        raise SchemaError(f"DuckLake rejected the change: {error.message}") from error
