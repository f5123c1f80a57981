"""dlt: makes dlt's `ducklake` destination for a store."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from lakeconf.config.config import Config, init
from lakeconf.connection.connection import extension_sql
from lakeconf.errors import UnsupportedError, required
from lakeconf.sql import LoadExtension, Running, Statement, Use
from lakeconf.store import Store, open_connection

with required("dlt", extra="dlt", needed_for="lakeconf.integrations.dlt"):
    import dlt
    from dlt.destinations.impl.ducklake.configuration import DuckLakeCredentials


def destination(
    store: str | None = None, *, config: Config | str | os.PathLike[str] | None = None, **settings: Any
) -> dlt.destinations.ducklake:
    """Creates a destination for a pipeline: `dlt.pipeline(destination=destination("prod"))`.

    Args:
        store: The store's name; default: the default store.
        config: A `Config`, or a source as for `init`.
        **settings: Settings of dlt's `ducklake` destination, such as `destination_name`.

    Returns:
        dlt's destination. The lake is attached once to check the connection.

    Raises:
        ConfigError: The store does not exist.
        ConnectionFailed: The catalog cannot be reached.
        UnsupportedError: The store needs secrets that dlt's connections lack.
    """
    chosen = (config if isinstance(config, Config) else init(config)).get_store(store)
    schema = chosen.metadata_backend.catalog_schema(chosen.names) or chosen.alias
    credentials = DuckLakeCredentials(chosen.alias, schema, _catalog(chosen), _storage())
    open_connection(chosen).close()
    credentials.statements = [_rendered(statement) for statement in chosen.statements if not isinstance(statement, Use)]
    return dlt.destinations.ducklake(credentials=credentials, **settings)


def _storage() -> str:
    """Returns the location of dlt's own ATTACH, which has no effect: the lake is attached under the same name.

    The path must be local, because dlt creates a secret for every other storage. It must exist, because dlt creates it
    otherwise. If dlt attaches it after all, DuckLake rejects the other path.
    """
    return Path(tempfile.gettempdir()).resolve().as_uri()


def _catalog(store: Store) -> str:
    """Returns the location of the catalog, without a password; dlt distinguishes lakes by it."""
    backend, file = store.metadata_backend, store.metadata_backend.file()
    if file is not None:
        return f"{backend.type}:///{file}"
    server = backend.server()
    if server is not None and server.url is not None:
        return server.url
    raise UnsupportedError(
        f"stores.{store.name}: dlt opens its own connections, which lack the existing secret that the store uses",
        hint="set the credentials of the metadata backend, each with a variable",
    )


def _rendered(statement: Statement) -> str:
    if isinstance(statement, LoadExtension):
        return extension_sql(statement.name)
    return statement.render(Running())
