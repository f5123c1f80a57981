"""Reads the names of the views of a lake."""

from __future__ import annotations

from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.catalog.table_name import joined_name
from lakeconf.ducklake import visible_at

_VIEWS = f"""
    SELECT s.schema_name, v.view_name
    FROM ducklake_view AS v JOIN ducklake_schema AS s ON s.schema_id = v.schema_id
    WHERE {visible_at(row="v")} AND {visible_at(row="s")}
"""  # noqa: S608


@repeated
def view_names(reader: CatalogReader, snapshot_id: int) -> tuple[str, ...]:
    """Returns the sorted full names of the views at a snapshot."""
    with reader.transaction() as transaction:
        return tuple(sorted(joined_name(*row) for row in transaction.rows(_VIEWS, [snapshot_id])))
