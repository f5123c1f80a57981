"""The relations that a user takes from a lake: each has a connection of its own, so that nothing else ends its readers.

DuckDB ends a reader of rows when its connection runs another statement: without an error, as if there were no more
rows. The frames of a thread share one connection, because DuckDB joins only relations of one connection, and lakeconf
runs statements on it, too. So a user gets another relation of the same rows.

A view brings a relation to another connection. The text of its query would not: `i * 0.1` multiplies by a DOUBLE in a
relation, but by a DECIMAL in SQL.
"""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from lakeconf.sql import identifier

if TYPE_CHECKING:
    import duckdb

# The database in memory that all connections of an instance see. Search paths begin with it, because DuckDB makes the
# view of a relation in the first database of the path.
SHARED_DATABASE = "memory.main"
# The name of a relation in a statement about its rows.
_ROWS = "lakeconf_rows"


class _Shared(NamedTuple):
    """A view or a table that all connections of an instance see."""

    kind: str  # VIEW or TABLE
    name: str

    @property
    def query(self) -> str:
        return f"FROM {SHARED_DATABASE}.{self.name}"

    @property
    def removal(self) -> str:
        return f"DROP {self.kind} IF EXISTS {SHARED_DATABASE}.{self.name}"


class Relations:
    """The relations of the connections of an instance that others of them read, by views and tables.

    A view keeps the frames alive that its query reads.
    """

    def __init__(self) -> None:
        # The connections that read a view or table; it is removed when they are gone.
        self._readers: dict[_Shared, WeakSet[duckdb.DuckDBPyConnection]] = {}
        # The relations that `apart` has made, and their connections. A relation keeps its connection alive.
        self._apart: WeakKeyDictionary[duckdb.DuckDBPyRelation, duckdb.DuckDBPyConnection] = WeakKeyDictionary()
        # What such a connection reads, and the connection that has the frames in the query.
        self._sources: WeakKeyDictionary[duckdb.DuckDBPyConnection, tuple[_Shared, duckdb.DuckDBPyConnection]]
        self._sources = WeakKeyDictionary()
        # The connections of other threads that have frames which relations of a connection read.
        self._needed: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[duckdb.DuckDBPyConnection]]
        self._needed = WeakKeyDictionary()
        self._lock = threading.Lock()

    def share(self, native: duckdb.DuckDBPyConnection, name: str, relation: duckdb.DuckDBPyRelation) -> None:
        """Makes a view of a relation of a connection; it is valid while the connection is open."""
        self._add_reader(_view(relation, name), native)

    def apart(
        self, native: duckdb.DuckDBPyConnection, own: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation
    ) -> duckdb.DuckDBPyRelation:
        """The rows of a relation of a connection, as a relation of another, new connection."""
        self._remove_unread(native)
        shared, rows = _moved(native, own, relation)
        if rows.columns != relation.columns:  # DuckDB numbers the names that a view or a table would have twice
            names = enumerate(map(identifier, relation.columns), start=1)
            rows = rows.project(", ".join(f"#{number} AS {name}" for number, name in names))
        self._add_reader(shared, own)
        with self._lock:
            self._sources[own], self._apart[rows] = (shared, native), own
        return rows

    def joinable(
        self, native: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation
    ) -> duckdb.DuckDBPyRelation | None:
        """The rows as a relation that joins with those of a connection; None if it is of another instance."""
        if _owns(native, relation):
            return relation
        with self._lock:
            known, sources = self._apart.get(relation), dict(self._sources)
        own = known or next((other for other in sources if _owns(other, relation)), None)
        if own is None:
            return None
        shared, origin = sources[own]
        self._add_reader(shared, native)
        if origin is not native:
            with self._lock:
                self._needed.setdefault(native, set()).add(origin)
        if known is None:  # made from one that `apart` has made
            shared = _view(relation)
            self._add_reader(shared, native)
        return native.sql(shared.query)

    def _add_reader(self, shared: _Shared, native: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            self._readers.setdefault(shared, WeakSet()).add(native)

    def _remove_unread(self, native: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            unread = [shared for shared, readers in self._readers.items() if not readers]
            for shared in unread:
                del self._readers[shared]
        for shared in unread:
            native.execute(shared.removal)


def _moved(
    native: duckdb.DuckDBPyConnection, own: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation
) -> tuple[_Shared, duckdb.DuckDBPyRelation]:
    """A relation on another connection; its rows, if it can only be computed on its own one.

    So it is with PIVOT, which makes a temporary type.
    """
    import duckdb

    view = _view(relation)
    try:
        return view, own.sql(view.query)
    except duckdb.Error:
        native.execute(view.removal)
        table = _Shared("TABLE", view.name)
        native.register(_ROWS, relation)
        native.execute(f"CREATE TABLE {SHARED_DATABASE}.{table.name} AS FROM {_ROWS}")
        native.execute(f"DROP VIEW temp.main.{_ROWS}")
        return table, own.sql(table.query)


def _view(relation: duckdb.DuckDBPyRelation, name: str = "") -> _Shared:
    """Makes a view of a relation, whose connection has the search path of a lake."""
    view = _Shared("VIEW", name or f"{_ROWS}_{uuid.uuid4().hex}")
    relation.create_view(view.name, replace=False)
    return view


def _owns(native: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation) -> bool:
    """True if the connection has made the relation, so that it joins with the others of the connection."""
    import duckdb

    try:
        probe = native.from_query("SELECT 1 AS one LIMIT 0")
        probe.join(relation.limit(0).set_alias("theirs"), "true")
    except duckdb.Error:
        return False
    return True
