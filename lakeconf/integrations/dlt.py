"""dlt: its own `ducklake` destination on a store, as an object or by the environment alone."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from lakeconf.backends.base import StoreNames
from lakeconf.backends.metadata.postgres import PostgresMetadata
from lakeconf.config.model import Config, init
from lakeconf.connection.connection import extension_sql
from lakeconf.errors import UnsupportedError, required
from lakeconf.secret import Secret, Settings
from lakeconf.sql import LoadExtension, Revealed, Statement, Use
from lakeconf.store import Store

with required("dlt", extra="dlt", needed_for="lakeconf.integrations.dlt"):
    import dlt
    from dlt.destinations.impl.ducklake.configuration import DuckLakeCredentials

_PREFIX = "DESTINATION__DUCKLAKE__CREDENTIALS__"


def destination(
    store: str | None = None, *, config: Config | str | os.PathLike[str] | None = None, **settings: Any
) -> dlt.destinations.ducklake:
    """A destination for a pipeline: `dlt.pipeline(destination=destination("prod"))`.

    Args:
        store: The store's name; the default store unless given.
        config: A `Config`, or what `init` takes.
        **settings: Settings of dlt's `ducklake` destination, such as `destination_name`.

    Returns:
        dlt's own destination. The lake is attached once to see that it can be.

    Raises:
        ConfigError: There is no such store.
        ConnectionFailed: The catalog cannot be reached.
        UnsupportedError: The store needs secrets that dlt's connections do not have.
    """
    found = (config if isinstance(config, Config) else init(config)).get_store(store)
    credentials = DuckLakeCredentials(found.alias, _schema(found), _catalog(found), _STORAGE)
    credentials.statements = [statement.reveal() for statement in _statements(found)]
    return dlt.destinations.ducklake(credentials=credentials, **settings)


def environment(store: str | None = None, *, config: Config | str | os.PathLike[str] | None = None) -> Settings:
    """The variables with which an unchanged `dlt.pipeline(destination="ducklake")` loads into a store.

    Args:
        store: As for `destination`.
        config: As for `destination`.

    Returns:
        Names and values, in clear since dlt needs them so; `repr` shows `***` for what is secret.

    Raises:
        LakeconfError: As for `destination`.
    """
    found = (config if isinstance(config, Config) else init(config)).get_store(store)
    statements = json.dumps([statement.reveal() for statement in _statements(found)])
    return Settings(
        {
            f"{_PREFIX}DUCKLAKE_NAME": found.alias,
            f"{_PREFIX}METADATA_SCHEMA": _schema(found),
            f"{_PREFIX}CATALOG": _catalog(found),
            f"{_PREFIX}STORAGE__BUCKET_URL": _STORAGE,
            f"{_PREFIX}STATEMENTS": Secret(statements),
        }
    )


# dlt attaches the lake too, which does nothing since it is attached already, under this name. dlt makes a secret of
# its own for every storage that is not local. Should it attach this path after all, DuckLake refuses: it is another.
_STORAGE = "file:///lakeconf-has-attached-the-lake"


def _catalog(store: Store) -> str:
    """Where the catalog is, as dlt tells one lake from another by; it has no password."""
    backend, file = store.metadata_backend, store.metadata_backend.file()
    if file is not None:
        return f"{backend.type}:///{file}"
    if isinstance(backend, PostgresMetadata) and backend.host is not None:
        return f"postgres://{backend.user}@{backend.host}:{backend.port or 5432}/{backend.database}"
    raise UnsupportedError(
        f"stores.{store.name}: dlt opens connections of its own, which lack the secrets that the store refers to",
        hint="give the metadata backend its credentials, each as a variable",
    )


def _schema(store: Store) -> str:
    options = store.metadata_backend.ducklake_options(StoreNames(store.name, store.alias))
    return str(options.get("metadata_schema", store.alias))


def _statements(store: Store) -> list[Secret]:
    """What attaches the lake, on each connection that dlt opens."""
    store.open_connection().close()
    return [Secret(_rendered(statement)) for statement in store.statements if not isinstance(statement, Use)]


def _rendered(statement: Statement) -> str:
    if isinstance(statement, LoadExtension):
        return extension_sql(statement.name)
    return statement.render(Revealed())


def main(arguments: list[str]) -> None:
    """Runs a command in the environment of a store: `python -m lakeconf.integrations.dlt prod python load.py`.

    Args:
        arguments: The store's name, and the command.
    """
    store, program, *others = arguments
    os.execvpe(program, [program, *others], os.environ | environment(store))  # noqa: S606 - there is no shell


if __name__ == "__main__":
    main(sys.argv[1:])
