"""Queries on a store that can change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from lakeconf.connection import translated_errors
from lakeconf.errors import QueryError
from lakeconf.store import Store


def query(store: Store, statement: str, limit: int | None = None) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Runs a query of DuckDB's SQL on a lake, which is attached for reading only.

    Args:
        store: The store.
        statement: One query; the lake is the default database.
        limit: How many rows to fetch; all unless given.

    Returns:
        The names of the columns, and the rows.

    Raises:
        QueryError: It is no query, or DuckDB refuses it.
    """
    options = {**store.attach_options, "read_only": True}
    reading = Store(
        store.name, store.metadata_backend, store.storage_backend, alias=store.alias, attach_options=options
    )
    with reading.open_connection() as connection, translated_errors():
        kinds = [found.type for found in connection.native.extract_statements(statement)]
        if kinds != [duckdb.StatementType.SELECT]:
            raise QueryError("this is not one query", hint="write SELECT … or FROM …; tables are changed by jobs")
        result = connection.native.execute(statement)
        names = [column[0] for column in result.description or ()]
        return names, result.fetchall() if limit is None else result.fetchmany(limit)
