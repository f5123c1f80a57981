"""Stores for tests: a catalog, and a local folder or a bucket of data files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azure_server import AzureServer

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from servers import PostgresServer, S3Server

    from lakeconf import Lake, Store


def on_sqlite(folder: Path) -> dict[str, Any]:
    """A metadata backend on a SQLite file in a folder."""
    return {"type": "sqlite", "uri": str(folder / "catalog")}


def on_postgres(server: PostgresServer, database: str | None = None, port: int | None = None) -> dict[str, Any]:
    """A metadata backend on a server, or on a proxy at `port`; by default with a new database."""
    return {
        "type": "postgres",
        "host": server.host,
        "port": port or server.port,
        "database": database or server.create_database(),
        "user": server.user,
        "password": server.password,
    }


def on_catalog(request: pytest.FixtureRequest, folder: Path, kind: str = "") -> dict[str, Any]:
    """The metadata backend of a kind, or of a fixture with the parameters `sqlite`, `duckdb` and `postgres`."""
    kind = kind or request.param
    if kind == "postgres":
        return on_postgres(request.getfixturevalue("postgres_server"))
    return {"type": kind, "uri": str(folder / "catalog")}


def in_bucket(server: S3Server | AzureServer, bucket: str | None = None) -> dict[str, Any]:
    """A storage backend in the folder `lake` of a bucket or container; a new one by default."""
    bucket = bucket or server.create_bucket()
    common = {"prefix": "lake", "endpoint": server.endpoint, "use_ssl": False}
    if isinstance(server, AzureServer):
        return {"type": "azure", "account": server.account, "container": bucket, "account_key": server.key, **common}
    keys = {"key_id": server.keys.key_id, "secret": server.keys.secret}
    return {"type": "s3", "bucket": bucket, "region": server.region, "url_style": "path", **keys, **common}


def new_store(request: pytest.FixtureRequest, folder: Path, name: str, catalog: str, storage: str) -> Store:
    """A store without a lake, on these kinds of catalog and storage, with a folder of its own."""
    (folder / name).mkdir()
    backends = {
        "metadata_backend": on_catalog(request, folder / name, catalog),
        "storage_backend": {"type": "local", "path": str(folder / name / "data")}
        if storage == "local"
        else in_bucket(request.getfixturevalue(f"{storage}_server")),
    }
    return lakeconf.init({"stores": {name: backends}}).get_store(name)


def config_of(
    folder: Path, catalog: dict[str, Any] | None = None, storage: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A configuration with the store `dev`: by default, a catalog on SQLite and the folder `data`."""
    backends = {
        "metadata_backend": catalog or on_sqlite(folder),
        "storage_backend": storage or {"type": "local", "path": str(folder / "data")},
    }
    return {"stores": {"dev": backends}}


def store_of(folder: Path, catalog: dict[str, Any] | None = None, **attach_options: Any) -> Store:
    """The store `dev` of `config_of`."""
    config = config_of(folder, catalog)
    if attach_options:
        config["stores"]["dev"]["attach_options"] = attach_options
    return lakeconf.init(config).get_store("dev")


def ids(lake: Lake, table: str = "t") -> list[int]:
    """The ids of the rows of a table, in order."""
    return sorted(lake.table(table).scan().collect("pyarrow").to_native()["id"].to_pylist())


def place_of(store: Store, folder: Path) -> str:
    """A place for backups of a store: a folder, or one in the bucket of its files."""
    location = "" if store.storage_backend is None else store.storage_backend.location
    return str(folder / "backups") if "://" not in location else location.removesuffix("lake/") + "backups"


def remove_catalog(folder: Path) -> None:
    """Removes the catalog of a store of `new_store` that is a file."""
    for path in folder.glob("catalog*"):
        path.unlink()


def rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    """The rows that plain DuckDB reads, in order."""
    native: Any = lake.sql(query).to_native()
    return sorted(native.fetchall(), key=repr)
