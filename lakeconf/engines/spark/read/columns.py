"""The location of each column in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakeconf.catalog.data_file import NameMapping
from lakeconf.catalog.table import Column
from lakeconf.catalog.types import decimal_digits
from lakeconf.engines.spark.read.footers import Stored
from lakeconf.sql import folded

FLOATS = frozenset(("float32", "float64"))
_NESTED = ("struct", "list", "map")
# Types with another type in Spark than in a file, and types for which Spark's reader supports no default.
_CONVERTED = frozenset(("int128", "uint128", "uuid", "time", "timetz", "timestamp_ns", "interval", "variant"))
_WITHOUT_DEFAULT = frozenset((*_CONVERTED, "timestamp_ms", "uint64", "blob", "geometry", "struct", "list", "map"))
_DIGITS_OF_A_LONG = 18
# How DuckLake stores types that Parquet lacks.
_STORED_AS = {"timestamp_s": "timestamp", "int128": "float64", "uint128": "float64"}


@dataclass(frozen=True, slots=True)
class Found:
    """The location of a column in a file or in a group of files.

    Attributes:
        name: The name to request.
        field_id: The field id to request; None if columns are matched by name.
        type: The type in the file, as `Stored.type`.
        children: The location of each child of the column; None if the file lacks it.
        witness: For a struct without any requested field in the file: a field that shows if the struct is NULL.
    """

    name: str
    field_id: int | None
    type: str
    children: tuple[Found | None, ...] = ()
    witness: Found | None = None


# The value of a Hive partition column is only in the path.
IN_PATH = Found("", None, "path")


def read_name(column: Column) -> str:
    """The name with which a scan requests a column by field id.

    Spark matches columns by field id, but filters row groups by name. A name that belongs to another column in
    some file is replaced by a name that is in no file, so that Spark does not filter by it. So are the names of floats,
    because Parquet's statistics and dictionaries distinguish -0.0 from 0.0, and reserved names.
    """
    if column.name_is_unique and column.type not in FLOATS and not is_reserved(column.name):
        return column.name
    return f"__lakeconf_{column.field_id}_{column.name}"


def is_reserved(name: str) -> bool:
    """True for a name that Spark's reader or a scan uses: a column with that name would hide it."""
    return name.lower() == "_metadata" or name.lower().startswith("__lakeconf")


def assumed(column: Column) -> Found:
    """The location of a column in a file that DuckLake wrote after the column got its type."""
    children = tuple(assumed(child) for child in column.children)
    return Found(read_name(column), column.field_id, _STORED_AS.get(column.type, column.type), children)


def assumed_by_name(column: Column) -> Found:
    """Like `assumed`, for a reader without field ids, and a column whose name has always been its own."""
    children = tuple(assumed_by_name(child) for child in column.children)
    return Found(column.name, None, _STORED_AS.get(column.type, column.type), children)


def without_ids(found: Found) -> Found:
    """The same location, found by the names in the file."""
    children = tuple(None if child is None else without_ids(child) for child in found.children)
    witness = None if found.witness is None else without_ids(found.witness)
    return replace(found, field_id=None, children=children, witness=witness)


def needs_footer(column: Column, *, keeps_structs: bool, by_name: bool = False) -> bool:
    """True if `assumed` may be wrong, or Spark's reader cannot fill in missing values.

    Args:
        column: The column, or a field inside a nested one.
        keeps_structs: False if Spark's reader returns NULL for every struct of which the file lacks all requested
            fields, even for structs that are not NULL. Spark may request fewer fields than the plan.
        by_name: True for a reader without field ids, which fills in no defaults either.
    """
    if by_name and (column.initial_default is not None or not column.name_is_unique):
        return True
    if column.former_types or column.later_types:
        return True
    if column.initial_default is not None and not _can_have_default(column):
        return True
    if not keeps_structs and column.type == "struct" and any(child.since > column.since for child in column.children):
        return True
    return any(
        child.initial_default is not None or needs_footer(child, keeps_structs=keeps_structs, by_name=by_name)
        for child in column.children
    )


def _can_have_default(column: Column) -> bool:
    digits = decimal_digits(column.type)
    return column.type not in _WITHOUT_DEFAULT and (digits is None or digits[0] <= _DIGITS_OF_A_LONG)


def by_field_id(column: Column, fields: Sequence[Stored], *, as_stored: bool = False) -> Found | None:
    """Finds a column among the fields of a file, or of a struct in it; None if the file lacks it.

    Args:
        column: The column.
        fields: The fields.
        as_stored: True for the name in the file; False for the name to request from Spark.
    """
    stored = next((field for field in fields if field.field_id == column.field_id), None)
    if stored is None:
        return None
    if column.type == "struct":
        children = tuple(by_field_id(child, stored.children, as_stored=as_stored) for child in column.children)
    else:
        # Parquet identifies the element of a list, and the key and the value of a map, by position.
        children = tuple(
            by_field_id(child, [replace(at, field_id=child.field_id)], as_stored=as_stored)
            for child, at in zip(column.children, stored.children, strict=False)
        )
    name = stored.name if as_stored else read_name(column)
    return Found(name, column.field_id, stored.type, children, _witness(children, stored))


def by_name(column: Column, mappings: Sequence[NameMapping], fields: Sequence[Stored]) -> Found | None:
    """Like `by_field_id`, for a file that is read by a name mapping."""
    mapping = next((mapping for mapping in mappings if mapping.field_id == column.field_id), None)
    if mapping is None:
        return None
    if mapping.in_path:
        return IN_PATH
    stored = _named(mapping.source_name, fields)
    return None if stored is None else _mapped(column, mapping, stored)


def _mapped(column: Column, mapping: NameMapping, stored: Stored) -> Found:
    if column.type == "struct":
        children = tuple(by_name(child, mapping.children, stored.children) for child in column.children)
    else:
        inner = {below.field_id: below for below in mapping.children}
        children = tuple(
            _mapped(child, inner[child.field_id], at) if child.field_id in inner else None
            for child, at in zip(column.children, stored.children, strict=False)
        )
    return Found(stored.name, None, stored.type, children, _witness(children, stored))


def _named(name: str, fields: Sequence[Stored]) -> Stored | None:
    exact = [field for field in fields if field.name == name]
    return next(iter(exact or [field for field in fields if folded(field.name) == folded(name)]), None)


def _witness(children: Sequence[Found | None], stored: Stored) -> Found | None:
    if stored.type != "struct" or any(children):
        return None
    leaf = next((field for field in stored.children if field.type not in _NESTED), None)
    return None if leaf is None else Found(leaf.name, leaf.field_id, leaf.type)
