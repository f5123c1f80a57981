"""SQLMesh: a connection for its `config.py` that holds names of stores only."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import duckdb

from lakeconf.config.model import init
from lakeconf.connection.connection import Connection
from lakeconf.errors import required
from lakeconf.sql import Use
from lakeconf.store import Store

with required("sqlmesh", extra="sqlmesh", needed_for="lakeconf.integrations.sqlmesh"):
    from sqlmesh.core.config import DuckDBConnectionConfig


class LakeConnectionConfig(DuckDBConnectionConfig):
    """A connection of DuckDB, in memory, with lakes attached; `connection` makes it.

    Attributes:
        stores: The stores' names; the first one is the default catalog.
        lakeconf: The configuration file, or its folder; looked for unless given.
    """

    stores: tuple[str, ...]
    lakeconf: str | None = None

    # Private in SQLMesh, and the only place where each of its cursors can be set up; the contract test pins it.
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


def connection(*stores: str, config: str | os.PathLike[str] | None = None, **settings: Any) -> LakeConnectionConfig:
    """A connection for a gateway: `GatewayConfig(connection=connection("prod"))`.

    Args:
        *stores: Names of stores, at least one; the first one is the default catalog, the others are named by their
            aliases.
        config: The configuration file, or its folder; looked for unless given.
        **settings: Settings of SQLMesh's DuckDB connection, such as `connector_config`.

    Returns:
        The connection. It reads the stores when SQLMesh connects.
    """
    first, *others = stores
    path = None if config is None else os.fspath(config)
    return LakeConnectionConfig(stores=(first, *others), lakeconf=path, **settings)


def _attach(store: Store, cursor: duckdb.DuckDBPyConnection) -> None:
    """Attaches a lake once for each instance of DuckDB; a further cursor only has to be told to use it."""
    own = Connection(cursor, store.secrets)
    if own.rows("SELECT 1 FROM duckdb_databases() WHERE database_name = ?", [store.alias]):
        own.run(Use(store.alias))
    else:
        store.attach_to(own)
