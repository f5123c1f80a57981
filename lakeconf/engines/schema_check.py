"""Casts of a frame's columns to a table's types that fail for values they would change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import NESTED, Fact, digits_of, fields_of, ids_with, integers, parsed_type, types_in
from lakeconf.catalog.tables import columns_named
from lakeconf.connection.duckdb_errors import REFUSED_VALUE
from lakeconf.ducklake import PLACEHOLDER
from lakeconf.errors import SchemaError, suggestion
from lakeconf.logs import EventLogger
from lakeconf.sql import folded, identifier, literal

if TYPE_CHECKING:
    from lakeconf.catalog.tables import Column, TableInfo


_log = EventLogger("stage")
_TIMES = ("time", "time with time zone", "interval")
# Casts that round silently, or may round.
_ROUNDED = {
    *(("decimal", wanted) for wanted in ("ubigint", "hugeint", "uhugeint")),
    *(("timestamp", wanted) for wanted in ("timestamp_s", "timestamp_ms")),
    ("decimal", "double"),
}
_TEXTS = ("varchar", "blob", "variant")
STORED_AS_DOUBLE = ids_with(Fact.AS_DOUBLE)
# Files store the milliseconds of an interval in 32 bits: 1193 hours. The pattern is for DuckDB and for Python.
INEXACT_INTERVAL = r"\.\d{3}\d*[1-9]|\b(119[3-9]|1[2-9]\d\d|[2-9]\d{3}|\d{5,}):\d\d:\d\d"
_EXACT_IN_DOUBLE = frozenset({"tinyint", "smallint", "integer", "utinyint", "usmallint", "uinteger"})
_WITH_OFFSET = "time with time zone"
# How files store a type, by its name in SQL: the values that the cast to it changes.
_STORED = {"HUGEINT": "DOUBLE", "UHUGEINT": "DOUBLE", "TIME WITH TIME ZONE": "TIME"}
_ARRAY = re.compile(r'"(?:[^"]|"")*"|\[\d+\]')
_CHANGED = re.compile(r'"(?:[^"]|"")*"|\bU?HUGEINT\b|\bTIME WITH TIME ZONE\b')


def exact_casts(found: Mapping[str, str], types: Mapping[str, str]) -> str:
    """The SELECT list that casts the columns of a frame to these names and types."""
    names = {folded(name): name for name in found}
    casts = []
    for name, wanted in types.items():
        given = names[folded(name)]
        casts.append(f"{_cast(name, identifier(given), found[given], wanted)} AS {identifier(name)}")
    return ", ".join(casts)


def rounded_columns(found: Mapping[str, str], types: Mapping[str, str]) -> list[str]:
    """The columns whose casts may fail because the table's type would round a value."""
    names = {folded(name): text for name, text in found.items()}
    return [name for name, wanted in types.items() if _rounds(identifier(name), names[folded(name)], wanted)]


def changed_by_files(name: str, text: str) -> str:
    """The condition under which files change the value of a column of a type that they store inexactly."""
    return _rounds(identifier(name), text, text) or "false"


def is_stored_inexactly(found: DuckDBPyType) -> bool:
    """True if values of the type contain an integer, interval or offset that Parquet files may change, at any depth."""
    return any(one.id in ids_with(Fact.INEXACT) for one in types_in(found))


def has_text(found: DuckDBPyType) -> bool:
    """True if values of the type contain text at any depth."""
    return any(one.id in _TEXTS for one in types_in(found))


def placeholder_message(name: str) -> str:
    """The error message for a value that contains a placeholder of DuckLake."""
    return (
        f"{REFUSED_VALUE} the column {name!r} has a value with a placeholder that DuckLake would replace in its "
        "statistics, such as SNAPSHOT_ID"
    )


def _cast(name: str, column: str, given: str, wanted: str) -> str:
    cast = f"CAST({column} AS {wanted})"
    rounds = _rounds(column, given, wanted)
    cases = ""
    if rounds:
        message = f"{REFUSED_VALUE} the column {name!r} has values that its type {wanted} would round"
        cases += f" WHEN {rounds} THEN error({literal(message)})"
    if has_text(parsed_type(wanted)):
        text = f"CAST({column} AS VARCHAR)"
        holds = f"contains({text}, '{{') AND regexp_matches({text}, {literal(PLACEHOLDER)})"
        cases += f" WHEN {holds} THEN error({literal(placeholder_message(name))})"
    return f"CASE{cases} ELSE {cast} END" if cases else cast


def _rounds(column: str, given: str, wanted: str) -> str | None:
    """The condition under which a cast would lose precision; None if it never does."""
    pairs = _leaves(parsed_type(given), parsed_type(wanted))
    conditions = []
    if pairs & _ROUNDED:
        conditions.append(f"TRY_CAST(CAST({column} AS {wanted}) AS {given}) IS DISTINCT FROM {column}")
    if any(pair == ("varchar", time) for pair in pairs for time in _TIMES):
        conditions.append(f"regexp_matches(CAST({column} AS VARCHAR), '\\.\\d{{6}}\\d*[1-9]')")
    if ("varchar", "time") in pairs:  # DuckDB leaves out an offset
        conditions.append(f"regexp_matches(CAST({column} AS VARCHAR), ':\\d\\d[\\d.]*\\s*[-+Zz]')")
    if any(kind == "interval" for _, kind in pairs):
        text = f"CAST(CAST({column} AS {wanted}) AS VARCHAR)"
        conditions.append(f"regexp_matches({text}, {literal(INEXACT_INTERVAL)})")
    if any(kind == _WITH_OFFSET for _, kind in pairs):
        conditions.append(f"contains(CAST(CAST({column} AS {wanted}) AS VARCHAR), '24:00:00')")
    inexact = {kind for source, kind in pairs if source not in _EXACT_IN_DOUBLE}
    if inexact & {*STORED_AS_DOUBLE, _WITH_OFFSET}:
        stored = _CHANGED.sub(lambda found: _STORED.get(found[0], found[0]), str(parsed_type(wanted)))
        value = f"CAST({column} AS {wanted})"
        conditions.append(f"TRY_CAST(CAST({value} AS {stored}) AS {wanted}) IS DISTINCT FROM {value}")
    return " OR ".join(conditions) or None


def _leaves(given: DuckDBPyType, wanted: DuckDBPyType) -> set[tuple[str, str]]:
    """The pairs of source and target types in a cast, at any depth."""
    theirs, ours = ({folded(name): part for name, part in fields_of(one).items()} for one in (given, wanted))
    pairs: set[tuple[str, str]] = {(given.id, wanted.id)} if theirs.keys() != ours.keys() or not ours else set()
    for name in theirs.keys() & ours.keys():
        pairs |= _leaves(theirs[name], ours[name])
    return pairs


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
    found = columns_named(table, columns)
    if not found:
        raise SchemaError("no column is named", hint="name at least one column, or omit the list to use all columns")
    return found


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


def check_fit(table: str, frame: Mapping[str, str], wanted: Mapping[str, str], *, all_columns: bool = True) -> None:
    """Checks that a frame can be written to a table: it has the columns by name, or only some, and their types fit."""
    given = {folded(name): type_name for name, type_name in frame.items()}
    known = {folded(name): name for name in wanted}
    extra = [name for name in frame if folded(name) not in known]
    if extra:
        hint = suggestion(extra[0], known, f"use one of the columns: {', '.join(known)}")
        message = f"the frame has a column {extra[0]!r} that is not in {table}"
        raise SchemaError(message, hint=f"{hint}; or add the column with evolve=True")
    for name, type_name in wanted.items():
        if folded(name) not in given:
            if not all_columns:
                continue
            raise SchemaError(
                f"the frame lacks the column {name!r} ({type_name}) of {table}",
                hint="add it to the frame; to keep the values of existing rows, use merge(frame, on=…)",
            )
        own = given[folded(name)]
        if not fits(parsed_type(own), parsed_type(type_name)):
            error = SchemaError(
                f"the frame's column {name!r} is {own}, but in {table} it is {type_name}, which cannot hold all its "
                "values",
                hint=f"cast the frame's column to {type_name}, or evolve the table",
            )
            error.column, error.wanted = name, type_name
            raise error
        check_writable(name, parsed_type(type_name))


def fits(given: DuckDBPyType, wanted: DuckDBPyType) -> bool:
    """True if a column of type `wanted` can hold every value of type `given`, or each value is checked.

    Compares the types of DuckDB; nested types field by field, by name.
    """
    # JSON is an alias of VARCHAR.
    if given == wanted or given.id == "null" or given.id == wanted.id == "varchar":
        return True
    if given.id in _CHECKED.get(wanted.id, ()):
        return True
    if wanted.id in _INTEGERS:
        return given.id in _INTEGERS and _integer_fits(given.id, wanted.id)
    if wanted.id == "decimal":
        return _decimal_fits(given, wanted)
    # Of arrays with a fixed length, a list can hold every value.
    if wanted.id in NESTED and wanted.id == ("list" if given.id == "array" else given.id):
        theirs, ours = fields_of(given), fields_of(wanted)
        return theirs.keys() == ours.keys() and all(fits(theirs[name], ours[name]) for name in ours)
    return given.id in _WIDENINGS.get(wanted.id, ())


def as_list_types(types: Mapping[str, str]) -> dict[str, str]:
    """The types of columns for a table: lists in place of arrays with a fixed length, which files cannot store."""
    found = {
        name: _ARRAY.sub(lambda part: part[0] if part[0][0] == '"' else "[]", text) for name, text in types.items()
    }
    for name in (name for name, text in types.items() if text != found[name]):
        _log.warning("the column %s of the type %s becomes a list: %s", name, types[name], found[name])
    return found


def check_names(names: Iterable[str]) -> None:
    """Rejects names that are no string, and column names that lakeconf reserves."""
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


def check_writable(column: str, found: DuckDBPyType) -> None:
    """Rejects types that DuckLake cannot store: after an attempt to write TIME_NS, DuckDB would be unusable."""
    for instead in (_UNSTORED[one.id] for one in types_in(found) if one.id in _UNSTORED):
        raise SchemaError(f"files cannot store the column {column!r} of the type {found}", hint=f"use {instead}")


def check_promotion(found: DuckDBPyType, new: DuckDBPyType) -> None:
    """Rejects a wider type that would change some of the existing values, which DuckLake allows."""
    if not fits(found, new) or (found != new and rounded_columns({"x": str(found)}, {"x": str(new)})):
        raise SchemaError(
            f"the type {new} cannot hold all values of the type {found} exactly",
            hint="add a column, and fill it with converted values",
        )


def _integer_fits(given: str, wanted: str) -> bool:
    (given_signed, given_bits), (wanted_signed, wanted_bits) = _INTEGERS[given], _INTEGERS[wanted]
    if given_signed == wanted_signed:
        return given_bits <= wanted_bits
    return wanted_signed and given_bits < wanted_bits


def _decimal_fits(given: DuckDBPyType, wanted: DuckDBPyType) -> bool:
    precision, scale = digits_of(wanted)
    if given.id in _INTEGERS:
        signed, bits = _INTEGERS[given.id]
        return precision - scale >= len(str(2 ** (bits - signed)))
    if given.id != "decimal":
        return False
    given_precision, given_scale = digits_of(given)
    return scale == given_scale or (scale > given_scale and precision - scale >= given_precision - given_scale)
