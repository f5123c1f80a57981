"""Reads the comments of a table and its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.catalog.table import TableInfo
from lakeconf.ducklake import visible_at

_TABLE = f"SELECT value FROM ducklake_tag WHERE object_id = $2 AND key = 'comment' AND {visible_at()}"  # noqa: S608
_COLUMNS = (
    f"SELECT column_id, value FROM ducklake_column_tag WHERE table_id = $2 AND key = 'comment' AND {visible_at()}"  # noqa: S608
)


@dataclass(frozen=True, slots=True)
class Comments:
    """The comments of a table at a snapshot.

    Attributes:
        table: The comment of the table; None if it has none.
        columns: The comments of its columns that have one, by name.
    """

    table: str | None
    columns: Mapping[str, str]


@repeated
def comments(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> Comments:
    """Returns the comments of a table at a snapshot; an empty comment counts as none."""
    with reader.transaction() as transaction:
        of_table = transaction.rows(_TABLE, [snapshot_id, table.table_id])
        of_columns = dict(transaction.rows(_COLUMNS, [snapshot_id, table.table_id]))
    found = {column.name: of_columns.get(column.field_id) for column in table.columns}
    return Comments(
        next((text for (text,) in of_table if text), None), {name: text for name, text in found.items() if text}
    )
