"""What lakeconf knows about each type of DuckLake; converts types of DuckDB to columns."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from itertools import count

import duckdb
from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.tables import Column
from lakeconf.errors import SchemaError, UnsupportedError
from lakeconf.sql import identifier

NESTED = ("struct", "list", "map")
# The `id` of each DuckDB type that contains types.
NESTED_IDS = (*NESTED, "array")
_INTEGER = re.compile(r"(?P<unsigned>u?)int(?P<bits>8|16|32|64|128)")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


class Fact(Flag):
    """What is true of a type; the comments say it of the type's values."""

    NONE = 0
    # Spark writes them like DuckLake, which takes a file of Spark as it is.
    AS_SPARK = auto()
    # Their bounds in a footer are exact, and text that DuckLake reads. Not floats: a footer does not say whether a
    # column contains NaN. Not BOOLEAN and BLOB: DuckLake writes their bounds differently.
    IN_FOOTERS = auto()
    # Their bounds in the catalog can be compared. Not BLOBs: the bounds are hex in some files and raw text in others.
    COMPARED = auto()
    # Their bucket depends on the value only, not on the sign of zero or the session's time zone.
    HASHED = auto()
    # A path can contain them, with the same meaning in Spark and DuckDB. Not floats: DuckDB treats -0.0 and 0.0 as one
    # partition. Not each BLOB can be in a path.
    IN_PATHS = auto()
    # Files store them inexactly.
    INEXACT = auto()
    # Files store them as DOUBLE, which cannot hold every value above 2^53.
    AS_DOUBLE = auto()
    # Floating-point numbers: NaN is outside all bounds, and -0.0 equals 0.0.
    FLOAT = auto()
    # They have a date.
    DATED = auto()
    # They have a date and a time, without a time zone.
    NAIVE = auto()
    # They have no literals and no common text; engines exchange them as they are.
    OPAQUE = auto()
    # Engines order them in different ways, or not at all.
    UNORDERED = auto()


@dataclass(frozen=True, slots=True)
class Type:
    """A type of DuckLake that is not nested."""

    duckdb: str  # its name in DuckDB; a decimal also has digits
    spark: str  # the type of its values in Spark; empty for a decimal, whose digits count
    # How Parquet stores its values: the physical type and, after a space, the logical one as Parquet's Java library
    # writes it. Empty if files store them as another type.
    parquet: str
    facts: Fact = Fact.NONE  # what is true of it
    second_digits: int | None = None  # the digits of a second that it keeps; None if it has no time


_SMALL = Fact.COMPARED | Fact.HASHED
_EXACT = Fact.AS_SPARK | Fact.IN_FOOTERS | Fact.COMPARED | Fact.IN_PATHS
_MOMENT = Fact.DATED | Fact.NAIVE | Fact.COMPARED
_INSTANT = _EXACT | Fact.DATED
_FLOAT = Fact.AS_SPARK | Fact.COMPARED | Fact.FLOAT
_DOUBLE = Fact.INEXACT | Fact.AS_DOUBLE
# GEOMETRY arrives in Spark as well-known binary.
TYPES = {
    "boolean": Type("BOOLEAN", "boolean", "BOOLEAN", Fact.AS_SPARK | Fact.COMPARED | Fact.IN_PATHS),
    "int8": Type("TINYINT", "tinyint", "INT32 INTEGER(8,true)", _EXACT | Fact.HASHED),
    "int16": Type("SMALLINT", "smallint", "INT32 INTEGER(16,true)", _EXACT | Fact.HASHED),
    "int32": Type("INTEGER", "int", "INT32", _EXACT | Fact.HASHED),
    "int64": Type("BIGINT", "bigint", "INT64", _EXACT | Fact.HASHED),
    "int128": Type("HUGEINT", "decimal(38,0)", "", _DOUBLE),
    "uint8": Type("UTINYINT", "smallint", "INT32 INTEGER(8,false)", _SMALL),
    "uint16": Type("USMALLINT", "int", "INT32 INTEGER(16,false)", _SMALL),
    "uint32": Type("UINTEGER", "bigint", "INT32 INTEGER(32,false)", _SMALL),
    "uint64": Type("UBIGINT", "decimal(20,0)", "INT64 INTEGER(64,false)", _SMALL),
    "uint128": Type("UHUGEINT", "decimal(38,0)", "", _DOUBLE),
    "decimal": Type("DECIMAL", "", "", _EXACT | Fact.HASHED),
    "float32": Type("FLOAT", "float", "FLOAT", _FLOAT),
    "float64": Type("DOUBLE", "double", "DOUBLE", _FLOAT),
    "varchar": Type("VARCHAR", "string", "BINARY STRING", _EXACT | Fact.HASHED),
    "json": Type("JSON", "string", "BINARY JSON", Fact.UNORDERED),
    "blob": Type("BLOB", "binary", "BINARY", Fact.AS_SPARK),
    "uuid": Type("UUID", "string", "FIXED_LEN_BYTE_ARRAY UUID", Fact.COMPARED),
    "date": Type("DATE", "date", "INT32 DATE", _EXACT | Fact.HASHED | Fact.DATED),
    "time": Type("TIME", "string", "INT64 TIME(MICROS,false)", second_digits=6),
    "timetz": Type("TIME WITH TIME ZONE", "string", "INT64 TIME(MICROS,true)", Fact.INEXACT, 6),
    "interval": Type("INTERVAL", "string", "FIXED_LEN_BYTE_ARRAY INTERVAL", Fact.INEXACT | Fact.UNORDERED),
    "timestamp": Type("TIMESTAMP", "timestamp_ntz", "INT64 TIMESTAMP(MICROS,false)", _EXACT | _MOMENT, 6),
    "timestamp_s": Type("TIMESTAMP_S", "timestamp_ntz", "", _MOMENT, 0),
    "timestamp_ms": Type("TIMESTAMP_MS", "timestamp_ntz", "INT64 TIMESTAMP(MILLIS,false)", _MOMENT, 3),
    "timestamp_ns": Type("TIMESTAMP_NS", "timestamp_ntz", "INT64 TIMESTAMP(NANOS,false)", _MOMENT, 9),
    "timestamptz": Type("TIMESTAMP WITH TIME ZONE", "timestamp", "INT64 TIMESTAMP(MICROS,true)", _INSTANT, 6),
    "variant": Type("VARIANT", "variant", "", Fact.OPAQUE | Fact.UNORDERED),
    "geometry": Type("GEOMETRY", "binary", "", Fact.OPAQUE | Fact.UNORDERED),
}

# DuckLake's types by the `id` of the DuckDB type; JSON has the id of VARCHAR.
_BY_ID = {column_type.duckdb.lower(): name for name, column_type in TYPES.items() if name != "json"}

# The digits of a second that a type keeps, by the `id` of the DuckDB type.
SECOND_DIGITS = {id_: digits for id_, name in _BY_ID.items() if (digits := TYPES[name].second_digits) is not None}


def has(type_name: str, fact: Fact) -> bool:
    """True if a fact is true of a type of DuckLake; false for nested and unknown types."""
    column_type = TYPES.get("decimal" if _DECIMAL.fullmatch(type_name) else type_name)
    return column_type is not None and fact in column_type.facts


def has_throughout(column: Column, fact: Fact, nested: Collection[str] = NESTED) -> bool:
    """True if a fact is true of a column, or of all fields at any depth, if these nested types contain them."""
    inner = all(has_throughout(child, fact, nested) for child in column.children)
    return inner and (column.type in nested or has(column.type, fact))


def names_with(fact: Fact) -> frozenset[str]:
    """The types of DuckLake of which a fact is true."""
    return frozenset(name for name in TYPES if has(name, fact))


def duckdb_names(fact: Fact) -> frozenset[str]:
    """The names in DuckDB of the types of which a fact is true."""
    return frozenset(TYPES[name].duckdb for name in names_with(fact))


def ids_with(fact: Fact) -> frozenset[str]:
    """The `id` of each DuckDB type of which a fact is true."""
    return frozenset(id_ for id_, name in _BY_ID.items() if has(name, fact))


def duckdb_name(type_name: str) -> str | None:
    """Returns the DuckDB name of a DuckLake type; None for nested and unknown types."""
    if _DECIMAL.fullmatch(type_name):
        return type_name.upper()
    return TYPES[type_name].duckdb if type_name in TYPES else None


def decimal_digits(type_name: str) -> tuple[int, int] | None:
    """Returns precision and scale of a `decimal(p,s)`; None for other types."""
    match = _DECIMAL.fullmatch(type_name)
    return (int(match[1]), int(match[2])) if match else None


def integer_bits(type_name: str) -> tuple[bool, int] | None:
    """Returns True if an integer type of DuckLake is signed, and its number of bits; None for other types."""
    match = _INTEGER.fullmatch(type_name)
    return (not match["unsigned"], int(match["bits"])) if match else None


def nested_sql(column: Column, leaf: Callable[[Column], str]) -> str:
    """Writes the type of a column in DuckDB's SQL; `leaf` writes a type that is not nested."""
    if column.type not in NESTED:
        return leaf(column)
    return type_of_parts(column.type, [(child.name, nested_sql(child, leaf)) for child in column.children])


def type_of_parts(type_id: str, parts: Iterable[tuple[str, str]]) -> str:
    """Writes a nested type in DuckDB's SQL, from the names and the types of its parts; an array becomes a list."""
    named = list(parts)
    if type_id == "struct":
        return f"STRUCT({', '.join(f'{identifier(name)} {part}' for name, part in named)})"
    types = [part for _, part in named]
    return f"MAP({types[0]}, {types[1]})" if type_id == "map" else f"{types[0]}[]"


def sql_type(column: Column) -> str:
    """Writes the type of a column in DuckDB's SQL."""
    return nested_sql(column, _leaf_sql)


def _leaf_sql(column: Column) -> str:
    name = duckdb_name(column.type)
    if name is None:
        raise UnsupportedError(f"the column {column.name!r} has the unknown type {column.type!r}")
    return name


def all_types(column: Column) -> set[str]:
    """Returns the types of a column and of its nested fields, at any depth."""
    return {column.type}.union(*map(all_types, column.children))


def integers() -> dict[str, tuple[bool, int]]:
    """Returns DuckDB's integer types by `id`, as `integer_bits`."""
    return {type_id: bits for type_id, name in _BY_ID.items() if (bits := integer_bits(name))}


def columns_of(types: Mapping[str, str], required: Collection[str] = (), first_id: int = 1) -> tuple[Column, ...]:
    """Returns the columns that DuckLake would create for a new table, with their field ids."""
    ids = count(first_id)
    return tuple(_column(name, parsed_type(text), ids, nullable=name not in required) for name, text in types.items())


@functools.lru_cache(4096)
def parsed_type(text: str) -> DuckDBPyType:
    """Parses the name of a type.

    DuckDB's default connection belongs to the user and may be in a failed transaction, which refuses even this. A
    cursor has its own transaction.
    """
    with duckdb.default_connection().cursor() as cursor:
        try:
            return cursor.sqltype(text)
        except duckdb.BinderException as error:
            # Frames can have structs with the fields `a` and `A`.
            problem = f"DuckDB does not have the type {text}: {error}"
            raise SchemaError(problem, hint="rename one of two fields whose names differ in their case only") from error


def fields_of(duckdb_type: DuckDBPyType) -> dict[str, DuckDBPyType]:
    """The fields of a struct, the `element` of a list or array, `key` and `value` of a map; empty for other types."""
    if duckdb_type.id not in NESTED_IDS:
        return {}
    parts = {name: part for name, part in duckdb_type.children if isinstance(part, DuckDBPyType)}
    return {"element": parts["child"]} if duckdb_type.id in ("list", "array") else parts


def ids_in(duckdb_type: DuckDBPyType) -> set[str]:
    """The `id` of a type and of the types in it, at any depth."""
    return {duckdb_type.id}.union(*map(ids_in, fields_of(duckdb_type).values()))


def digits_of(decimal: DuckDBPyType) -> tuple[int, int]:
    """The precision and the scale of a decimal type."""
    parts = dict(decimal.children)
    return int(str(parts["precision"])), int(str(parts["scale"]))


def _column(name: str, duckdb_type: DuckDBPyType, ids: Iterator[int], *, nullable: bool = True) -> Column:
    field_id = next(ids)
    parts = fields_of(duckdb_type) if duckdb_type.id in NESTED else {}
    children = tuple(_column(part, inner, ids) for part, inner in parts.items())
    return Column(field_id, name, _type_name(name, duckdb_type), nullable, None, children)


def _type_name(name: str, duckdb_type: DuckDBPyType) -> str:
    if duckdb_type.id in NESTED:
        return duckdb_type.id
    if duckdb_type.id == "decimal":
        return str(duckdb_type).lower()
    if str(duckdb_type) == "JSON":
        return "json"
    if duckdb_type.id not in _BY_ID:
        raise SchemaError(
            f"DuckLake does not support the DuckDB type {duckdb_type} of the column {name!r}",
            hint="cast the column to a type that DuckLake supports",
        )
    return _BY_ID[duckdb_type.id]
