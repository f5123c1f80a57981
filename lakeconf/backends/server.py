"""The contract of a database server that keeps catalogs."""

from __future__ import annotations

import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit


class ServerAddress(NamedTuple):
    """The address of a catalog's database."""

    host: str  # host name or address; a path is that of a socket
    port: int
    database: str
    user: str  # the role


@dataclass(frozen=True, kw_only=True)
class CatalogServer(ABC):
    """A database server that keeps a catalog: its name, its clock, its timeouts and its locks.

    The methods return statements for DuckDB. `database` is the name under which DuckDB has attached the catalog's
    database, `schema` that of the schema with its tables, or None for the server's default.
    """

    name: str  # what messages call the server if its address is not known, such as `service lake`; never a secret
    # The address; None if the backend refers to an existing secret or to a file of this machine.
    address: ServerAddress | None = None
    # The DuckDB secret that the configuration names; other stores may refer to it. None without a name.
    secret: str | None = None

    @property
    def description(self) -> str:
        """The location of the catalog, for messages; contains no secret."""
        if self.address is None:
            return self.name
        return f"{self.address.host}:{self.address.port}/{self.address.database}"

    @property
    def url(self) -> str | None:
        """The URL of the database without a password, as other tools write it; None if the address is not known."""
        return None

    @property
    def tls_hint(self) -> str | None:
        """How to require TLS; None if connections always use TLS or do not leave this machine."""
        return None

    @abstractmethod
    def clock(self, database: str) -> str:
        """The query for the server's time, in seconds since 1970."""

    @abstractmethod
    def idle_timeout(self, database: str) -> str:
        """The query for the milliseconds after which the server ends an idle transaction; 0 without a limit."""

    @abstractmethod
    def catalog_id(self, database: str, schema: str | None) -> str:
        """The query for a text that differs between a catalog and a copy of it on the same server."""

    @abstractmethod
    def server_id(self, database: str) -> str:
        """The query for a text that differs between servers. It may fail if the role lacks the right."""

    @abstractmethod
    def prepare_locks(self, database: str, *, wait_seconds: float, holder: str) -> str:
        """The query that prepares a transaction for locks: it may stay idle for hours.

        An attempt to take a lock fails after some seconds. `holder` describes this process to others that wait.
        """

    @abstractmethod
    def take_lock(self, database: str, key: int, *, shared: bool) -> str:
        """The query that takes a lock, alone or shared, until its transaction ends; its key is below 2**63."""

    @abstractmethod
    def lock_holders(self, database: str, keys: Collection[int]) -> str:
        """The query that describes who holds locks, one text for each holder."""

    @abstractmethod
    def check_connection(self, database: str) -> str:
        """The query that fails if the connection was lost."""

    def unwritable(self, database: str, schema: str | None) -> str | None:  # noqa: ARG002 - for those that can tell
        """The query for a table of the catalog that the role may not change; None if the server cannot tell.

        It returns one text, or no row if the role may change all of them. Without it, the server refuses a write only
        when it is committed, and its outcome is unknown until the server was asked again.
        """
        return None

    def uncreatable(self, database: str, schema: str | None) -> str | None:  # noqa: ARG002 - for those that can tell
        """The query for what the role lacks to create a catalog, one text or no row; None if the server cannot tell."""
        return None

    def await_commits(self, database: str, schema: str | None) -> str | None:  # noqa: ARG002 - for those that can
        """The statement that waits until no commit is in progress; None if the server cannot wait for them.

        It runs in its own transaction. Other commits continue when the transaction ends.
        """
        return None


def is_loopback(endpoint: str) -> bool:
    """True if an endpoint, host or host and port, is an address of this machine."""
    try:
        host = urlsplit(f"//{endpoint}").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
