"""What the driver sends to an executor: some files to read, or rows. Both are plain data without secrets."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from socket import gethostname
from typing import TypeAlias

from lakeconf.backends.base import StorageBackend, StoreNames
from lakeconf.catalog.change_feed import ChangesPlan
from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import Column
from lakeconf.config.model import init
from lakeconf.connection.connection import Connection, connect, load_extension
from lakeconf.errors import StorageError
from lakeconf.store import Store

# The files of one task: small ones are read together.
_BYTES, _FILES = 64 * 2**20, 200


@dataclass(frozen=True)
class Access:
    """How an executor reaches the files of a lake, with credentials that it finds itself.

    Attributes:
        names: The names of the store.
        storage: The pickled storage backend, with the names of variables in place of secrets; None if a secret is
            written in the configuration.
        config: The configuration file that an executor reads in this case; None to find it.
    """

    names: StoreNames
    storage: bytes | None = field(repr=False)
    config: str | None = None

    @classmethod
    def of(cls, store: Store, config: str | None) -> Access:
        """The access to the files of a store."""
        try:
            pickled = pickle.dumps(store.storage_backend)
        except TypeError:  # a secret that does not come from a variable
            return cls(store.names, None, config)
        # Another text of the backend may contain the same value.
        shows = any(secret.reveal().encode() in pickled for secret in store.secrets)
        return cls(store.names, None, config) if shows else cls(store.names, pickled)

    def backend(self) -> StorageBackend:
        """The storage backend.

        Raises:
            ConfigError: This machine has no configuration, or an invalid one.
            StorageError: A variable with a secret is not set on this machine, or the configuration has no storage.
        """
        if self.storage is None:
            storage = init(self.config).get_store(self.names.store).storage_backend
        else:
            try:
                storage = pickle.loads(self.storage)  # noqa: S301 - the driver wrote it
            except KeyError as error:
                raise StorageError(
                    f"the variable {error.args[0]} is not set in the Python processes of Spark on {gethostname()}",
                    hint="set it on the machines of the cluster, or use a role; Spark passes on no variables by itself",
                ) from None
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


@dataclass(frozen=True)
class Files:
    """Files to read.

    Attributes:
        access: How to reach them.
        plan: A plan that consists of these files.
    """

    access: Access
    plan: ScanPlan


@dataclass(frozen=True)
class Rows:
    """Rows that were read on the driver.

    Attributes:
        stream: The rows with the types of the frame, as an Arrow stream.
    """

    stream: bytes = field(repr=False)


@dataclass(frozen=True)
class Changes:
    """The changes of a table in a range of snapshots.

    Attributes:
        access: How to reach the files.
        plan: The plan of the change feed.
        inlined: The rows in the catalog, as `catalog.inlined_changes` returns them, as an Arrow stream.
        columns: The columns to return, which may be older or newer than those of the plan.
        kinds: True to return all changes with their key and kind; False for inserted rows only.
    """

    access: Access
    plan: ChangesPlan
    inlined: bytes = field(repr=False)
    columns: tuple[Column, ...]
    kinds: bool


Part: TypeAlias = Files | Rows | Changes


def divided(plan: ScanPlan) -> Iterator[ScanPlan]:
    """Divides the files of a plan: large ones each for itself, small ones together."""
    start, size = 0, 0
    for number, file in enumerate(plan.files):
        if number > start and (size + file.file_size_bytes > _BYTES or number - start == _FILES):
            yield _between(plan, start, number)
            start, size = number, 0
        size += file.file_size_bytes
    if plan.files:
        yield _between(plan, start, len(plan.files))


def _between(plan: ScanPlan, start: int, end: int) -> ScanPlan:
    files = plan.files[start:end]
    used = {file.mapping_id for file in files}
    mappings = {number: mapping for number, mapping in plan.name_mappings.items() if number in used}
    return replace(plan, files=files, name_mappings=mappings)
