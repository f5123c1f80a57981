"""Runs queries in the catalog itself, if DuckDB would read whole tables of it for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.connection.literal_values import with_literals
from lakeconf.sql import literal


def own_rows(
    transaction: MetadataTransaction,
    sql: str,
    columns: str,
    parameters: Sequence[object] = (),
    *,
    order: str = "",
) -> list[tuple[Any, ...]]:
    """Runs a query on the metadata tables, in the state that the transaction sees.

    Args:
        transaction: The transaction.
        sql: The query, in SQL that DuckDB and the catalog understand alike.
        columns: Its columns and DuckDB's types of their values, such as `a BIGINT, b VARCHAR`: a catalog may return
            texts.
        parameters: Values for its `?` or `$1`.
        order: The columns that order the rows; empty for any order.
    """
    text, unbound = with_literals(sql, parameters)
    ordered = f" ORDER BY {order}" if order else ""
    if transaction.own_query is None or unbound:
        return transaction.rows(sql + ordered, parameters)
    typed = ", ".join(
        f"CAST({name} AS {kind}) AS {name}" for name, kind in (column.split() for column in columns.split(","))
    )
    return transaction.rows(f"SELECT {typed} FROM {transaction.own_query}{literal(text)}){ordered}")  # noqa: S608
