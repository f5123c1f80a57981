"""What the catalog says of a table besides its columns: its sort order, default values, folder and comments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeconf.catalog.admission import compose_path
from lakeconf.catalog.column_types import duckdb_name
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.ducklake import visible_at

_SORT = f"""
    SELECT e.expression, e.sort_direction, e.null_order
    FROM ducklake_sort_info AS i JOIN ducklake_sort_expression AS e ON e.sort_id = i.sort_id AND e.table_id = i.table_id
    WHERE i.table_id = $2 AND {visible_at(row="i")} ORDER BY e.sort_key_index
"""  # noqa: S608
_DEFAULTS = f"""
    SELECT column_name, default_value, default_value_type FROM ducklake_column
    WHERE table_id = $2 AND parent_column IS NULL AND {visible_at()} ORDER BY column_order
"""  # noqa: S608
# DuckLake takes DATE '2024-01-01' and true for expressions.
_CAST = re.compile(r"""CAST\('((?:[^']|'')*)' AS "?([A-Z ]+)"?\)""")
_TABLE = f"SELECT value FROM ducklake_tag WHERE object_id = $2 AND key = 'comment' AND {visible_at()}"  # noqa: S608
_COMMENTS = (
    f"SELECT column_id, value FROM ducklake_column_tag WHERE table_id = $2 AND key = 'comment' AND {visible_at()}"  # noqa: S608
)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Properties of a table besides its columns and partition keys."""

    sorted_by: tuple[str, ...]  # the sort order, as for `Lake.create_table`
    defaults: Mapping[str, str]  # literal defaults by column, as text
    computed: tuple[str, ...]  # the columns whose default is an expression, and `the sort order` if it is one


@dataclass(frozen=True, slots=True)
class Default:
    """The default of a column."""

    sql: str  # as the catalog has it
    constant: str | None  # a text that DuckDB casts to the type of the column; None for an expression


def table_options(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> TableOptions:
    """Returns the options of a table at a snapshot."""
    with reader.transaction() as transaction:
        sort = transaction.rows(_SORT, [snapshot_id, table.table_id])
        columns = transaction.rows(_DEFAULTS, [snapshot_id, table.table_id])
    sorted_by = _sort_keys(sort, table)
    defaults = _defaults(columns, table)
    return TableOptions(
        sorted_by or (),
        {name: default.constant for name, default in defaults.items() if default.constant is not None},
        (
            *(name for name, default in defaults.items() if default.constant is None),
            *(("the sort order",) if sorted_by is None else ()),
        ),
    )


def column_defaults(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> Mapping[str, Default]:
    """Returns the defaults of the columns that have one, at a snapshot."""
    with reader.transaction() as transaction:
        return _defaults(transaction.rows(_DEFAULTS, [snapshot_id, table.table_id]), table)


def _defaults(rows: Sequence[tuple[Any, ...]], table: TableInfo) -> dict[str, Default]:
    by_name = {column.name: column for column in table.columns}
    return {
        name: Default(value, value if kind == "literal" else _constant(value, by_name.get(name)))
        for name, value, kind in rows
        if value not in (None, "NULL")
    }


def _constant(value: str, column: Column | None) -> str | None:
    """The constant that an expression casts to the type of its column."""
    cast = _CAST.fullmatch(value)
    if not cast or column is None or column.children or cast[2] != duckdb_name(column.type):
        return None
    return cast[1].replace("''", "'")


def _sort_keys(rows: Sequence[tuple[Any, ...]], table: TableInfo) -> tuple[str, ...] | None:
    """The sort keys as text; None if one is not a column."""
    column_names = {column.name for column in table.columns}
    keys = []
    for expression, direction, nulls in rows:
        if None in (expression, direction, nulls):
            return None
        quoted = re.fullmatch(r'"((?:[^"]|"")+)"', expression)
        name = quoted[1].replace('""', '"') if quoted else expression
        if name not in column_names:
            return None
        keys.append(f"{name} {direction} {nulls.replace('_', ' ')}")
    return tuple(keys)


def table_folder(reader: CatalogReader, schema: str, table: str, snapshot_id: int) -> str:
    """Returns the folder that DuckLake will use for a new table, if the names are valid folder names."""
    with reader.transaction() as transaction:
        folders = transaction.rows(
            "SELECT path, path_is_relative FROM ducklake_schema "  # noqa: S608
            f"WHERE lower(schema_name) = lower($2) AND {visible_at()}",
            [snapshot_id, schema],
        )
        path, is_relative = folders[0] if folders else (f"{schema}/", True)
        return compose_path(transaction.data_path, path, is_relative=is_relative) + f"{table}/"


@dataclass(frozen=True, slots=True)
class Comments:
    """The comments of a table at a snapshot."""

    table: str | None  # the comment of the table; None if it has none
    columns: Mapping[str, str]  # the comments of its columns that have one, by name


def comments(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> Comments:
    """Returns the comments of a table at a snapshot; an empty comment counts as none."""
    with reader.transaction() as transaction:
        of_table = transaction.rows(_TABLE, [snapshot_id, table.table_id])
        of_columns = dict(transaction.rows(_COMMENTS, [snapshot_id, table.table_id]))
    texts = {column.name: of_columns.get(column.field_id) for column in table.columns}
    return Comments(
        next((text for (text,) in of_table if text), None), {name: text for name, text in texts.items() if text}
    )
