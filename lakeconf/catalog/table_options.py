"""Reads the sort order and the column defaults of a table, as far as lakeconf can declare them again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.catalog.table import TableInfo
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


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Properties of a table besides its columns and partition keys.

    Attributes:
        sorted_by: The sort order, as for `Lake.create_table`.
        defaults: Literal defaults by column, as text.
        computed: The columns whose default is an expression, and `the sort order` if it is one.
    """

    sorted_by: tuple[str, ...]
    defaults: Mapping[str, str]
    computed: tuple[str, ...]


@repeated
def table_options(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> TableOptions:
    """Returns the options of a table at a snapshot."""
    with reader.transaction() as transaction:
        sort = transaction.rows(_SORT, [snapshot_id, table.table_id])
        columns = transaction.rows(_DEFAULTS, [snapshot_id, table.table_id])
    sorted_by = _sort_keys(sort, table)
    given = [(name, value, kind) for name, value, kind in columns if value not in (None, "NULL")]
    return TableOptions(
        sorted_by or (),
        {name: value for name, value, kind in given if kind == "literal"},
        (*(name for name, _, kind in given if kind != "literal"), *(("the sort order",) if sorted_by is None else ())),
    )


def _sort_keys(rows: Sequence[tuple[Any, ...]], table: TableInfo) -> tuple[str, ...] | None:
    """The sort keys as text; None if one is not a column."""
    known = {column.name for column in table.columns}
    keys = []
    for expression, direction, nulls in rows:
        quoted = re.fullmatch(r'"((?:[^"]|"")+)"', expression)
        name = quoted[1].replace('""', '"') if quoted else expression
        if name not in known:
            return None
        keys.append(f"{name} {direction} {nulls.replace('_', ' ')}")
    return tuple(keys)
