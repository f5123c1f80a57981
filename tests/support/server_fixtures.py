"""Fixtures for the real servers; one of each per test run, started when a test first needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from local_stores import on_postgres, store_of
from servers import azure, fault_proxies, fault_proxy, postgres, s3

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from servers import AzureServer, FaultProxy, PostgresServer, S3Server

    from lakeconf import Store


# The servers of the session, once a test has requested them.
_servers: list[PostgresServer] = []


@pytest.fixture(scope="module", autouse=True)
def databases_are_dropped() -> Iterator[None]:
    """The databases of a run would fill gigabytes."""
    yield
    for server in _servers:
        server.drop_databases()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with postgres() as server:
        _servers.append(server)
        yield server
        _servers.remove(server)


@pytest.fixture(scope="session")
def postgres_tls_server() -> Iterator[PostgresServer]:
    """A server that accepts encrypted connections only."""
    with postgres(tls=True) as server:
        _servers.append(server)
        yield server
        _servers.remove(server)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A server that accepts any access key."""
    with s3() as server:
        yield server


@pytest.fixture(scope="session")
def s3_tls_server() -> Iterator[S3Server]:
    with s3(tls=True) as server:
        yield server


@pytest.fixture(scope="session")
def s3_iam_server() -> Iterator[S3Server]:
    """A server that checks every signature and permission."""
    with s3(iam=True) as server:
        yield server


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """A server that checks every signature and permission."""
    with azure() as server:
        yield server


@pytest.fixture(params=["s3", "azure"])
def bucket_server(request: pytest.FixtureRequest) -> S3Server | AzureServer:
    """Each kind of server of buckets in turn."""
    server: S3Server | AzureServer = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture(scope="session")
def proxies() -> Iterator[Connection]:
    """The process in which the proxies run."""
    with fault_proxies() as started:
        yield started


@pytest.fixture
def postgres_proxy(proxies: Connection, postgres_server: PostgresServer) -> Iterator[FaultProxy]:
    with fault_proxy(proxies, postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def s3_proxy(proxies: Connection, s3_server: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(proxies, s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def database(postgres_server: PostgresServer) -> str:
    """The name of an empty database on the PostgreSQL server."""
    return postgres_server.create_database()


@pytest.fixture
def direct(tmp_path: Path, postgres_server: PostgresServer, database: str) -> Store:
    """A store whose catalog is on the PostgreSQL server."""
    return store_of(tmp_path, on_postgres(postgres_server, database))


@pytest.fixture
def hurt(tmp_path: Path, postgres_server: PostgresServer, database: str, postgres_proxy: FaultProxy) -> Store:
    """The same store through the proxy."""
    return store_of(tmp_path, on_postgres(postgres_server, database, postgres_proxy.port))
