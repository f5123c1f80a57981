"""A DuckDB connection for several threads."""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import TYPE_CHECKING

from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    import duckdb


class SharedConnection(Connection):
    """A connection that gives each thread its own cursor.

    duckdb mixes up results if several threads use one connection at the same time. A relation belongs to the cursor of
    the thread that created it.

    Args:
        connection: The connection; the calling thread continues to use it directly.
        set_up: SQL that each new cursor runs first, such as `USE`, which cursors do not inherit.
    """

    def __init__(self, connection: Connection, set_up: str) -> None:
        super().__init__(connection.native, connection.secrets)
        self._set_up = set_up
        self._is_closed = False
        self._cursors = threading.local()
        self._cursors.native = connection.native
        self._all: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet([connection.native])
        self._adding = threading.Lock()

    @property
    def native(self) -> duckdb.DuckDBPyConnection:
        """The duckdb connection of the calling thread.

        Raises:
            LakeconfError: The connection is closed.
        """
        self._check_open()
        if not hasattr(self._cursors, "native"):
            with self.errors():
                cursor = self._native.cursor()
                cursor.execute(self._set_up)
            self._cursors.native = cursor
            with self._adding:
                self._all.add(cursor)
        native: duckdb.DuckDBPyConnection = self._cursors.native
        return native

    def interrupt(self) -> None:
        """Stops the running queries of all threads, from any thread; each fails with an error."""
        with self._adding:
            found = list(self._all)
        for native in found:
            with contextlib.suppress(Exception):  # it is closed
                native.interrupt()

    def close(self) -> None:
        """Closes the connection and the cursors of all threads, from any thread."""
        self._is_closed = True
        self._native.close()

    def cursor(self) -> Connection:
        """Opens another connection to the same instance; it does not inherit `USE`.

        Raises:
            LakeconfError: The connection is closed.
        """
        self._check_open()
        return super().cursor()

    def _check_open(self) -> None:
        if self._is_closed:
            raise LakeconfError("the lake is closed", hint="open it again: store.open()")
