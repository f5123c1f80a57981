"""Checks that a frame fits a table: it has the table's columns, with types whose values the table can hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import NESTED, digits_of, fields_of, ids_in, integers, parsed_type
from lakeconf.catalog.tables import columns_named
from lakeconf.engines.lossless import rounded_columns
from lakeconf.errors import SchemaError, suggestion
from lakeconf.logs import event_logger
from lakeconf.sql import folded

if TYPE_CHECKING:
    from lakeconf.catalog.tables import Column, TableInfo

_log = event_logger("stage")
_ARRAY = re.compile(r'"(?:[^"]|"")*"|\[\d+\]')
# Prefix of the columns that merges add to those of the frame and the table.
RESERVED = "__lakeconf_"
_INTEGERS = integers()

# For each type, the other types that convert to it without loss.
_WIDENINGS = {
    "double": {"float", "tinyint", "smallint", "integer", "utinyint", "usmallint", "uinteger"},
    "float": {"tinyint", "smallint", "utinyint", "usmallint"},
    "timestamp": {"date", "timestamp_s", "timestamp_ms"},
    "timestamp_ms": {"timestamp_s"},
    "varchar": {"enum", "uuid"},
    "uuid": {"varchar"},
}

# Accepted, and checked value by value: the types that a scan by Spark returns for types that Spark lacks, and the wider
# sums of DuckDB for columns that were created from Spark.
_CHECKED = {
    "bigint": {"hugeint"},
    "double": {"decimal"},
    "utinyint": {"smallint"},
    "usmallint": {"integer"},
    "uinteger": {"bigint"},
    "ubigint": {"decimal"},
    "hugeint": {"decimal"},
    "uhugeint": {"decimal"},
    "time": {"varchar"},
    "time with time zone": {"varchar"},
    "interval": {"varchar"},
    "timestamp_s": {"timestamp"},
    "timestamp_ms": {"timestamp"},
    "timestamp_ns": {"timestamp", "timestamp_s", "timestamp_ms"},
}

# The types that DuckLake cannot store, each with the types that can hold the values.
_UNSTORED = {
    "time_ns": "TIME",
    "enum": "VARCHAR",
    "array": "a list, such as FLOAT[] for FLOAT[3]",
    "union": "a STRUCT with a field for each kind of value",
    "bit": "VARCHAR or BLOB",
    "bignum": "VARCHAR or DECIMAL(38, 0)",
}


def selected(table: TableInfo, columns: Sequence[str] | None) -> tuple[Column, ...]:
    """The columns of the table with these names, in this order."""
    if columns is None:
        return table.columns
    chosen = columns_named(table, columns)
    if not chosen:
        raise SchemaError("no column is named", hint="name at least one column, or omit the list to use all columns")
    return chosen


def not_null_violation(column: str, table: str) -> SchemaError:
    """The error for a NULL in a NOT NULL column."""
    return SchemaError(
        f"the column {column!r} of {table} is NOT NULL, but the frame has a NULL there",
        hint="replace the NULL, or drop NOT NULL from the table",
    )


def check_distinct(names: Sequence[str], what: str = "the frame", kind: str = "columns") -> None:
    """Checks that columns have different names: of two columns, only one would be written."""
    for name, count in Counter(map(folded, names)).items():
        if count > 1:
            raise SchemaError(f"{what} has two {kind} {name!r}", hint="rename one of them")


def check_fit(table: str, frame: Mapping[str, str], columns: Mapping[str, str], *, all_columns: bool = True) -> None:
    """Checks that a frame can be written to a table: it has the columns by name, or only some, and their types fit."""
    names = {folded(name): name for name in columns}
    extra = [name for name in frame if folded(name) not in names]
    own_types = {names.get(folded(name)): type_name for name, type_name in frame.items()}
    if extra:
        hint = suggestion(extra[0], names, f"use one of the columns: {', '.join(names)}")
        message = f"the frame has a column {extra[0]!r} that is not in {table}"
        raise SchemaError(message, hint=f"{hint}; or add the column with evolve=True")
    for name, type_name in columns.items():
        if name not in own_types:
            if not all_columns:
                continue
            raise SchemaError(
                f"the frame lacks the column {name!r} ({type_name}) of {table}",
                hint="add it to the frame; to keep the values of existing rows, use merge(frame, on=…)",
            )
        own = own_types[name]
        if not fits(parsed_type(own), parsed_type(type_name)):
            error = SchemaError(
                f"the frame's column {name!r} is {own}, but in {table} it is {type_name}, which cannot hold all its "
                "values",
                hint=f"cast the frame's column to {type_name}, or evolve the table",
            )
            error.column, error.wanted = name, type_name
            raise error
        check_writable(name, parsed_type(type_name))


def fits(source: DuckDBPyType, target: DuckDBPyType) -> bool:
    """True if a column of type `target` can hold every value of type `source`, or each value is checked.

    Compares the types of DuckDB; nested types field by field, by name.
    """
    # JSON is an alias of VARCHAR.
    if source == target or source.id == "null" or source.id == target.id == "varchar":
        return True
    if source.id in _CHECKED.get(target.id, ()):
        return True
    if target.id in _INTEGERS:
        return source.id in _INTEGERS and _integer_fits(source.id, target.id)
    if target.id == "decimal":
        return _decimal_fits(source, target)
    # Of arrays with a fixed length, a list can hold every value.
    if target.id in NESTED and target.id == ("list" if source.id == "array" else source.id):
        theirs, ours = fields_of(source), fields_of(target)
        return theirs.keys() == ours.keys() and all(fits(theirs[name], ours[name]) for name in ours)
    return source.id in _WIDENINGS.get(target.id, ())


def as_list_types(types: Mapping[str, str]) -> dict[str, str]:
    """The types of columns for a table: lists in place of arrays with a fixed length, which files cannot store."""
    lists = {name: as_list_type(text) for name, text in types.items()}
    for name in (name for name, text in types.items() if text != lists[name]):
        _log.warning("the column %s of the type %s becomes a list: %s", name, types[name], lists[name])
    return lists


def as_list_type(text: str) -> str:
    """A type with lists in place of arrays with a fixed length."""
    return _ARRAY.sub(lambda part: part[0] if part[0][0] == '"' else "[]", text)


def check_names(names: Iterable[str]) -> None:
    """Rejects names that are not strings, and column names that lakeconf reserves."""
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(f"the column name {name!r} is not a string", hint="write names as strings")
        if not name or "\0" in name:
            raise SchemaError(
                f"{name!r} is not a column name", hint="use a name of at least one character, without NUL"
            )
        if name.lower().startswith(RESERVED):
            raise SchemaError(
                f"the column name {name!r} is reserved: lakeconf uses names that start with {RESERVED!r}",
                hint="rename the column",
            )


def check_writable(column: str, duckdb_type: DuckDBPyType) -> None:
    """Rejects types that DuckLake cannot store: after an attempt to write TIME_NS, DuckDB would be unusable."""
    for type_id in sorted(_UNSTORED.keys() & ids_in(duckdb_type)):
        problem = f"files cannot store the column {column!r} of the type {duckdb_type}"
        raise SchemaError(problem, hint=f"use {_UNSTORED[type_id]}")


def check_promotion(old: DuckDBPyType, new: DuckDBPyType) -> None:
    """Rejects a wider type that would change some of the existing values, which DuckLake allows."""
    if not fits(old, new) or (old != new and rounded_columns({"x": str(old)}, {"x": str(new)})):
        raise SchemaError(
            f"the type {new} cannot hold all values of the type {old} exactly",
            hint="add a column, and fill it with converted values",
        )


def _integer_fits(source: str, target: str) -> bool:
    (source_signed, source_bits), (target_signed, target_bits) = _INTEGERS[source], _INTEGERS[target]
    if source_signed == target_signed:
        return source_bits <= target_bits
    return target_signed and source_bits < target_bits


def _decimal_fits(source: DuckDBPyType, target: DuckDBPyType) -> bool:
    precision, scale = digits_of(target)
    if source.id in _INTEGERS:
        signed, bits = _INTEGERS[source.id]
        return precision - scale >= len(str(2 ** (bits - signed)))
    if source.id != "decimal":
        return False
    source_precision, source_scale = digits_of(source)
    return scale == source_scale or (scale > source_scale and precision - scale >= source_precision - source_scale)
