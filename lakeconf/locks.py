"""Locks that let one writer of a table at a time past its last check.

DuckLake lets two overwrites of an empty table both commit, and two deletes on one file corrupt it. A lock is held from
before the check until the reply to the commit.
"""

from __future__ import annotations

import contextlib
import fcntl
import random
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from lakeconf.backends.base import StoreNames
from lakeconf.connection import connect
from lakeconf.errors import CommitError
from lakeconf.sql import Attach, LoadExtension, Value
from lakeconf.store import Store

Lock = Callable[[Collection[str]], AbstractContextManager[None]]

WAIT_SECONDS = 300.0
_LOCK = "lakeconf_lock"
_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5


def lock_of(store: Store) -> Lock | None:
    """The way to lock tables of a store.

    Args:
        store: The store.

    Returns:
        A function from tables' full names to a context manager that holds their locks; None where the metadata
        backend has no lock to give.
    """
    file = store.metadata_backend.file()
    if file is not None:
        return lambda _tables: _file_lock(file.with_name(f"{file.name}.lakeconf-lock"))
    if store.metadata_backend.lock_sql(0) is None:
        return None
    return lambda tables: _server_lock(store, tables)


def pauses(limit_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Waits a little longer each time it is asked for the next item; ends when the limit is reached."""
    deadline = time.monotonic() + limit_seconds
    pause = _FIRST_PAUSE_SECONDS
    while time.monotonic() < deadline:
        yield
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - jitter
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """Holds a lock file beside the catalog. The system lets go of it when the process ends, however it ends."""
    with path.open("a") as file:
        for _ in pauses():
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                continue
        else:
            raise CommitError(f"another writer has held {path} for {WAIT_SECONDS:.0f} s", hint="try again later")
        yield


@contextlib.contextmanager
def _server_lock(store: Store, tables: Collection[str]) -> Iterator[None]:
    """Holds locks of the catalog's server, in a transaction of a DuckDB instance of its own."""
    names = StoreNames(store.name, store.alias)
    backend = store.metadata_backend
    options = backend.ducklake_options(names)
    # Everybody takes them in one order, so that nobody waits for somebody who waits for them.
    keys = sorted({zlib.crc32(f"{options.get('metadata_schema')}/{table}".encode()) for table in tables})
    with connect(store.secrets) as connection:
        for extension in backend.extensions:
            connection.run(LoadExtension(extension))
        for secret in backend.secrets(names):
            connection.run(secret)
        connection.run(Attach(str(options["metadata_path"]), _LOCK, _parameters(options)))
        connection.execute("BEGIN")
        for key in keys:
            connection.rows("FROM postgres_query(?, ?)", [_LOCK, backend.lock_sql(key)])
        yield
        connection.execute("ROLLBACK")


def _parameters(options: Mapping[str, Value]) -> Mapping[str, Value]:
    parameters = options.get("metadata_parameters")
    return parameters if isinstance(parameters, Mapping) else {}
