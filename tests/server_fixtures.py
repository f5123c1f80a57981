"""Fixtures of the real servers; one of each for the whole run, started when a test first asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from servers import fault_proxy, postgres, s3

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import FaultProxy, PostgresServer, S3Server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_tls_server() -> Iterator[PostgresServer]:
    """One that takes encrypted connections only."""
    with postgres(tls=True) as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One that takes any access key."""
    with s3() as server:
        yield server


@pytest.fixture(scope="session")
def s3_tls_server() -> Iterator[S3Server]:
    with s3(tls=True) as server:
        yield server


@pytest.fixture(scope="session")
def s3_iam_server() -> Iterator[S3Server]:
    """One that checks every signature and permission."""
    with s3(iam=True) as server:
        yield server


@pytest.fixture
def postgres_proxy(postgres_server: PostgresServer) -> Iterator[FaultProxy]:
    with fault_proxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def s3_proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3_server.port) as proxy:
        yield proxy
