"""SQLMesh: a connection for its `config.py` that only names stores."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import duckdb

from lakeconf.config.config import init
from lakeconf.connection.connection import Connection
from lakeconf.errors import required
from lakeconf.sql import Use
from lakeconf.store import Store, attach_to

with required("sqlmesh", extra="sqlmesh", needed_for="lakeconf.integrations.sqlmesh"):
    from sqlmesh.core.config import DuckDBConnectionConfig


class LakeConnectionConfig(DuckDBConnectionConfig):
    """An in-memory DuckDB connection with lakes attached; create it with `connection`.

    Attributes:
        stores: The names of the stores; the first one is the default catalog.
        lakeconf: The configuration file or its folder; default: lakeconf searches for it.
    """

    stores: tuple[str, ...]
    lakeconf: str | None = None

    # Private in SQLMesh, but the only hook that sets up every cursor; a contract test covers it.
    @property
    def _cursor_init(self) -> Callable[[Any], None]:
        set_up = super()._cursor_init
        stores = self._stores()

        def attach(cursor: duckdb.DuckDBPyConnection) -> None:
            if set_up is not None:
                set_up(cursor)
            for store in reversed(stores):
                _attach(store, cursor)

        return attach

    def get_catalog(self) -> str:
        return self._stores()[0].alias

    def _stores(self) -> list[Store]:
        config = init(self.lakeconf)
        return [config.get_store(name) for name in self.stores]


def connection(*stores: str, config: str | os.PathLike[str] | None = None, **settings: Any) -> DuckDBConnectionConfig:
    """Creates a connection for a gateway: `GatewayConfig(connection=connection("prod"))`.

    Args:
        *stores: The names of one or more stores. The first one is the default catalog; refer to the others by alias.
        config: The configuration file or its folder; default: lakeconf searches for it.
        **settings: Settings of SQLMesh's DuckDB connection, such as `connector_config`.

    Returns:
        The connection. It reads the stores when SQLMesh connects.
    """
    first, *others = stores
    path = None if config is None else os.fspath(config)
    return LakeConnectionConfig(stores=(first, *others), lakeconf=path, **settings)


def _attach(store: Store, cursor: duckdb.DuckDBPyConnection) -> None:
    """Attaches a lake once per DuckDB instance; further cursors only run `USE`."""
    own = Connection(cursor, store.secrets)
    if own.rows("SELECT 1 FROM duckdb_databases() WHERE database_name = ?", [store.alias]):
        own.run(Use(store.alias))
    else:
        attach_to(store, own)
