"""The SQL that creates a table or changes its columns."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from math import isinf
from numbers import Number
from pathlib import PurePath
from uuid import UUID

import duckdb
from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import (
    NESTED,
    SECOND_DIGITS,
    Fact,
    columns_of,
    digits_of,
    fields_of,
    ids_with,
    integers,
    parsed_type,
    types_in,
)
from lakeconf.catalog.sort_keys import SORT_KEY
from lakeconf.catalog.tables import NO_ID, Column, PartitionField, TableInfo, name_list
from lakeconf.connection.connection import closed_connection
from lakeconf.ducklake import check_placeholders
from lakeconf.engines.schema_check import (
    INEXACT_INTERVAL,
    STORED_AS_DOUBLE,
    check_distinct,
    check_names,
    check_writable,
)
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
    for one in (comment, *column_comments.values()):
        if not isinstance(one, str | None):
            raise SchemaError(f"a comment is not a string: {one!r}", hint="write comments as strings")
        if one is not None and "\0" in one:
            raise SchemaError(f"the comment {one!r} contains the character NUL", hint="remove it")
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
    """A type in DuckDB's spelling."""
    _check_text(name, text)
    try:
        found = parsed_type(text.strip())
        # `sqltype` ignores what follows a column's type: a default, or another column.
        duckdb.extract_statements(f"SELECT CAST(NULL AS {text}\n)")
    except duckdb.Error as error:
        problem = f"the column {name!r} has an invalid type {text!r}: {error}"
        raise SchemaError(problem, hint="write a type of DuckDB, such as BIGINT or DECIMAL(18, 2)") from error
    check_writable(name, found)
    if any(one.id == "null" for one in types_in(found)):
        raise SchemaError(f"the column {name!r} contains only NULLs, so its type is unknown", hint="cast the column")
    return str(found)


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
    if found.id not in ids_with(Fact.DATED) and not (transform == "hour" and found.id in SECOND_DIGITS):
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
        raise SchemaError(f"{why} {name!r}", hint="write names as strings")
    names = {folded(column): column for column in columns}
    if folded(name) in names:
        return names[folded(name)]
    hint = suggestion(name, columns, f"use one of the columns: {', '.join(columns)}")
    raise SchemaError(f"{why} {name!r}", hint=hint)


_INTEGERS = integers()
# The text of other objects is no value: an expression of polars, a function. Scalars of numpy have a `dtype`.
_KINDS = (str, bytes, bytearray, Number, date, time, timedelta, UUID, PurePath, Mapping, list, tuple, set)
_KNOWN = "pass a constant of Python, such as a number, a string or a date, or an expression of narwhals"
_OFFSET = re.compile(r":\d\d(?:\.\d+)?\s*(?:[+-]\d|Z$)")
_FRACTION = re.compile(r":\d\d\.(\d+)")


def constant(value: object, type_name: str) -> str:
    """A Python value as a SQL expression with a DuckDB type."""
    check_placeholders(str(value), "the value")
    wanted = parsed_type(type_name)
    found = _sql(value, wanted)
    return f"CAST({found} AS {type_name})" if value is not None and wanted.id in NESTED else found


def text_of(value: object, wanted: DuckDBPyType) -> str:
    """The text that DuckDB casts to a value of a type that is not nested."""
    if not isinstance(value, _KINDS) and not hasattr(value, "dtype"):
        raise SchemaError(f"{type(value).__name__} is not the type of a value", hint=_KNOWN)
    text = _text(value)
    if _is_of_another_kind(value, text, wanted.id) or _is_rounded(value, text, wanted):
        raise SchemaError(
            f"a column of the type {wanted} cannot hold {value!r} exactly",
            hint="pass a value that the type holds, or change the type of the column",
        )
    return text


def _sql(value: object, wanted: DuckDBPyType) -> str:
    if value is None:
        return "NULL"
    parts = fields_of(wanted)
    if isinstance(value, Mapping) and wanted.id == "struct":
        given = {folded(str(name)): one for name, one in value.items()}
        if len(given) == len(value) and given.keys() <= set(map(folded, parts)):
            fields = (f"{identifier(name)} := {_sql(given.get(folded(name)), part)}" for name, part in parts.items())
            return f"struct_pack({', '.join(fields)})"
    if isinstance(value, Mapping) and wanted.id == "map":
        keys, values = _listed(value, parts["key"]), _listed(value.values(), parts["value"])
        return f"MAP({keys}, {values})"
    if isinstance(value, (list, tuple)) and wanted.id == "list":
        return _listed(value, parts["element"])
    if isinstance(value, (bool, int, float)) and wanted.id == "variant":
        kind = "BOOLEAN" if isinstance(value, bool) else "BIGINT" if isinstance(value, int) else "DOUBLE"
        return f"CAST(CAST({literal(str(value))} AS {kind}) AS VARIANT)"
    return f"CAST({literal(text_of(value, wanted))} AS {wanted})"


def _listed(values: Iterable[object], wanted: DuckDBPyType) -> str:
    return f"[{', '.join(_sql(value, wanted) for value in values)}]"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (bytes, bytearray)):
        return "".join(f"\\x{octet:02X}" for octet in value)
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)} microseconds"
    return str(value)


def _is_of_another_kind(value: object, text: str, kind: str) -> bool:
    """True if DuckDB would cast the text of a value to another one: it would ignore a part, or read Python's syntax."""
    if isinstance(value, (bytes, bytearray)):
        return kind != "blob"
    if isinstance(value, timedelta):
        return kind != "interval"
    if isinstance(value, datetime) and kind != "varchar":
        return kind not in (ids_with(Fact.NAIVE) if value.tzinfo is None else ("timestamp with time zone",))
    if isinstance(value, date):
        return kind in ("time", "time with time zone", "variant")
    if isinstance(value, (Mapping, list, tuple, set)) or getattr(value, "shape", None):
        return True
    if kind == "date":
        return ":" in text
    return kind in SECOND_DIGITS and "zone" not in kind and bool(_OFFSET.search(text))


def _is_rounded(value: object, text: str, wanted: DuckDBPyType) -> bool:
    kept = SECOND_DIGITS.get(wanted.id)
    if kept is not None:
        fraction = _FRACTION.search(text)
        return fraction is not None and len(fraction[1].rstrip("0")) > kept
    if wanted.id == "interval":
        return bool(re.search(INEXACT_INTERVAL, _interval(text)))
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False  # DuckDB refuses it, if the column is a number
    if not number.is_finite():
        return False
    if wanted.id in _INTEGERS:
        return _decimals(number) > 0 or (wanted.id in STORED_AS_DOUBLE and not _is_double(int(number)))
    if wanted.id == "decimal":
        return _decimals(number) > digits_of(wanted)[1]
    if wanted.id in ("double", "float"):
        return _overflows(float(text), wanted.id) or (isinstance(value, int) and not _is_double(value))
    return False


def _decimals(number: Decimal) -> int:
    _, digits, exponent = number.as_tuple()
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return max(0, -int(exponent) - zeros) if any(digits) else 0


def _is_double(number: int) -> bool:
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def _overflows(number: float, kind: str) -> bool:
    try:
        struct.pack("<f" if kind == "float" else "<d", number)
    except OverflowError:
        return True
    return isinf(number)


def _interval(text: str) -> str:
    """An interval as DuckDB writes it."""
    with closed_connection() as connection:
        try:
            found = connection.execute(f"SELECT CAST(CAST({literal(text)} AS INTERVAL) AS VARCHAR)").fetchone()
        except duckdb.Error as error:
            raise SchemaError(f"{text!r} is not an interval", hint="write it like 2 days 03:00:00") from error
    return str(found[0]) if found else ""
