"""Tests a store step by step and reports the result of each step, with the reason and the fix if it failed."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from lakeconf.backends.metadata.migration import attach_metadata
from lakeconf.backends.store_options import creates_nothing
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection, connect, load_extension
from lakeconf.connection.duckdb_facts import INSTALL_TESTED, untested
from lakeconf.engines.spark.java_home import ensure_java
from lakeconf.errors import CatalogError, CatalogMissingError, CatalogMovedError, CatalogRestoredError, LakeconfError
from lakeconf.guard.guard import marker_of, reader_of
from lakeconf.guard.locks import check_privileges
from lakeconf.inspection.doctor_lake import (
    Skip,
    Warn,
    examine_clock,
    examine_columns,
    examine_files,
    examine_marker,
    examine_statistics,
    examine_timeout,
    make_folders,
    read_and_remove,
)
from lakeconf.secret import scrub
from lakeconf.sql import Attach, CreateSecret, LoadExtension, Use, listing_sql, literal
from lakeconf.store import Store, check_not_lost
from lakeconf.wording import counted

OK, WARNING, FAILED, SKIPPED = "ok", "warning", "failed", "skipped"


@dataclass(frozen=True)
class StepResult:
    """The outcome of one step."""

    name: str
    status: str  # `ok`, `warning`, `failed` or `skipped`
    found: str  # the result, or the reason of a failed or skipped step
    hint: str | None = None  # what to do; None if there is nothing to do
    seconds: float = 0.0  # the duration, in seconds


@dataclass
class Examination:
    """The state of an examination of a store."""

    store: Store
    connection: Connection  # A DuckDB connection; the lake is not attached yet
    has_catalog: bool = True  # False if there is no lake yet
    failed: set[str] = field(default_factory=set)

    @cached_property
    def reader(self) -> CatalogReader:
        """Reads the catalog; skips the step if there is none yet."""
        if not self.has_catalog:
            raise Skip("there is no catalog yet")
        return reader_of(self.store.metadata_backend, self.store.names, self.connection)


def diagnose(store: Store) -> list[StepResult]:
    """Tests everything that a job with this store needs, without changing the lake.

    It creates no catalog. It writes, reads and removes a file below the data path, unless the store is read-only. It
    starts no Spark session.
    """
    with connect(store.secrets) as connection:
        examination = Examination(store, connection)
        return [_carry_out(examination, *step) for step in _STEPS]


def repair_marker(store: Store, confirm: Callable[[CatalogError, str], None]) -> None:
    """Creates the missing marker of an existing lake, or records that its catalog was moved or restored.

    `confirm` gets the error and the question to ask.
    """
    if store.read_only:
        raise LakeconfError(
            f"the store {store.name!r} is read-only: the marker cannot be created",
            hint="remove read_only from attach_options",
        )
    with connect(store.secrets) as connection:
        examination = Examination(store, connection)
        for prepare in (_load_extensions, _secrets, _catalog):
            prepare(examination)
        if not examination.has_catalog:
            raise CatalogError(
                f"stores.{store.name} has no lake yet", hint="write to the lake: the first write creates the marker"
            )
        marker = marker_of(examination.reader, store.metadata_backend)
        try:
            marker.repair()
        except CatalogMovedError as error:
            confirm(error, "This catalog was moved or copied. Is it the only one that still uses this data path?")
            marker.confirm_move()
        except CatalogRestoredError as error:
            confirm(
                error, "Is this the right catalog? A cleanup then removes files that only the later snapshots need."
            )
            marker.confirm_move()


def _carry_out(
    examination: Examination, name: str, needs: tuple[str, ...], run: Callable[[Examination], str]
) -> StepResult:
    missing = [need for need in needs if need in examination.failed]
    if missing:
        examination.failed.add(name)
        return StepResult(name, SKIPPED, f"after {missing[0]!r} failed")
    started = time.monotonic()
    hint = None
    try:
        status, result = OK, run(examination)
    except Skip as skip:
        status, result = SKIPPED, str(skip)
    except Warn as warning:
        status, (result, hint) = WARNING, warning.args
    except LakeconfError as error:
        examination.failed.add(name)
        status, result, hint = FAILED, error.message, error.hint
    except Exception as error:  # noqa: BLE001 - a backend of another package may raise anything
        examination.failed.add(name)
        status, result = FAILED, scrub(f"{type(error).__name__}: {error}", examination.store.secrets)
    return StepResult(name, status, result, hint, round(time.monotonic() - started, 3))


def _load_extensions(examination: Examination) -> None:
    for name in examination.store.extensions:
        load_extension(examination.connection, name)


def _extensions(examination: Examination) -> str:
    _load_extensions(examination)
    query = "SELECT extension_name, extension_version FROM duckdb_extensions() WHERE loaded"
    versions = dict(examination.connection.rows(query))
    ((duckdb_version,),) = examination.connection.rows("SELECT version()")
    loaded = (f"{name} {versions.get(name) or ''}".strip() for name in examination.store.extensions)
    description = f"DuckDB {duckdb_version}: {', '.join(loaded)}"
    warning = untested(str(duckdb_version))
    if warning:
        raise Warn(f"{description}; {warning}", INSTALL_TESTED)
    return description


def _secrets(examination: Examination) -> str:
    created = []
    for statement in examination.store.own_statements:
        if isinstance(statement, CreateSecret):
            created.append(statement.name)
        if not isinstance(statement, (Attach, Use, LoadExtension)):
            examination.connection.run(statement)
    return ", ".join(created)


def _catalog(examination: Examination) -> str:
    store = examination.store
    file = store.metadata_backend.file()
    if file is not None and not (file.exists() and (file.is_dir() or file.stat().st_size)):
        examination.has_catalog = False
        check_not_lost(store, examination.connection)
        return f"none yet: the first write creates {file}"
    if file is not None:
        store.metadata_backend.prepare(read_only=True)
        store.metadata_backend.admit(examination.connection)
    (attach,) = [statement for statement in store.own_statements if isinstance(statement, Attach)]
    changing = {"automatic_migration", *(store.metadata_backend.write_defaults.keys() - store.attach_options.keys())}
    options = {key: value for key, value in attach.options.items() if key not in changing}
    try:
        examination.connection.run(attach._replace(options={**options, "create_if_not_exists": False}))
    except CatalogMissingError:
        examination.has_catalog = False
        check_not_lost(store, examination.connection)
        _check_creatable(store, examination.connection)
        return "none yet: the first write creates it"
    server = store.metadata_backend.server()
    if server is not None and not store.read_only:
        reader = examination.reader
        check_privileges(server, reader.metadata_database, reader.metadata_schema, reader.connection)
    return f"{store.metadata_backend.description()}, attached as {store.alias}"


def _check_creatable(store: Store, connection: Connection) -> None:
    """Rejects a role that cannot create the catalog."""
    server, database = store.metadata_backend.server(), "lakeconf_doctor"
    query = None if server is None else server.uncreatable(database, store.metadata_backend.catalog_schema(store.names))
    if query is None or creates_nothing(store.attach_options):
        return
    attach_metadata(connection, store.metadata_backend.ducklake_options(store.names), database, {"read_only": True})
    for (lacking,) in connection.rows(query):
        raise CatalogError(
            f"there is no catalog yet, and the role cannot create it: it lacks {lacking}",
            hint="create the schema with AUTHORIZATION for the role, or grant it (docs/postgres.md)",
        )


def _version(examination: Examination) -> str:
    integrity = examination.store.metadata_backend.integrity
    if integrity:
        ((verdict,),) = examination.connection.rows(integrity.format(examination.reader.metadata_database))
        if verdict != "ok":
            raise CatalogError(
                f"the catalog file is damaged: {verdict}",
                hint="restore a backup, without the -wal and -shm files of the damaged catalog (docs/operations.md)",
            )
    with examination.reader.transaction() as transaction:
        ((version,),) = transaction.rows("SELECT value FROM ducklake_metadata WHERE key = 'version'")
        ((count,),) = transaction.rows("SELECT count(*) FROM ducklake_snapshot")
        examine_columns(transaction)
    return f"DuckLake {version}, {counted(count, 'snapshot')}"


def _readable(examination: Examination) -> str:
    location = _location(examination)
    if "://" not in location and not Path(location).exists():
        return f"none yet: the first write creates {location}"
    ((count,),) = examination.connection.rows(f"SELECT count(*) FROM ({listing_sql(location, '**/*.parquet')})")
    return f"{location}: {counted(count, 'Parquet file')}"


def _writable(examination: Examination) -> str:
    if examination.store.read_only:
        raise Skip("the store is read-only")
    location, connection = _location(examination), examination.connection
    folder = f"{location}lakeconf-doctor-{uuid.uuid4().hex}/"
    probe = f"{folder}probe.parquet"
    created = [] if "://" in location else make_folders(Path(folder))
    try:
        connection.execute(f"COPY (SELECT 42 AS probe) TO {literal(probe)} (FORMAT parquet)")
        read_and_remove(connection, probe)
    finally:
        for path in reversed(created):
            with contextlib.suppress(OSError):
                path.rmdir()
    return "a file was written, read and removed"


def _marker(examination: Examination) -> str:
    _location(examination)
    return examine_marker(examination.store, examination.reader)


def _files(examination: Examination) -> str:
    _location(examination)
    return examine_files(examination.reader)


def _spark(examination: Examination) -> str:
    if importlib.util.find_spec("pyspark") is None:
        raise Skip("pyspark is not installed: pip install 'lakeconf[spark]'")
    java = ensure_java()
    conf = examination.store.spark_conf()
    packages = [package for package in conf.get("spark.jars.packages", "").split(",") if package]
    summary = f"PySpark {importlib.metadata.version('pyspark')}, Java in {java}"
    keys = [key for key in conf if not key.startswith("spark.jars.")]
    if keys:
        summary += f"; sets {', '.join(keys)}"
    return summary + (f"; Spark fetches {', '.join(packages)}" if packages else "")


def _location(examination: Examination) -> str:
    if examination.store.storage_backend is None:
        raise Skip("the metadata backend keeps the files")
    return examination.store.storage_backend.location


# Each step with the steps that it depends on.
_STEPS: tuple[tuple[str, tuple[str, ...], Callable[[Examination], str]], ...] = (
    ("extensions", (), _extensions),
    ("secrets", ("extensions",), _secrets),
    ("catalog", ("secrets",), _catalog),
    ("version", ("catalog",), _version),
    ("data path readable", ("secrets",), _readable),
    ("data path writable", ("secrets", "data path readable"), _writable),
    ("clock", ("catalog",), lambda examination: examine_clock(examination.store, examination.reader)),
    ("server", ("catalog",), lambda examination: examine_timeout(examination.store, examination.reader)),
    ("marker", ("catalog", "data path readable"), _marker),
    ("files", ("catalog", "data path readable"), _files),
    ("statistics", ("catalog",), lambda examination: examine_statistics(examination.reader)),
    ("spark", (), _spark),
)
