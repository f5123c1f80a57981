"""The SQL that creates a table or changes its columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from lakeconf.catalog.column_lookup import name_list
from lakeconf.catalog.sort_keys import SORT_KEY
from lakeconf.catalog.table import NO_ID, Column, PartitionField, TableInfo
from lakeconf.catalog.types import columns_of, parsed_type
from lakeconf.engines.schema_check import check_distinct, check_names, check_writable, contains
from lakeconf.errors import SchemaError, suggestion
from lakeconf.sql import folded, identifier, literal

_TRANSFORM = re.compile(r"(?P<name>year|month|day|hour)\((?P<column>.+)\)|bucket\((?P<count>\d+),\s*(?P<bucketed>.+)\)")

_NOT_NULL = " NOT NULL"
_MOST_BUCKETS = 2**31 - 1
# The types with a year, a month and a day, and those that have only an hour.
_DATED = frozenset({"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone"})
_TIMES = frozenset({"time", "time with time zone"})


@dataclass(frozen=True)
class Definition:
    """A table to create.

    Attributes:
        columns: DuckDB types by column name; a type may be followed by `NOT NULL`.
        partitioned_by: Keys: a column, or `year(column)`, `month(…)`, `day(…)`, `hour(…)`, `bucket(n, column)`.
        sorted_by: Columns; each may be followed by `ASC` or `DESC`, and by `NULLS FIRST` or `NULLS LAST`.
        comment: A description of the table.
        column_comments: Descriptions of its columns, by name.
    """

    columns: Mapping[str, str]
    partitioned_by: Sequence[str] = ()
    sorted_by: Sequence[str] = ()
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)

    def statements(self, quoted_schema: str, quoted: str) -> tuple[str, ...]:
        """The SQL that creates the empty table, and its schema if it does not exist.

        Args:
            quoted_schema: The quoted name of the schema, including the lake.
            quoted: The quoted name of the table, including the lake and the schema.

        Raises:
            SchemaError: A type, a key or a column does not exist.
        """
        if not self.columns:
            raise SchemaError("a table needs at least one column", hint="add a column, such as id of the type BIGINT")
        check_names(self.columns)
        check_distinct(list(self.columns), "the table")
        types = {name: _checked_type(name, text) for name, text in self.columns.items()}
        listed = ", ".join(f"{identifier(name)} {text}" for name, text in types.items())
        made = [f"CREATE SCHEMA IF NOT EXISTS {quoted_schema}", f"CREATE TABLE {quoted} ({listed})"]
        keys = [_partition_key(key, types) for key in name_list(self.partitioned_by, "partitioned_by")]
        check_distinct(keys, "the table", "partition keys")
        order = [_sort_key(key, self.columns) for key in name_list(self.sorted_by, "sorted_by")]
        if keys:
            made.append(f"ALTER TABLE {quoted} SET PARTITIONED BY ({', '.join(keys)})")
        if order:
            made.append(f"ALTER TABLE {quoted} SET SORTED BY ({', '.join(order)})")
        return (*made, *comment_statements(quoted, self.columns, self.comment, self.column_comments))


def new_table(
    schema: str, name: str, path: str, described: Sequence[tuple[str, str, bool]], partitioned_by: Sequence[str]
) -> TableInfo:
    """The catalog entry of a table that is about to be created.

    Args:
        schema: The schema of the table.
        name: The name of the table.
        path: The folder of its files.
        described: For each column: its name, its DuckDB type, and whether it is nullable.
        partitioned_by: The partition keys.
    """
    columns = described_columns(described, ())
    ids = {folded(column.name): column.field_id for column in columns}
    fields = []
    for index, key in enumerate(partitioned_by):
        transform, column = _transform(key)
        fields.append(PartitionField(index, ids[folded(column)], transform))
    return TableInfo(NO_ID, schema, name, columns, path, 0 if fields else None, tuple(fields))


def described_columns(described: Sequence[tuple[str, str, bool]], known: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a table after a change; unchanged columns keep their field ids.

    Args:
        described: For each column: its name, its DuckDB type, and whether it is nullable.
        known: The columns before the change.
    """
    types = {name: type_name for name, type_name, _ in described}
    required = {name for name, _, takes_null in described if not takes_null}
    first_id = 1 + max((_last_id(column) for column in known), default=0)
    made = columns_of(types, required, first_id)
    same = {(column.name, _shape(column)): column for column in known}
    return tuple(same.get((column.name, _shape(column)), column) for column in made)


def comment_statements(
    quoted: str, columns: Iterable[str], comment: str | None, column_comments: Mapping[str, str | None]
) -> tuple[str, ...]:
    """The SQL that comments on a table and its columns.

    Args:
        quoted: The table, with the lake and the schema.
        columns: The names of the table's columns.
        comment: A description of the table; None to keep the one that it has.
        column_comments: Descriptions by column; None removes one.

    Raises:
        SchemaError: A column does not exist.
    """
    known = {name: name for name in columns}
    if not isinstance(column_comments, Mapping):
        raise SchemaError("the comments of columns are not a dictionary", hint="write {'column': 'its comment'}")
    for one in (comment, *column_comments.values()):
        if not isinstance(one, str | None):
            raise SchemaError(f"a comment is not a text: {one!r}", hint="write comments as text")
    made = [] if comment is None else [f"COMMENT ON TABLE {quoted} IS {literal(comment)}"]
    for name, text in column_comments.items():
        column = identifier(known_column(name, known, "a comment describes an unknown column:"))
        made.append(f"COMMENT ON COLUMN {quoted}.{column} IS {'NULL' if text is None else literal(text)}")
    return tuple(made)


def _checked_type(name: str, text: str) -> str:
    _check_text(name, text)
    found = re.fullmatch(r"(?P<type>.*?)(?P<not_null>\s+NOT\s+NULL)?", text.strip(), re.IGNORECASE | re.DOTALL)
    type_name = found["type"] if found else text
    return type_sql(name, type_name) + (_NOT_NULL if found and found["not_null"] else "")


def type_sql(name: str, text: str) -> str:
    """A type in DuckDB's spelling.

    Args:
        name: The column, for the error.
        text: The type; a default or further SQL after the type is refused.

    Raises:
        SchemaError: DuckDB has no such type.
    """
    _check_text(name, text)
    try:
        found = parsed_type(text.strip())
        # `sqltype` ignores what follows a column's type: a default, or another column.
        duckdb.extract_statements(f"SELECT CAST(NULL AS {text}\n)")
    except duckdb.Error as error:
        problem = f"the column {name!r} has an invalid type {text!r}: {error}"
        raise SchemaError(problem, hint="write a type of DuckDB, such as BIGINT or DECIMAL(18, 2)") from error
    check_writable(name, found)
    if contains(found, "null"):
        raise SchemaError(f"the column {name!r} contains only NULLs, so its type is unknown", hint="cast the column")
    return str(found)


def _check_text(name: str, text: object) -> None:
    """Refuses types of other libraries and of Python."""
    if not isinstance(text, str):
        raise SchemaError(
            f"the type of the column {name!r} is not a text: {text!r}",
            hint="write the name of a type of DuckDB, such as 'BIGINT'; or pass a frame with the columns",
        )


def _last_id(column: Column) -> int:
    return max([column.field_id, *map(_last_id, column.children)])


def _shape(column: Column) -> tuple[object, ...]:
    """The properties that distinguish the types of two columns, without field ids."""
    return (column.type, column.nullable, *((child.name, _shape(child)) for child in column.children))


def is_partition_key(key: str) -> bool:
    """False for a partition key with a function that DuckLake lacks, such as `week(day)`."""
    return _TRANSFORM.fullmatch(key.strip()) is not None or re.fullmatch(r"\w+\s*\(.*\)", key.strip()) is None


def _transform(key: str) -> tuple[str, str]:
    """The transform and the column of a partition key."""
    found = _TRANSFORM.fullmatch(key.strip())
    if not found:
        return "identity", key.strip()
    return (found["name"], found["column"]) if found["name"] else (f"bucket({found['count']})", found["bucketed"])


def _partition_key(key: str, columns: Mapping[str, str]) -> str:
    transform, column = _transform(key)
    quoted = identifier(known_column(column, columns, f"the partition key {key!r} names an unknown column:"))
    if transform == "identity":
        return quoted
    if transform.startswith("bucket("):
        if not 1 <= int(transform[len("bucket(") : -1]) <= _MOST_BUCKETS:
            raise SchemaError(
                f"the partition key {key!r} has no valid number of buckets",
                hint=f"use 1 to {_MOST_BUCKETS}, such as bucket(16, {column})",
            )
        return f"{transform[:-1]}, {quoted})"
    found = parsed_type(columns[known_column(column, columns, "")].removesuffix(_NOT_NULL))
    if found.id not in _DATED and not (transform == "hour" and found.id in _TIMES):
        raise SchemaError(
            f"the partition key {key!r} is for dates and times, but the column is {found}",
            hint=f"use the column itself as the key, or bucket(16, {column})",
        )
    return f"{transform}({quoted})"


def _sort_key(key: str, columns: Mapping[str, str]) -> str:
    found = SORT_KEY.fullmatch(key.strip())
    column = found["column"] if found else key
    quoted = identifier(known_column(column, columns, f"the sort key {key!r} names an unknown column:"))
    return quoted + (f"{found['direction'] or ''}{found['nulls'] or ''}".upper() if found else "")


def known_column(name: str, columns: Mapping[str, str], why: str) -> str:
    """The column with this name, ignoring case."""
    if not isinstance(name, str):
        raise SchemaError(f"{why} {name!r}", hint="write names as text")
    names = {folded(column): column for column in columns}
    if folded(name) in names:
        return names[folded(name)]
    hint = suggestion(name, columns, f"use one of the columns: {', '.join(columns)}")
    raise SchemaError(f"{why} {name!r}", hint=hint)
