"""Sets the search path of DuckDB connections, unless they have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from lakeconf.sql import identifier, literal

if TYPE_CHECKING:
    import duckdb


class SearchPaths:
    """The search paths of the connections of all threads.

    DuckDB looks up each schema of a path, and DuckLake begins a transaction for it: to compare the path is cheaper.
    """

    def __init__(self) -> None:
        # The statement that has set the path, and the path as DuckDB shows it, if known. DuckDB shows names without
        # quotes, so two paths may look alike.
        self._set: WeakKeyDictionary[object, tuple[str, object]] = WeakKeyDictionary()

    def set(self, native: duckdb.DuckDBPyConnection, statement: str) -> None:
        """Runs the statement of `search_path_sql` on a connection, unless it has run and the path is still the same."""
        earlier, shown = self._set.pop(native, ("", None))
        if earlier != statement:
            native.execute(statement)
            shown = None
        elif shown is None or _shown(native) != shown:
            native.execute(statement)
            shown = _shown(native)
        self._set[native] = (statement, shown)


def _shown(native: duckdb.DuckDBPyConnection) -> object:
    return native.execute("SELECT system.main.current_setting('search_path')").fetchall()


def search_path_sql(database: str, schemas: Iterable[str] = ()) -> str:
    """Returns the statement that makes a database the default, but resolves functions in DuckDB first.

    Args:
        database: The name of the database.
        schemas: Its schemas, besides `main`, that queries may use as `schema.table`.
    """
    found = dict.fromkeys(["main", *schemas])
    path = ["system.main", *(f"{identifier(database)}.{identifier(schema)}" for schema in found)]
    return f"SET search_path = {literal(','.join(path))}"
