"""Every available pair of a metadata backend and a storage backend, each as a new lake on real servers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import in_bucket, on_postgres

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servers import AzureServer, PostgresServer, S3Server

    from lakeconf.store import Store

PAIRS = [
    *itertools.product(("duckdb", "sqlite", "postgres"), ("local", "s3", "r2", "gcs", "azure")),
    # From another package: examples/third_party.
    ("postgres_service", "share"),
]


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The types of the two backends."""
    metadata, storage = request.param
    if storage == "share":
        request.getfixturevalue("example_backends")
    return metadata, storage


@pytest.fixture
def metadata_backend(
    pair: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The configuration of an empty metadata backend."""
    if pair[0] in ("duckdb", "sqlite"):
        return {"type": pair[0], "uri": str(tmp_path / f"catalog.{pair[0]}")}
    server: PostgresServer = request.getfixturevalue("postgres_server")
    if pair[0] == "postgres_service":
        service = tmp_path / "pg_service.conf"
        login = f"host={server.host}\nport={server.port}\nuser={server.user}\npassword={server.password}\n"
        service.write_text(f"[lake]\n{login}dbname={server.create_database()}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(service))
        return {"type": "postgres_service", "service": "lake", "metadata_schema": "lake"}
    return {**on_postgres(server), "metadata_schema": "lake"}


@pytest.fixture
def storage_backend(pair: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The configuration of an empty storage backend."""
    if pair[1] == "local":
        return {"type": "local", "path": str(tmp_path / "data")}
    if pair[1] == "share":
        (tmp_path / ".mounted").touch()
        return {"type": "share", "mount": str(tmp_path), "folder": "data", "marker": ".mounted"}
    if pair[1] == "azure":
        return {**in_bucket(request.getfixturevalue("azure_server")), "prefix": "some/folder"}
    return {**in_bucket(request.getfixturevalue("s3_server")), "type": pair[1], "prefix": "some/folder"}


@pytest.fixture
def config(metadata_backend: dict[str, Any], storage_backend: dict[str, Any]) -> dict[str, Any]:
    """A configuration with one store, `dev`."""
    return {"stores": {"dev": {"metadata_backend": metadata_backend, "storage_backend": storage_backend}}}


@pytest.fixture
def store(config: dict[str, Any]) -> Store:
    return lakeconf.init(config).get_store("dev")


@pytest.fixture
def files(request: pytest.FixtureRequest, storage_backend: dict[str, Any], tmp_path: Path) -> Callable[[], set[str]]:
    """Returns the current Parquet files in storage, as listed by the server or the file system."""

    def stored() -> set[str]:
        if storage_backend["type"] in ("local", "share"):
            return {str(path.relative_to(tmp_path)) for path in (tmp_path / "data").rglob("*.parquet")}
        if storage_backend["type"] == "azure":
            azure: AzureServer = request.getfixturevalue("azure_server")
            return {name for name in azure.objects(storage_backend["container"]) if name.endswith(".parquet")}
        server: S3Server = request.getfixturevalue("s3_server")
        return {key for key in server.objects(storage_backend["bucket"]) if key.endswith(".parquet")}

    return stored
