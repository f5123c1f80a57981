"""Opens a store: connections, engine, locks and the latest snapshot make a session."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeconf.backends.access import Access
from lakeconf.backends.registry import metadata_backend, storage_backend
from lakeconf.backends.store_options import MaintenanceLimits, creates_nothing, is_pinned
from lakeconf.catalog.snapshot import Snapshot, by_version, latest
from lakeconf.commit.conflicts import Base
from lakeconf.commit.session import Session
from lakeconf.commit.sql_commit import SETTINGS, Committing
from lakeconf.connection.connection import Connection, SharedConnection, search_path_sql
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.file_names import OwnFiles
from lakeconf.errors import required
from lakeconf.guard.guard import LakeGuard, clock_of, guard_of, reader_of
from lakeconf.guard.locks import FileLocks
from lakeconf.guard.pins import with_parent
from lakeconf.logs import event_logger
from lakeconf.secret import Secret
from lakeconf.sql import literal
from lakeconf.store import Store, open_connection

if TYPE_CHECKING:
    from lakeconf.backends.backend import MetadataBackend
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.engines.engine import Engine

_log = event_logger("lake")


@contextlib.contextmanager
def empty_store(name: str, alias: str | None = None, secrets: Sequence[Secret] = ()) -> Iterator[Store]:
    """A store whose lake is in a temporary folder; opening it creates the lake."""
    with tempfile.TemporaryDirectory(prefix="lakeconf-") as folder:
        catalog = metadata_backend("sqlite").model_validate(
            {"type": "sqlite", "uri": str(Path(folder, "catalog.sqlite"))}
        )
        files = storage_backend("local").model_validate({"type": "local", "path": str(Path(folder, "data"))})
        yield Store(name, catalog, files, alias=alias or "", hidden=secrets)


def open_session(store: Store, engine: Any = None) -> Session:
    """Opens a store; see `Store.open`."""
    if engine is not None:
        _check_spark(engine)
    search_path, limits = search_path_sql(store.alias), MaintenanceLimits.of(store.maintenance)
    pinned, file = is_pinned(store.attach_options), _creatable_file(store)
    reading = SharedConnection(open_connection(store), search_path, store.alias)
    writer = SharedConnection(reading.cursor(), search_path)
    try:
        # A table in SQL is one of the lake or a frame that was passed, and never a variable of lakeconf such as `self`.
        reading.execute("SET GLOBAL python_enable_replacements = false")
        reading.execute(";".join(f"SET {name} = {literal(value)}" for name, value in SETTINGS.items()))
        reader = store_reader(store, reading)
        writer.prefer_builtins(store.alias)
        session = Session(
            store=store.name,
            alias=store.alias,
            reader=reader,
            writer=writer,
            engine=_engine(store, reader, writer, engine),
            guard=guard_of(reader, store.metadata_backend, store.storage_backend, store.names),
            clock=clock_of(reader, store.metadata_backend),
            # Only one DuckDB instance can open a DuckDB file.
            reconnect=reading.cursor if file is not None else partial(open_connection, store),
            barrier=_barrier(store.metadata_backend, reader),
            base=Base(_snapshot(reader, pinned=pinned).snapshot_id),
            read_only=store.read_only,
            pinned=pinned,
            deadline=limits.deadline,
            memory_limit=limits.memory_limit,
            own_files=OwnFiles(reader.data_path, limits.owns),
            committer=store.committer,
            backed_up=_backed_up(store, reader),
            config=store.config,
        )
        _add_parent(session, store, engine)
    except BaseException:
        reading.close()
        raise
    _log.info("opened %s at snapshot %d with %s", store.name, session.snapshot_id, session.engine.name)
    return session


def store_reader(store: Store, connection: Connection) -> CatalogReader:
    """A reader of the lake of a store; of a branch, one that knows the lake that it was made of.

    Raises:
        BranchError: The store is that of a branch, and the lake is none, or its pin does not hold.
    """
    parent = store.parent
    if parent is None:
        return reader_of(store.metadata_backend, store.names, connection)
    return with_parent(reader_beside(store, connection), reader_beside(parent, connection), store.name)


def reader_beside(store: Store, connection: Connection) -> CatalogReader:
    """A reader of a lake beside another one, whose secret may name another schema of the metadata."""
    reader = reader_of(store.metadata_backend, store.names, connection)
    if reader.metadata_schema is not None or store.metadata_backend.file() is None:
        return reader
    return replace(reader, metadata_schema="main")


def _add_parent(session: Session, branch: Store, engine: Any) -> None:
    """Adds the lake that a branch was made of, at the snapshot of the branch, on the same connections."""
    store, parent = branch.parent, session.reader.parent
    if store is None or parent is None:
        return
    session.parent = replace(
        session,
        store=store.name,
        alias=store.alias,
        reader=parent.reader,
        engine=_engine(store, parent.reader, session.writer, engine),
        guard=LakeGuard(None, None),
        base=Base(parent.snapshot_id),
        read_only=True,
        pinned=True,
        backed_up=None,
        parent=None,
        _snapshot_lock=threading.RLock(),
    )


def _engine(store: Store, reader: CatalogReader, writer: Connection, spark: Any) -> Engine:
    return DuckDBEngine(reader, writer) if spark is None else _spark_engine(store, reader, writer, spark)


def _backed_up(store: Store, reader: CatalogReader) -> Callable[[], frozenset[str]] | None:
    place = store.maintenance.get("backups")
    if place is None:
        return None
    from lakeconf.guard.backups import BackupPlace, paths_needed  # few stores need it

    return lambda: paths_needed(
        BackupPlace.opened(place, store.storage_backend, store.names, store.secrets), reader.lake_id
    )


def _snapshot(reader: CatalogReader, *, pinned: bool) -> Snapshot:
    """The snapshot that reads see: the latest, or the one that the options of ATTACH name."""
    if not pinned:
        return latest(reader)
    ((version,),) = reader.connection.rows("FROM ducklake_current_snapshot(?)", [reader.alias])
    return by_version(reader, int(version))


def _barrier(backend: MetadataBackend, reader: CatalogReader) -> str | Committing:
    """The statement that waits for commits in progress on the catalog's server, or what commits instead of a server."""
    if backend.file() is not None:
        return Committing.THIS_PROCESS
    server = backend.server()
    if server is None:
        return Committing.UNKNOWN
    return server.await_commits(reader.metadata_database, reader.metadata_schema)


def _creatable_file(store: Store) -> Path | None:
    """The file of the catalog, if it is one; rejects a new lake whose first write would fail."""
    file = store.metadata_backend.file()
    if file is not None and not os.path.exists(file) and not creates_nothing(store.attach_options):
        FileLocks(file).check()
    return file


def _check_spark(spark: Any) -> None:
    for package in ("pyspark", "pyarrow"):  # a cluster may provide only the first one
        with required(package, extra="spark", needed_for="a lake on Spark"):
            importlib.import_module(package)
    importlib.import_module("lakeconf.engines.spark.versions").check_version(spark)


def _spark_engine(store: Store, reader: CatalogReader, writer: Connection, spark: Any) -> Engine:
    access = Access.of(store)
    if not hasattr(spark, "sparkContext"):
        connect = importlib.import_module("lakeconf.engines.spark.connect.connect_engine")
        connect_engine: Engine = connect.ConnectEngine(spark, reader, writer, access)
        return connect_engine
    engine = importlib.import_module("lakeconf.engines.spark.classic_engine")
    settings = store.storage_backend.hadoop_settings() if store.storage_backend is not None else {}
    spark_engine: Engine = engine.SparkEngine(spark, reader, writer, settings, access)
    return spark_engine
