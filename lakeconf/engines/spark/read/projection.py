"""DuckDB SQL that reads a table's columns from one Parquet file."""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.table import Column
from lakeconf.ducklake import INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID
from lakeconf.engines.spark.read.columns import Found
from lakeconf.engines.spark.read.executor_code import POSITION
from lakeconf.engines.spark.types import duckdb_type
from lakeconf.sql import identifier, literal


def constant_sql(text: str | None, column: Column) -> str:
    """Casts a text from the catalog or from a path to the column's type."""
    # DuckDB does not validate this JSON; a cast would.
    type_ = "VARCHAR" if column.type == "json" else duckdb_type(column, for_spark=False)
    return f"CAST({'NULL' if text is None else literal(text)} AS {type_})"


def column_sql(column: Column, place: Found) -> str:
    """A column of the file, cast to its type in the table."""
    return f"CAST({_nested(identifier(place.name), column, place, 0)} AS {duckdb_type(column, for_spark=False)})"


def by_id_source(columns: Sequence[Column]) -> str:
    """The FROM clause for an encrypted file: columns are matched by field id and get their names in the table.

    Its parameters (`?`) are the file and the key.
    """
    fields = [(c.field_id, c.name, duckdb_type(c, for_spark=False), c.initial_default) for c in columns]
    fields += [(*internal, "BIGINT", None) for internal in (INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID)]
    entries = ", ".join(
        f"{field_id}: {{'name': {literal(name)}, 'type': {literal(type_)}, "
        f"'default_value': {'NULL' if default is None else literal(default)}}}"
        for field_id, name, type_, default in fields
    )
    config = "encryption_config = {footer_key_value: from_base64(?)}"
    return f"read_parquet(?, {config}, schema = MAP {{{entries}}})"


def row_id_sql(file: DataFile, stored: str | None) -> str:
    """The row id; `stored` is the column that contains it for some rows, or None."""
    position = "NULL" if file.row_id_start is None else f"{POSITION} + {file.row_id_start}"
    return f"CAST({_either(stored, position)} AS BIGINT)"


def snapshot_sql(file: DataFile, stored: str | None) -> str:
    """The snapshot of a row; `stored` is the column that contains it for some rows, or None."""
    return f"CAST({_either(stored, str(file.begin_snapshot))} AS BIGINT)"


def _either(stored: str | None, otherwise: str) -> str:
    return otherwise if stored is None else f"coalesce({identifier(stored)}, {otherwise})"


def _nested(value: str, column: Column, place: Found, depth: int) -> str:
    if column.type == "struct":
        return _struct(value, column, place, depth)
    inner = [at for at in place.children if at is not None]
    if len(inner) != len(column.children):
        return "NULL"
    item = f"item{depth}"
    if column.type == "list":
        return f"list_transform({value}, lambda {item}: {_nested(item, column.children[0], inner[0], depth + 1)})"
    if column.type == "map":
        parts = zip(("key", "value"), column.children, inner, strict=True)
        entry = ", ".join(f"{part} := {_nested(f'{item}.{part}', at, found, depth + 1)}" for part, at, found in parts)
        return f"map_from_entries(list_transform(map_entries({value}), lambda {item}: struct_pack({entry})))"
    return value


def _struct(value: str, column: Column, place: Found, depth: int) -> str:
    fields = []
    for child, at in zip(column.children, place.children, strict=True):
        if at is None:
            sql = constant_sql(child.initial_default, child)
        else:
            sql = _nested(f"struct_extract({value}, {literal(at.name)})", child, at, depth)
        fields.append(f"{identifier(child.name)} := {sql}")
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({', '.join(fields)}) END"
