"""The error for a name that is not the name of a table: it may belong to a view or a macro, or be misspelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.catalog.table_name import joined_name
from lakeconf.ducklake import visible_at
from lakeconf.errors import TableNotFoundError, UnsupportedError, suggestion
from lakeconf.sql import identifier

_VIEWS_AND_MACROS = f"""
    WITH other AS (
        SELECT 'view' AS kind, schema_id, view_name AS name, begin_snapshot, end_snapshot FROM ducklake_view
        UNION ALL
        SELECT 'macro', schema_id, macro_name, begin_snapshot, end_snapshot FROM ducklake_macro
    )
    SELECT o.kind, s.schema_name, o.name
    FROM other AS o JOIN ducklake_schema AS s ON s.schema_id = o.schema_id
    WHERE {visible_at(row="o")} AND {visible_at(row="s")}
      AND lower(s.schema_name) = lower($2) AND lower(o.name) = lower($3)
"""  # noqa: S608


def refuse_missing(
    transaction: MetadataTransaction, name: tuple[str, str], snapshot_id: int, existing: Sequence[str]
) -> NoReturn:
    """Raises the error for a name.

    Args:
        transaction: An open read transaction.
        name: The schema and the name.
        snapshot_id: The snapshot.
        existing: The full names of the tables at this snapshot.

    Raises:
        UnsupportedError: It is a view or a macro, which only DuckDB can run.
        TableNotFoundError: Nothing has this name.
    """
    for kind, *found in transaction.rows(_VIEWS_AND_MACROS, [snapshot_id, *name]):
        qualified = ".".join(identifier(part) for part in (transaction.alias, *found))
        call = f"{qualified} AT (VERSION => {snapshot_id})" if kind == "view" else f"{qualified}(…)"
        raise UnsupportedError(
            f"{joined_name(*found)} is a {kind} in DuckDB's SQL dialect and has no files",
            hint=f"run it in DuckDB: FROM {call}",
        )
    wanted = joined_name(*name)
    raise TableNotFoundError(f"no table {wanted!r} at version {snapshot_id}", hint=suggestion(wanted, existing) or None)
