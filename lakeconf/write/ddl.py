"""The SQL that creates a table or changes its columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import duckdb

from lakeconf.catalog.column_types import (
    SECOND_DIGITS,
    Fact,
    columns_of,
    ids_in,
    ids_with,
    parsed_type,
)
from lakeconf.catalog.sort_keys import SORT_KEY
from lakeconf.catalog.tables import NO_ID, Column, PartitionField, TableInfo, name_list
from lakeconf.engines.schema_check import check_distinct, check_names, check_writable
from lakeconf.errors import SchemaError, suggestion
from lakeconf.sql import folded, identifier, literal

_TRANSFORM = re.compile(r"(?P<name>year|month|day|hour)\((?P<column>.+)\)|bucket\((?P<count>\d+),\s*(?P<bucketed>.+)\)")
_NOT_NULL = " NOT NULL"
_MOST_BUCKETS = 2**31 - 1


@dataclass(frozen=True)
class Definition:
    """A table to create."""

    columns: Mapping[str, str]  # DuckDB types by column name; a type may be followed by `NOT NULL`
    # Keys: a column, or `year(column)`, `month(…)`, `day(…)`, `hour(…)`, `bucket(n, column)`.
    partitioned_by: Sequence[str] = ()
    # Columns; each may be followed by `ASC` or `DESC`, and by `NULLS FIRST` or `NULLS LAST`.
    sorted_by: Sequence[str] = ()
    comment: str | None = None  # a description of the table
    column_comments: Mapping[str, str] = field(default_factory=dict)  # descriptions of its columns, by name

    def statements(self, quoted_schema: str, quoted: str) -> tuple[str, ...]:
        """The SQL that creates the empty table, and its schema if it does not exist."""
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
    """The catalog entry of a table that is about to be created."""
    columns = described_columns(described, ())
    ids = {folded(column.name): column.field_id for column in columns}
    fields = []
    for index, key in enumerate(partitioned_by):
        transform, column = _transform(key)
        fields.append(PartitionField(index, ids[folded(column)], transform))
    return TableInfo(NO_ID, schema, name, columns, path, 0 if fields else None, tuple(fields))


def described_columns(described: Sequence[tuple[str, str, bool]], known: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a table after a change; unchanged columns keep their field ids."""
    types = {name: type_name for name, type_name, _ in described}
    required = {name for name, _, takes_null in described if not takes_null}
    first_id = 1 + max((_last_id(column) for column in known), default=0)
    made = columns_of(types, required, first_id)
    same = {(column.name, _shape(column)): column for column in known}
    # Which one has another name is not known: none of the others may be read by its bucket.
    any_buckets = any(column.is_bucketed for column in known)
    new = (replace(column, has_other_buckets=any_buckets) for column in made)
    return tuple(same.get((column.name, _shape(column)), column) for column in new)


def comment_statements(
    quoted: str, columns: Iterable[str], comment: str | None, column_comments: Mapping[str, str | None]
) -> tuple[str, ...]:
    """The SQL that comments on a table and its columns."""
    known = {name: name for name in columns}
    if not isinstance(column_comments, Mapping):
        raise SchemaError("the comments of columns are not a dictionary", hint="write {'column': 'its comment'}")
    for text in (comment, *column_comments.values()):
        if not isinstance(text, str | None):
            raise SchemaError(f"a comment is not a string: {text!r}", hint="write comments as strings")
        if text is not None and "\0" in text:
            raise SchemaError(f"the comment {text!r} contains the character NUL", hint="remove it")
    made = [] if comment is None else [f"COMMENT ON TABLE {quoted} IS {literal(comment)}"]
    for name, text in column_comments.items():
        column = identifier(known_column(name, known, "a comment describes an unknown column:"))
        made.append(f"COMMENT ON COLUMN {quoted}.{column} IS {'NULL' if text is None else literal(text)}")
    return tuple(made)


def _checked_type(name: str, text: str) -> str:
    _check_text(name, text)
    parts = re.fullmatch(r"(?P<type>.*?)(?P<not_null>\s+NOT\s+NULL)?", text.strip(), re.IGNORECASE | re.DOTALL)
    type_name = parts["type"] if parts else text
    return type_sql(name, type_name) + (_NOT_NULL if parts and parts["not_null"] else "")


def type_sql(name: str, text: str) -> str:
    """A type in DuckDB's spelling."""
    _check_text(name, text)
    try:
        kind = parsed_type(text.strip())
        # `sqltype` ignores what follows a column's type: a default, or another column.
        duckdb.extract_statements(f"SELECT CAST(NULL AS {text}\n)")
    except duckdb.Error as error:
        problem = f"the column {name!r} has an invalid type {text!r}: {error}"
        raise SchemaError(problem, hint="write a type of DuckDB, such as BIGINT or DECIMAL(18, 2)") from error
    check_writable(name, kind)
    if "null" in ids_in(kind):
        raise SchemaError(f"the column {name!r} contains only NULLs, so its type is unknown", hint="cast the column")
    return str(kind)


def _check_text(name: str, text: object) -> None:
    """Rejects types of other libraries and of Python."""
    if not isinstance(text, str):
        raise SchemaError(
            f"the type of the column {name!r} is not a string: {text!r}",
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
    match = _TRANSFORM.fullmatch(key.strip())
    if not match:
        return "identity", key.strip()
    return (match["name"], match["column"]) if match["name"] else (f"bucket({match['count']})", match["bucketed"])


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
    kind = parsed_type(columns[known_column(column, columns, "")].removesuffix(_NOT_NULL))
    if kind.id not in ids_with(Fact.DATED) and not (transform == "hour" and kind.id in SECOND_DIGITS):
        raise SchemaError(
            f"the partition key {key!r} is for dates and times, but the column is {kind}",
            hint=f"use the column itself as the key, or bucket(16, {column})",
        )
    return f"{transform}({quoted})"


def _sort_key(key: str, columns: Mapping[str, str]) -> str:
    match = SORT_KEY.fullmatch(key.strip())
    column = match["column"] if match else key
    quoted = identifier(known_column(column, columns, f"the sort key {key!r} names an unknown column:"))
    return quoted + (f"{match['direction'] or ''}{match['nulls'] or ''}".upper() if match else "")


def known_column(name: str, columns: Mapping[str, str], why: str) -> str:
    """The column with this name, ignoring case."""
    if not isinstance(name, str):
        raise SchemaError(f"{why} {name!r}", hint="write names as strings")
    names = {folded(column): column for column in columns}
    if folded(name) in names:
        return names[folded(name)]
    hint = suggestion(name, columns, f"use one of the columns: {', '.join(columns)}")
    raise SchemaError(f"{why} {name!r}", hint=hint)
