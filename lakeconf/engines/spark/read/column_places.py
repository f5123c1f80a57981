"""Where the files of a table have its columns: under which name or field id, and of which type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakeconf.catalog.column_types import NESTED, Fact, decimal_digits, has, names_with
from lakeconf.catalog.data_file import NameMapping
from lakeconf.catalog.tables import Column
from lakeconf.ducklake import INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID
from lakeconf.engines.spark.read.file_schemas import Stored
from lakeconf.sql import folded

# Types for which Spark's reader supports no default, among them those with another type in Spark than in a file.
_WITHOUT_DEFAULT = frozenset(
    ("int128", "uint128", "uint64", "uuid", "time", "timetz", "timestamp_ms", "timestamp_ns", "interval", "variant")
) | {"blob", "geometry", *NESTED}
_DIGITS_OF_A_LONG = 18
# How DuckLake stores types that Parquet lacks.
_STORED_AS = {"timestamp_s": "timestamp", **dict.fromkeys(names_with(Fact.AS_DOUBLE), "float64")}
# Spark reads positions in files as a field of this name; it reads no other column that a file has with it.
ROW_INDEX = "_tmp_metadata_row_index"
# The columns that DuckLake adds to files of updated and merged rows: Spark reads no file that has such a name twice.
STORED_NAMES = (INTERNAL_ROW_ID.name, INTERNAL_SNAPSHOT_ID.name)


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """The location of a column in a file or in a group of files."""

    name: str  # the name to request
    field_id: int | None  # the field id to request; None if columns are matched by name
    type: str  # the type in the file, as `Stored.type`
    children: tuple[ColumnPlace | None, ...] = ()  # the location of each child of the column; None if the file lacks it
    # For a column, a struct without any requested field in the file: a field that shows if the struct is NULL. DuckDB
    # reads such a struct inside of another value as not NULL, so a field has none, and DuckDB reads the file.
    witness: ColumnPlace | None = None


# The value of a Hive partition column is only in the path.
IN_PATH = ColumnPlace("", None, "path")


def read_name(column: Column) -> str:
    """The name with which a scan requests a column by field id.

    Spark matches columns by field id, but filters row groups by name. A name that belongs to another column in
    some file is replaced by a name that is in no file, so that Spark does not filter by it. So are the names of floats,
    because Parquet's statistics and dictionaries distinguish -0.0 from 0.0, and reserved names.
    """
    if column.name_is_unique and not has(column.type, Fact.FLOAT) and not is_reserved(column.name):
        return column.name
    return f"__lakeconf_{column.field_id}_{column.name}"


def is_reserved(name: str) -> bool:
    """True for a name that Spark's reader or a scan uses: a column with that name would hide it."""
    return name.lower() in ("_metadata", ROW_INDEX, *STORED_NAMES) or name.lower().startswith("__lakeconf")


def assumed(column: Column) -> ColumnPlace:
    """The location of a column in a file that DuckLake wrote after the column got its type."""
    children = tuple(assumed(child) for child in column.children)
    return ColumnPlace(read_name(column), column.field_id, _STORED_AS.get(column.type, column.type), children)


def assumed_by_name(column: Column) -> ColumnPlace:
    """Like `assumed`, for a reader without field ids, and a column whose name has always been its own."""
    children = tuple(assumed_by_name(child) for child in column.children)
    return ColumnPlace(column.name, None, _STORED_AS.get(column.type, column.type), children)


def needs_footer(column: Column, *, keeps_structs: bool) -> bool:
    """True if `assumed` may be wrong, or Spark's reader cannot fill in missing values.

    If not `keeps_structs`, the reader returns NULL for every struct of which the file lacks all requested fields, even
    for structs that are not NULL. Spark may request fewer fields than the plan.
    """
    if column.former_types or column.later_types:
        return True
    if column.initial_default is not None and not _can_have_default(column):
        return True
    if not keeps_structs and column.type == "struct" and any(child.since > column.since for child in column.children):
        return True
    return any(
        child.initial_default is not None or needs_footer(child, keeps_structs=False) for child in column.children
    )


def _can_have_default(column: Column) -> bool:
    digits = decimal_digits(column.type)
    return column.type not in _WITHOUT_DEFAULT and (digits is None or digits[0] <= _DIGITS_OF_A_LONG)


def by_field_id(column: Column, fields: Sequence[Stored]) -> ColumnPlace | None:
    """Finds a column among the fields of a file, or of a struct in it; None if the file lacks it."""
    stored = next((field for field in fields if field.field_id == column.field_id), None)
    if stored is None:
        return None
    if column.type == "struct":
        children = tuple(by_field_id(child, stored.children) for child in column.children)
    else:
        # Parquet identifies the element of a list, and the key and the value of a map, by position.
        children = tuple(
            by_field_id(child, [replace(at, field_id=child.field_id)])
            for child, at in zip(column.children, stored.children, strict=False)
        )
    return ColumnPlace(read_name(column), column.field_id, stored.type, children, _witness(children, stored))


def by_name(column: Column, mappings: Sequence[NameMapping], fields: Sequence[Stored]) -> ColumnPlace | None:
    """Like `by_field_id`, for a file that is read by a name mapping."""
    mapping = next((mapping for mapping in mappings if mapping.field_id == column.field_id), None)
    if mapping is None:
        return None
    if mapping.in_path:
        return IN_PATH
    stored = _named(mapping.source_name, fields)
    return None if stored is None else _mapped(column, mapping, stored)


def _mapped(column: Column, mapping: NameMapping, stored: Stored) -> ColumnPlace:
    if column.type == "struct":
        children = tuple(by_name(child, mapping.children, stored.children) for child in column.children)
    else:
        inner = {below.field_id: below for below in mapping.children}
        children = tuple(
            _mapped(child, inner[child.field_id], at) if child.field_id in inner else None
            for child, at in zip(column.children, stored.children, strict=False)
        )
    return ColumnPlace(stored.name, None, stored.type, children, _witness(children, stored))


def _named(name: str, fields: Sequence[Stored]) -> Stored | None:
    exact = [field for field in fields if field.name == name]
    return next(iter(exact or [field for field in fields if folded(field.name) == folded(name)]), None)


def _witness(children: Sequence[ColumnPlace | None], stored: Stored) -> ColumnPlace | None:
    if stored.type != "struct" or any(children):
        return None
    leaf = next((field for field in stored.children if field.type not in NESTED), None)
    return None if leaf is None else ColumnPlace(leaf.name, leaf.field_id, leaf.type)
