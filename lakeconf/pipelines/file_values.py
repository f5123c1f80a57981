"""The values that DuckDB's readers change when they make a type of them, as conditions in SQL."""

from __future__ import annotations

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import (
    NESTED_IDS,
    SECOND_DIGITS,
    Fact,
    columns_of,
    decimal_digits,
    duckdb_name,
    fields_of,
    has,
    ids_with,
    integer_bits,
    integers,
    nested_sql,
    parsed_type,
    type_of_parts,
)
from lakeconf.catalog.tables import Column
from lakeconf.engines.lossless import FLOATS, has_more_digits, text_rounds, there_and_back
from lakeconf.sql import folded, literal

INTEGERS = integers()
ZONED = frozenset({"timestamp with time zone", "time with time zone"})
# The types of DuckDB whose values have a date.
DATED = ids_with(Fact.DATED)
_ISO = r"^\s*(-?\d{4,}[-/]\d{1,2}[-/]\d{1,2}(\D|$)|[+-]?infinity|epoch)"
# Matches almost all dates; the regular expression takes several times as long.
_PLAIN = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*"


def read_as(kind: str) -> str:
    """Returns the type to read a column of text as, so that checks find values that the type would change."""
    parsed = parsed_type(kind)
    if parsed.id in NESTED_IDS:
        return replaced(kind, integer="DOUBLE", decimal="DOUBLE", time="VARCHAR", boolean="VARCHAR")
    return "VARCHAR" if parsed.id in {*INTEGERS, *SECOND_DIGITS, *FLOATS, "decimal", "date", "boolean"} else kind


def replaced(kind: str, **types: str) -> str:
    """A type with other types for each `boolean`, `integer`, `decimal` and `time` (also dates) in it."""

    def leaf(column: Column) -> str:
        is_time = has(column.type, Fact.DATED) or column.type in ("time", "timetz")
        is_decimal, is_integer = decimal_digits(column.type), integer_bits(column.type)
        group = "time" if is_time else "decimal" if is_decimal else "integer" if is_integer else ""
        return types.get(group or column.type) or str(duckdb_name(column.type))

    (column,) = columns_of({"": kind})
    return nested_sql(column, leaf)


def rounds(column: str, source_type: str, target_type: str) -> str | None:
    """Returns the condition under which a cast would change a value; None if it never does."""
    if source_type == target_type:
        return None
    kind, source = parsed_type(target_type), parsed_type(source_type)
    if source.id == "varchar":
        return text_rounds(column, kind)
    if kind.id == "varchar":
        return None
    # A large integer may be one less as DOUBLE, and then one too large for its own type.
    cast = replaced(target_type, integer="HUGEINT") if "DOUBLE" in source_type else target_type
    changed = there_and_back(column, source_type, cast)
    if kind.id in NESTED_IDS and replaced(target_type, time="VARCHAR") != target_type:
        return f"{_written(changed)} IS DISTINCT FROM {_written(column)}"
    return f"{changed} IS DISTINCT FROM {column}"


def _written(nested: str) -> str:
    """The text of a nested value, with its times as DuckDB writes them."""
    return f"regexp_replace(regexp_replace({nested}::VARCHAR, '(\\d)T(\\d)', '\\1 \\2', 'g'), '(\\d)Z', '\\1+00', 'g')"


def is_guessed(column: str, source_type: str, target_type: str) -> str | None:
    """Returns the condition that a string has no date in ISO 8601, or that DuckDB omits its offset or all of it."""
    kind = parsed_type(target_type).id
    if parsed_type(source_type).id != "varchar" or kind not in DATED | ZONED | {"time"}:
        return None
    conditions = []
    if kind in DATED:
        unclear = f"NOT regexp_matches({column}, {literal(_ISO)}, 'i')"
        conditions.append(f"CASE WHEN {column} GLOB {literal(_PLAIN)} THEN false ELSE {unclear} END")
    if kind in ZONED:
        conditions.append(f"TRY_CAST({column} AS {target_type}) IS NULL")
    else:
        time = f"substr({column}, strpos({column}, ':'))"
        conditions.append(f"(contains({column}, ':') AND regexp_matches({time}, '[A-Za-z+-]'))")
    return f"({column} IS NOT NULL AND ({' OR '.join(conditions)}))"


def is_rewritten(column: str, source_type: str, target_type: str) -> str | None:
    """Returns the condition that a string for which DuckDB infers an integer is written in another way, such as 007."""
    if parsed_type(source_type).id != "varchar" or parsed_type(target_type).id not in INTEGERS:
        return None
    changes = f"CAST(TRY_CAST({column} AS {target_type}) AS VARCHAR) IS DISTINCT FROM trim({column})"
    return f"({column} IS NOT NULL AND {changes} AND NOT {has_more_digits(column, 0)})"


def has_repeated_key(column: str, source_type: str, target_type: str) -> str | None:  # noqa: ARG001 - as other conditions
    """Returns the condition that a map, at any depth, has a key twice: DuckDB reads it, but cannot return it."""
    return _repeats(column, parsed_type(source_type), 0)


def _repeats(column: str, kind: DuckDBPyType, depth: int) -> str | None:
    conditions = []
    if kind.id == "struct":
        for name, part in fields_of(kind).items():
            conditions.append(_repeats(f"struct_extract({column}, {literal(name)})", part, depth))
    elif fields_of(kind):
        keys, elements = f"map_keys({column})", f"map_values({column})" if kind.id == "map" else column
        conditions.append(f"len({keys}) > len(list_distinct({keys}))" if kind.id == "map" else None)
        item = f"lakeconf_{depth}"
        inner = _repeats(item, list(fields_of(kind).values())[-1], depth + 1)
        conditions.append(inner and f"len(list_filter({elements}, lambda {item}: {inner})) > 0")
    return " OR ".join(filter(None, conditions)) or None


def filled(kind: DuckDBPyType, other: DuckDBPyType, unknown: str) -> str:
    """A type of a column with the parts of another type in the places where DuckDB has inferred only `unknown`."""
    if str(kind) == unknown:
        return str(other)
    if kind.id != other.id or kind.id not in NESTED_IDS:
        return str(kind)
    others = {folded(name): part for name, part in fields_of(other).items()}
    parts = {name: filled(part, others.get(folded(name), part), unknown) for name, part in fields_of(kind).items()}
    return type_of_parts(kind.id, parts.items())


def has_unknown_value(column: str, kind: DuckDBPyType, unknown: str, depth: int = 0) -> str:
    """Returns the condition that a column has a value, at any depth, where DuckDB has inferred only `unknown`."""
    if str(kind) == unknown:
        return f"{column} IS NOT NULL"
    if kind.id == "struct":
        fields = fields_of(kind).items()
        inner = [
            has_unknown_value(f"struct_extract({column}, {literal(name)})", part, unknown) for name, part in fields
        ]
        return f"({' OR '.join(inner)})"
    if kind.id in ("list", "map"):
        elements, item = f"map_values({column})" if kind.id == "map" else column, f"lakeconf_{depth}"
        condition = has_unknown_value(item, [*fields_of(kind).values()][-1], unknown, depth + 1)
        return f"coalesce(len(list_filter({elements}, lambda {item}: {condition})), 0) > 0"
    return "false"
