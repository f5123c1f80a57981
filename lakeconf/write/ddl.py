"""The SQL that makes a table, and that changes its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.table import Column, PartitionField, TableInfo
from lakeconf.catalog.types import columns_of
from lakeconf.ducklake import check_placeholders
from lakeconf.engines.schema_check import check_names, fits, has_null
from lakeconf.errors import SchemaError, suggestion
from lakeconf.sql import identifier, literal

_TRANSFORM = re.compile(r"(?P<name>year|month|day|hour)\((?P<column>.+)\)|bucket\((?P<count>\d+),\s*(?P<bucketed>.+)\)")
# No table has this id: the catalog gives a table one when it is committed.
NO_ID = -1
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_ORDER = re.compile(
    r"(?P<column>.+?)(?P<direction>\s+(?:ASC|DESC))?(?P<nulls>\s+NULLS\s+(?:FIRST|LAST))?", re.IGNORECASE
)


@dataclass(frozen=True)
class Definition:
    """A table that is to be made.

    Attributes:
        columns: Columns and their types, which `NOT NULL` may follow.
        partitioned_by: Keys: a column, or `year(column)`, `month(…)`, `day(…)`, `hour(…)`, `bucket(n, column)`.
        sorted_by: Columns, each of which `ASC` or `DESC` and `NULLS FIRST` or `NULLS LAST` may follow.
        comment: What the table is.
        column_comments: What its columns are, by name.
    """

    columns: Mapping[str, str]
    partitioned_by: Sequence[str] = ()
    sorted_by: Sequence[str] = ()
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)

    def statements(self, quoted_schema: str, quoted: str) -> tuple[str, ...]:
        """The SQL that makes the empty table, and its schema where there is none.

        Args:
            quoted_schema: The schema, with the lake.
            quoted: The table, with the lake and the schema.

        Raises:
            SchemaError: A type, a key or a column does not exist.
        """
        check_names(self.columns)
        listed = ", ".join(f"{identifier(name)} {_checked_type(name, text)}" for name, text in self.columns.items())
        made = [f"CREATE SCHEMA IF NOT EXISTS {quoted_schema}", f"CREATE TABLE {quoted} ({listed})"]
        keys = [_partition_key(key, self.columns) for key in self.partitioned_by]
        order = [_sort_key(key, self.columns) for key in self.sorted_by]
        if keys:
            made.append(f"ALTER TABLE {quoted} SET PARTITIONED BY ({', '.join(keys)})")
        if order:
            made.append(f"ALTER TABLE {quoted} SET SORTED BY ({', '.join(order)})")
        if self.comment is not None:
            made.append(f"COMMENT ON TABLE {quoted} IS {literal(self.comment)}")
        for name, comment in self.column_comments.items():
            column = identifier(_known(name, self.columns, "a comment is for"))
            made.append(f"COMMENT ON COLUMN {quoted}.{column} IS {literal(comment)}")
        return tuple(made)


@dataclass(frozen=True)
class Evolution:
    """Changes of a table's columns, made in this order: dropped, renamed, promoted, added.

    A name is that of a column, or with dots that of a field in one: `device.os`, `tags.element.kind`, `map.value.kind`.

    Attributes:
        drop: Names.
        rename: New names by old ones; the new name has no dots.
        promote: New types by name.
        add: Types by name.
        defaults: The values of added columns in the rows that there are, and in those that do not say another.
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
            types: The table's columns and their types, in DuckDB's names.

        Raises:
            SchemaError: A column or a type does not exist, or a default is for a column that is not added.
        """
        for name in self.defaults:
            if name not in self.add:
                raise SchemaError(f"a default is given for {name!r}, which is not added")
        check_names([_parts(name)[-1] for name in self.add] + [*self.rename.values()])
        alter = f"ALTER TABLE {quoted}"
        added = []
        for name, text in self.add.items():
            value = self.defaults.get(name)
            default = "" if value is None else f" DEFAULT {_default(value)}"
            added.append(f"{alter} ADD COLUMN {_path(name)} {type_sql(name, text)}{default}")
        return (
            *(f"{alter} DROP COLUMN {_path(name)}" for name in self.drop),
            *(f"{alter} RENAME COLUMN {_path(old)} TO {identifier(new)}" for old, new in self.rename.items()),
            *(f"{alter} ALTER COLUMN {self._promotion(name, text, types)}" for name, text in self.promote.items()),
            *added,
        )

    def _promotion(self, name: str, text: str, types: Mapping[str, str]) -> str:
        first, *rest = _parts(name)
        # DuckDB takes the new type of a field only as that of the whole column.
        column = _known(first, types, "there is nothing to promote:") if rest else first
        new = _promoted(duckdb.sqltype(types[column]), rest, type_sql(name, text)) if rest else type_sql(name, text)
        return f"{identifier(column)} SET DATA TYPE {new}"


def new_table(
    schema: str, name: str, path: str, described: Sequence[tuple[str, str, bool]], partitioned_by: Sequence[str]
) -> TableInfo:
    """A table that is about to be made, as the catalog will have it.

    Args:
        schema: Its schema.
        name: Its name.
        path: The folder of its files.
        described: Its columns: names, types in DuckDB's names, and whether they take NULL.
        partitioned_by: The keys of its partitioning.
    """
    columns = described_columns(described, ())
    ids = {column.name.lower(): column.field_id for column in columns}
    fields = []
    for index, key in enumerate(partitioned_by):
        transform, column = _transform(key)
        fields.append(PartitionField(index, ids[column.lower()], transform))
    return TableInfo(NO_ID, schema, name, columns, path, 0 if fields else None, tuple(fields))


def described_columns(described: Sequence[tuple[str, str, bool]], known: Sequence[Column]) -> tuple[Column, ...]:
    """Columns as a table will have them; those that stay as they are keep their field ids.

    Args:
        described: Names, types in DuckDB's names, and whether they take NULL.
        known: The columns that there are.
    """
    types = {name: type_name for name, type_name, _ in described}
    required = {name for name, _, takes_null in described if not takes_null}
    first_id = 1 + max((_last_id(column) for column in known), default=0)
    made = columns_of(types, required, first_id)
    same = {(column.name, _shape(column)): column for column in known}
    return tuple(same.get((column.name, _shape(column)), column) for column in made)


def evolution_for(frame: Mapping[str, str], types: Mapping[str, str]) -> Evolution:
    """What a table needs so that it can hold the rows of a frame: columns that it lacks, and wider types.

    Args:
        frame: The frame's columns and their types, in DuckDB's names.
        types: The table's.
    """
    known = {name.lower(): name for name in types}
    add, promote = {}, {}
    for name, given in frame.items():
        own = known.get(name.lower())
        if own is None:
            add[name] = given
        elif not fits(duckdb.sqltype(given), duckdb.sqltype(types[own])) and fits(
            duckdb.sqltype(types[own]), duckdb.sqltype(given)
        ):
            promote[identifier(own)] = given
    return Evolution(add={identifier(name): text for name, text in add.items()}, promote=promote)


def constant(value: object, type_name: str) -> str:
    """A value of Python in SQL, with a type of DuckDB's."""
    check_placeholders(str(value), "the value")
    return "NULL" if value is None else f"CAST({literal(str(value))} AS {type_name})"


def _default(value: object) -> str:
    """A default value; DuckLake takes nothing but a literal, and casts it to the column's type."""
    return literal(str(value).lower() if isinstance(value, bool) else str(value))


def _checked_type(name: str, text: str) -> str:
    found = re.fullmatch(r"(?P<type>.*?)(?P<not_null>\s+NOT\s+NULL)?", text.strip(), re.IGNORECASE | re.DOTALL)
    type_name = found["type"] if found else text
    return type_sql(name, type_name) + (" NOT NULL" if found and found["not_null"] else "")


def type_sql(name: str, text: str) -> str:
    """A type as DuckDB writes it.

    Args:
        name: The column, for the error.
        text: The type; nothing may follow it, be it a default or more SQL.

    Raises:
        SchemaError: It is no type of DuckDB's.
    """
    try:
        found = duckdb.sqltype(text.strip())
        # `sqltype` ignores what follows a column's type: a default, or another column.
        duckdb.extract_statements(f"SELECT CAST(NULL AS {text}\n)")
    except duckdb.Error as error:
        raise SchemaError(f"the column {name!r} is of type {text!r}, which DuckDB does not know: {error}") from error
    if has_null(found):
        raise SchemaError(f"the column {name!r} has only NULLs, so its type is not known", hint="cast the column")
    return str(found)


def _last_id(column: Column) -> int:
    return max([column.field_id, *map(_last_id, column.children)])


def _shape(column: Column) -> tuple[object, ...]:
    """What tells the types of two columns apart, whatever their field ids are."""
    return (column.type, column.nullable, *((child.name, _shape(child)) for child in column.children))


def _transform(key: str) -> tuple[str, str]:
    """The transform of a partition key, and the column that it is of."""
    found = _TRANSFORM.fullmatch(key.strip())
    if not found:
        return "identity", key.strip()
    return (found["name"], found["column"]) if found["name"] else (f"bucket({found['count']})", found["bucketed"])


def _partition_key(key: str, columns: Mapping[str, str]) -> str:
    transform, column = _transform(key)
    quoted = identifier(_known(column, columns, f"the partition key {key!r} names no column of the table:"))
    if transform == "identity":
        return quoted
    if transform.startswith("bucket("):
        return f"{transform[:-1]}, {quoted})"
    return f"{transform}({quoted})"


def _sort_key(key: str, columns: Mapping[str, str]) -> str:
    found = _ORDER.fullmatch(key.strip())
    column = found["column"] if found else key
    quoted = identifier(_known(column, columns, f"the sort key {key!r} names no column of the table:"))
    return quoted + (f"{found['direction'] or ''}{found['nulls'] or ''}".upper() if found else "")


def _known(name: str, columns: Mapping[str, str], why: str) -> str:
    """The column of that name, however it is cased."""
    names = {column.lower(): column for column in columns}
    if name.lower() in names:
        return names[name.lower()]
    raise SchemaError(f"{why} {name!r}", hint=suggestion(name, columns, f"the columns are {', '.join(columns)}"))


def _parts(name: str) -> list[str]:
    """The parts of a name with dots; one that has a dot in it is quoted."""
    found = [(quoted.replace('""', '"') or plain) for quoted, plain in _PART.findall(name)]
    if not found or ".".join(match.group() for match in _PART.finditer(name)) != name:
        raise SchemaError(f"{name!r} is not the name of a column", hint='write column, column.field, or "odd.column"')
    return found


def _path(name: str) -> str:
    return ".".join(map(identifier, _parts(name)))


def _promoted(found: DuckDBPyType, path: Sequence[str], new: str) -> str:
    """The type with another one at the place `path` in it."""
    if not path:
        return new
    first, *rest = path
    parts = {name: part for name, part in found.children if isinstance(part, DuckDBPyType)}
    names = {"list": {"child": "element"}}.get(found.id, {})
    called = {names.get(name, name): part for name, part in parts.items()}
    known = _known(first, {name: str(part) for name, part in called.items()}, "there is nothing to promote:")
    inner = {name: _promoted(part, rest, new) if name == known else str(part) for name, part in called.items()}
    if found.id == "list":
        return f"{inner['element']}[]"
    if found.id == "map":
        return f"MAP({inner['key']}, {inner['value']})"
    return f"STRUCT({', '.join(f'{identifier(name)} {text}' for name, text in inner.items())})"
