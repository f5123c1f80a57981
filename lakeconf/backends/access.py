"""How the processes of Spark reach the files of a lake, with credentials that they find themselves."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from socket import gethostname
from typing import Protocol

from lakeconf.backends.backend import StorageBackend, StoreNames
from lakeconf.connection.connection import Connection, connect, load_extension
from lakeconf.errors import LakeconfError, StorageError
from lakeconf.secret import Secret

Reread = Callable[[], StorageBackend | None]


class FileStore(Protocol):
    """What a store says about its files."""

    @property
    def names(self) -> StoreNames:
        """The names of what it creates in DuckDB."""
        ...

    @property
    def storage_backend(self) -> StorageBackend | None:
        """Where its files are."""
        ...

    @property
    def secrets(self) -> Sequence[Secret]:
        """Its secrets."""
        ...

    @property
    def reread(self) -> Reread | None:
        """Reads its storage backend again, in another process."""
        ...


@dataclass(frozen=True)
class Access:
    """How an executor reaches the files of a lake, with credentials that it finds itself."""

    names: StoreNames
    # The pickled storage backend, with the names of variables in place of secrets; None if a secret is written in the
    # configuration.
    storage: bytes | None = field(repr=False)
    # Reads the backend from the configuration in this case; None if Python code made the store.
    reread: Reread | None = None

    @classmethod
    def of(cls, store: FileStore) -> Access:
        """The access to the files of a store."""
        try:
            pickled = pickle.dumps(store.storage_backend)
        # A secret that does not come from a variable, or a class that executors cannot import.
        except (TypeError, AttributeError, pickle.PicklingError):
            return cls(store.names, None, store.reread)
        # Another text of the backend may contain the same value.
        shows = any(secret.reveal().encode() in pickled for secret in store.secrets)
        return cls(store.names, None, store.reread) if shows else cls(store.names, pickled)

    def backend(self) -> StorageBackend:
        """The storage backend."""
        storage: StorageBackend | None
        if self.storage is not None:
            try:
                storage = pickle.loads(self.storage)  # noqa: S301 - the driver wrote it
            except LakeconfError as error:  # a variable is not set
                raise StorageError(
                    f"{error.message} in the Python processes of Spark on {gethostname()}",
                    hint="set it on the machines of the cluster, or use a role; Spark passes on no variables by itself",
                ) from None
        elif self.reread is not None:
            storage = self.reread()
        else:
            raise StorageError(
                f"a secret of the store {self.names.store!r} was given by Python code, and {gethostname()} lacks it",
                hint="declare the store in a file, and take its secrets from variables",
            )
        if storage is None:
            raise StorageError(f"the store {self.names.store!r} has no storage_backend on {gethostname()}")
        return storage

    def connect(self) -> Connection:
        """Opens an in-memory DuckDB instance that reaches the files; errors are those of `backend`."""
        storage = self.backend()
        connection = connect(storage.secrets_held())
        try:
            # The other tasks of the executor use the other cores and the rest of the memory.
            connection.execute("SET threads = 1; SET memory_limit = '2GB'")
            for name in ("ducklake", *storage.extensions):
                load_extension(connection, name)
            for setting in storage.duckdb_settings:
                connection.run(setting)
            for secret in storage.secrets(self.names):
                connection.run(secret)
        except BaseException:
            connection.close()
            raise
        return connection
