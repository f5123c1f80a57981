"""The contract of a catalog's server: its defaults, and which endpoints are of this machine."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import FrozenInstanceError

import pytest

from lakeconf.backends.server import CatalogServer, ServerAddress, is_loopback


class OtherServer(CatalogServer):
    """A server with nothing but what the contract requires."""

    def clock(self, database: str) -> str:
        return f"clock of {database}"

    idle_timeout = server_id = check_connection = clock

    def catalog_id(self, database: str, schema: str | None) -> str:
        return f"{database}.{schema}"

    def prepare_locks(self, database: str, *, wait_seconds: float, holder: str) -> str:
        return f"{database} {wait_seconds} {holder}"

    def take_lock(self, database: str, key: int, *, shared: bool) -> str:
        return f"{database} {key} {shared}"

    def lock_holders(self, database: str, keys: Collection[int]) -> str:
        return f"{database} {keys}"


def test_server_without_more_than_the_contract() -> None:
    server = OtherServer(name="service lake")
    assert (server.description, server.url, server.tls_hint) == ("service lake", None, None)
    assert server.secret is None
    assert server.await_commits("d", None) is None
    assert server.unwritable("d", None) is None


def test_known_address_is_the_description() -> None:
    server = OtherServer(name="service lake", address=ServerAddress("db.example.com", 5433, "shop", "me"))
    assert server.description == "db.example.com:5433/shop"


def test_server_cannot_be_changed_or_created_without_its_statements() -> None:
    with pytest.raises(FrozenInstanceError):
        OtherServer(name="a").name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError, match="abstract"):
        CatalogServer(name="a")  # type: ignore[abstract]


@pytest.mark.parametrize(
    "endpoint",
    ["localhost", "localhost:9000", "LOCALHOST", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:5432"],
)
def test_address_of_this_machine(endpoint: str) -> None:
    assert is_loopback(endpoint)


@pytest.mark.parametrize(
    "endpoint",
    [
        *("", "example.com", "10.0.0.1", "192.0.2.1", "[::2]:1", "localhost.example.com", "127.0.0.1.example.com"),
        *("::1", "[::1", "127.0.0.1@example.com", "example.com/localhost", "1270.0.1"),
    ],
)
def test_other_address(endpoint: str) -> None:
    assert not is_loopback(endpoint)
