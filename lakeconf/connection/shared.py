"""A connection to DuckDB that several threads use at the same time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lakeconf.connection.connection import Connection

if TYPE_CHECKING:
    import duckdb


class SharedConnection(Connection):
    """A connection of which each thread gets a cursor of its own.

    duckdb mixes up the results of threads that use one connection at the same time. Relations belong to the cursor of
    the thread that has made them.

    Args:
        connection: The connection, which the calling thread goes on to use itself.
        set_up: SQL that a new cursor runs first, such as `USE`, which it does not inherit.
    """

    def __init__(self, connection: Connection, set_up: str) -> None:
        super().__init__(connection.native, connection.secrets)
        self._set_up = set_up
        self._cursors = threading.local()
        self._cursors.native = connection.native

    @property
    def native(self) -> duckdb.DuckDBPyConnection:
        """The connection of duckdb for the thread that asks."""
        if not hasattr(self._cursors, "native"):
            with self.errors():
                cursor = self._native.cursor()
                cursor.execute(self._set_up)
            self._cursors.native = cursor
        native: duckdb.DuckDBPyConnection = self._cursors.native
        return native
