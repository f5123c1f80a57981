"""Every pair of a metadata backend and a storage backend that can be had, each as a fresh lake on real servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servers import PostgresServer, S3Server

    from lakeconf.store import Store

METADATA = ("duckdb", "sqlite", "postgres")
STORAGE = ("local", "s3", "r2", "gcs")


@pytest.fixture(params=METADATA)
def metadata_backend(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A metadata backend as a configuration has it, with nothing in it yet."""
    if request.param != "postgres":
        return {"type": request.param, "uri": str(tmp_path / f"catalog.{request.param}")}
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return {
        "type": "postgres",
        "host": server.host,
        "port": server.port,
        "database": server.create_database(),
        "user": server.user,
        "password": server.password,
        "metadata_schema": "lake",
    }


@pytest.fixture(params=STORAGE)
def storage_backend(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A storage backend as a configuration has it, with nothing in it yet."""
    if request.param == "local":
        return {"type": "local", "path": str(tmp_path / "data")}
    server: S3Server = request.getfixturevalue("s3_server")
    return {
        "type": request.param,
        "bucket": server.create_bucket(),
        "prefix": "some/folder",
        "endpoint": server.endpoint,
        "url_style": "path",
        "use_ssl": False,
        "region": server.region,
        "key_id": server.keys.key_id,
        "secret": server.keys.secret,
    }


@pytest.fixture
def config(metadata_backend: dict[str, Any], storage_backend: dict[str, Any]) -> dict[str, Any]:
    """A configuration with one store, `dev`."""
    return {"stores": {"dev": {"metadata_backend": metadata_backend, "storage_backend": storage_backend}}}


@pytest.fixture
def store(config: dict[str, Any]) -> Store:
    return lakeconf.init(config).get_store("dev")


@pytest.fixture
def files(request: pytest.FixtureRequest, storage_backend: dict[str, Any], tmp_path: Path) -> Callable[[], set[str]]:
    """What lies in storage now: the Parquet files, as the server or the file system lists them."""

    def stored() -> set[str]:
        if storage_backend["type"] == "local":
            return {str(path.relative_to(tmp_path)) for path in (tmp_path / "data").rglob("*.parquet")}
        server: S3Server = request.getfixturevalue("s3_server")
        return {key for key in server.objects(storage_backend["bucket"]) if key.endswith(".parquet")}

    return stored
