"""The tables of a DuckLake catalog with their types, and how each kind of catalog stores them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lakeconf.ducklake import table_of_deletes
from lakeconf.errors import UnsupportedError
from lakeconf.sql import identifier

# The tables of a new catalog of version 1.0, in DuckDB's types. A test compares them with those that the extension
# makes, on each kind of catalog.
TABLES: Mapping[str, str] = {
    "ducklake_metadata": "key VARCHAR NOT NULL, value VARCHAR NOT NULL, scope VARCHAR, scope_id BIGINT",
    "ducklake_snapshot": "snapshot_id BIGINT PRIMARY KEY, snapshot_time TIMESTAMPTZ, schema_version BIGINT, "
    "next_catalog_id BIGINT, next_file_id BIGINT",
    "ducklake_snapshot_changes": "snapshot_id BIGINT PRIMARY KEY, changes_made VARCHAR, author VARCHAR, "
    "commit_message VARCHAR, commit_extra_info VARCHAR",
    "ducklake_schema": "schema_id BIGINT PRIMARY KEY, schema_uuid UUID, begin_snapshot BIGINT, end_snapshot BIGINT, "
    "schema_name VARCHAR, path VARCHAR, path_is_relative BOOLEAN",
    "ducklake_table": "table_id BIGINT, table_uuid UUID, begin_snapshot BIGINT, end_snapshot BIGINT, "
    "schema_id BIGINT, table_name VARCHAR, path VARCHAR, path_is_relative BOOLEAN",
    "ducklake_view": "view_id BIGINT, view_uuid UUID, begin_snapshot BIGINT, end_snapshot BIGINT, schema_id BIGINT, "
    "view_name VARCHAR, dialect VARCHAR, sql VARCHAR, column_aliases VARCHAR",
    "ducklake_tag": "object_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, key VARCHAR, value VARCHAR",
    "ducklake_column_tag": "table_id BIGINT, column_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, "
    "key VARCHAR, value VARCHAR",
    "ducklake_data_file": "data_file_id BIGINT PRIMARY KEY, table_id BIGINT, begin_snapshot BIGINT, "
    "end_snapshot BIGINT, file_order BIGINT, path VARCHAR, path_is_relative BOOLEAN, file_format VARCHAR, "
    "record_count BIGINT, file_size_bytes BIGINT, footer_size BIGINT, row_id_start BIGINT, partition_id BIGINT, "
    "encryption_key VARCHAR, mapping_id BIGINT, partial_max BIGINT",
    "ducklake_file_column_stats": "data_file_id BIGINT, table_id BIGINT, column_id BIGINT, column_size_bytes BIGINT, "
    "value_count BIGINT, null_count BIGINT, min_value VARCHAR, max_value VARCHAR, contains_nan BOOLEAN, "
    "extra_stats VARCHAR",
    "ducklake_file_variant_stats": "data_file_id BIGINT, table_id BIGINT, column_id BIGINT, variant_path VARCHAR, "
    "shredded_type VARCHAR, column_size_bytes BIGINT, value_count BIGINT, null_count BIGINT, min_value VARCHAR, "
    "max_value VARCHAR, contains_nan BOOLEAN, extra_stats VARCHAR",
    "ducklake_delete_file": "delete_file_id BIGINT PRIMARY KEY, table_id BIGINT, begin_snapshot BIGINT, "
    "end_snapshot BIGINT, data_file_id BIGINT, path VARCHAR, path_is_relative BOOLEAN, format VARCHAR, "
    "delete_count BIGINT, file_size_bytes BIGINT, footer_size BIGINT, encryption_key VARCHAR, partial_max BIGINT",
    "ducklake_column": "column_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, table_id BIGINT, "
    "column_order BIGINT, column_name VARCHAR, column_type VARCHAR, initial_default VARCHAR, default_value VARCHAR, "
    "nulls_allowed BOOLEAN, parent_column BIGINT, default_value_type VARCHAR, default_value_dialect VARCHAR",
    "ducklake_table_stats": "table_id BIGINT, record_count BIGINT, next_row_id BIGINT, file_size_bytes BIGINT",
    "ducklake_table_column_stats": "table_id BIGINT, column_id BIGINT, contains_null BOOLEAN, contains_nan BOOLEAN, "
    "min_value VARCHAR, max_value VARCHAR, extra_stats VARCHAR",
    "ducklake_partition_info": "partition_id BIGINT, table_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT",
    "ducklake_partition_column": "partition_id BIGINT, table_id BIGINT, partition_key_index BIGINT, "
    "column_id BIGINT, transform VARCHAR",
    "ducklake_file_partition_value": "data_file_id BIGINT, table_id BIGINT, partition_key_index BIGINT, "
    "partition_value VARCHAR",
    "ducklake_files_scheduled_for_deletion": "data_file_id BIGINT, path VARCHAR, path_is_relative BOOLEAN, "
    "schedule_start TIMESTAMPTZ",
    "ducklake_inlined_data_tables": "table_id BIGINT, table_name VARCHAR, schema_version BIGINT",
    "ducklake_column_mapping": "mapping_id BIGINT, table_id BIGINT, type VARCHAR",
    "ducklake_name_mapping": "mapping_id BIGINT, column_id BIGINT, source_name VARCHAR, target_field_id BIGINT, "
    "parent_column BIGINT, is_partition BOOLEAN",
    "ducklake_schema_versions": "begin_snapshot BIGINT, schema_version BIGINT, table_id BIGINT",
    "ducklake_macro": "schema_id BIGINT, macro_id BIGINT, macro_name VARCHAR, begin_snapshot BIGINT, "
    "end_snapshot BIGINT",
    "ducklake_macro_impl": "macro_id BIGINT, impl_id BIGINT, dialect VARCHAR, sql VARCHAR, type VARCHAR",
    "ducklake_macro_parameters": "macro_id BIGINT, impl_id BIGINT, column_id BIGINT, parameter_name VARCHAR, "
    "parameter_type VARCHAR, default_value VARCHAR, default_value_type VARCHAR",
    "ducklake_sort_info": "sort_id BIGINT, table_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT",
    "ducklake_sort_expression": "sort_id BIGINT, table_id BIGINT, sort_key_index BIGINT, expression VARCHAR, "
    "dialect VARCHAR, sort_direction VARCHAR, null_order VARCHAR",
}
# The first columns of a table with inlined rows, and those of a table with inlined deletes.
INLINED_COLUMNS = "row_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT"
DELETED_COLUMNS = "file_id BIGINT, row_id BIGINT, begin_snapshot BIGINT"
_INLINED_DATA = re.compile(r"ducklake_inlined_data_\d+_\d+")
_SMALL = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_SAME = ("BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "TIME", "TIME WITH TIME ZONE", "INTERVAL")
# How a kind of catalog stores a type of DuckDB: types that are missing here are stored as text, all of them in DuckDB
# as they are. PostgreSQL has no text with NUL, so inlined text is binary there.
_STORED: Mapping[str, Mapping[str, str]] = {
    "sqlite": {**dict.fromkeys(_SMALL, "BIGINT"), "BLOB": "BLOB"},
    "postgres": {
        **{name: name for name in (*_SAME, "UUID", "BLOB")},
        **dict.fromkeys(("UTINYINT", "USMALLINT"), "INTEGER"),
        "TINYINT": "SMALLINT",
        "UINTEGER": "BIGINT",
        **dict.fromkeys(("VARCHAR", "JSON"), "BLOB"),
    },
}
# The only types of the catalog's own tables that PostgreSQL stores in another way than inlined ones.
_OWN_IN_POSTGRES = ("VARCHAR", "TIMESTAMPTZ")
# Types without a text that DuckDB reads back; DuckLake inlines them only in a DuckDB file.
_ONLY_DUCKDB = re.compile(r"\b(VARIANT|GEOMETRY)\b")


class CatalogColumn(NamedTuple):
    """A column of a catalog's table."""

    name: str
    type: str  # its type in DuckDB
    constraint: str = ""
    is_inlined: bool = False  # True if it has values of a table of the lake

    def stored(self, kind: str) -> str:
        """Its type in a kind of catalog, as DuckDB names it."""
        if kind == "duckdb" or (kind == "postgres" and not self.is_inlined and self.type in _OWN_IN_POSTGRES):
            return self.type
        if kind not in _STORED:
            raise UnsupportedError(
                f"a catalog in {kind} cannot be copied", hint="use a catalog in SQLite, DuckDB or PostgreSQL"
            )
        if _ONLY_DUCKDB.search(self.type):
            raise UnsupportedError(
                f"the column {self.name!r} has inlined values of the type {self.type}, which {kind} cannot store",
                hint="write them to files first: CALL ducklake_flush_inlined_data('LAKE'), with the lake attached",
            )
        if kind == "postgres" and self.type.startswith("DECIMAL("):
            return self.type
        return _STORED[kind].get(self.type, "VARCHAR")

    def declared(self, kind: str) -> str:
        """Its declaration in a kind of catalog."""
        return f"{identifier(self.name)} {self.stored(kind)} {self.constraint}".rstrip()

    def read(self, kind: str) -> str:
        """The SQL for its value, from what a kind of catalog has stored."""
        name, stored = identifier(self.name), self.stored(kind)
        if stored == self.type:
            return name
        value = f"decode({name})" if stored == "BLOB" else name
        return f"CAST({value} AS {self.type}) AS {name}"

    def written(self, kind: str) -> str:
        """The SQL for what a kind of catalog stores, from its value."""
        name, stored = identifier(self.name), self.stored(kind)
        if stored == self.type:
            return name
        return f"encode(CAST({name} AS VARCHAR))" if stored == "BLOB" else f"CAST({name} AS {stored})"


def columns(declarations: str) -> tuple[CatalogColumn, ...]:
    """The columns of a list such as `a BIGINT PRIMARY KEY, b VARCHAR`."""
    parts = (declaration.partition(" ") for declaration in declarations.split(", "))
    typed = ((name, *rest.partition(" ")) for name, _, rest in parts)
    return tuple(CatalogColumn(name, type_name, constraint) for name, type_name, _, constraint in typed)


def own_tables() -> dict[str, tuple[CatalogColumn, ...]]:
    """The tables of each catalog, with their columns."""
    return {name: columns(declarations) for name, declarations in TABLES.items()}


def inlined_columns(types: Mapping[str, str]) -> tuple[CatalogColumn, ...]:
    """The columns of a table with inlined rows, from the names and types of its values."""
    values = (CatalogColumn(name, type_name, is_inlined=True) for name, type_name in types.items())
    return (*columns(INLINED_COLUMNS), *values)


def is_inlined_data(name: str) -> bool:
    """True if this is the name of a table with inlined rows."""
    return _INLINED_DATA.fullmatch(name) is not None


def check_known(existing: Mapping[str, Iterable[str]]) -> None:
    """Rejects a catalog with a table or column that the list lacks: a copy would lose it.

    `existing` has the columns of all of its tables with the prefix `ducklake_`.
    """
    own = own_tables()
    for name, names in existing.items():
        if name in own:
            known = {column.name for column in own[name]}
            odd = sorted(known.symmetric_difference(names))
            what = f"the catalog's table {name} has other columns than version 1.0: {', '.join(odd)}" if odd else None
        else:
            is_inlined = is_inlined_data(name) or table_of_deletes(name) is not None
            what = None if is_inlined else f"the catalog has a table {name!r}, which version 1.0 lacks"
        if what is not None:
            raise UnsupportedError(
                f"{what}: nothing was copied", hint="update lakeconf, or use the catalog with the tool that made this"
            )
    for name in sorted(own.keys() - existing.keys()):
        raise UnsupportedError(
            f"the catalog has no table {name}: nothing was copied",
            hint="restore a backup of the catalog; `lakeconf doctor` examines it",
        )
