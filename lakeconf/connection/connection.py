"""Connections to DuckDB: they run statements, load extensions, and raise errors of lakeconf."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lakeconf.connection.duckdb_errors import (
    errors_of_arrow,
    is_interrupt,
    read_json,
    translated_errors,
    translation,
)
from lakeconf.connection.duckdb_facts import check_version, create_supported_catalogs
from lakeconf.connection.relations import SHARED_DATABASE, Relations
from lakeconf.ducklake import metadata_database
from lakeconf.errors import ConnectionFailed, LakeconfError
from lakeconf.secret import Secret
from lakeconf.sql import LoadExtension, Statement, bind, identifier, literal, qualified, with_literals

if TYPE_CHECKING:
    import duckdb
    import narwhals as nw
    import pyarrow

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}


class SearchPaths:
    """The search paths of the connections of all threads.

    DuckDB looks up each schema of a path, and DuckLake begins a transaction for it: to compare the path is cheaper.
    """

    def __init__(self) -> None:
        # The statement that has set the path, and the path as DuckDB shows it, if known. DuckDB shows names without
        # quotes, so two paths may look alike.
        self._set: WeakKeyDictionary[object, tuple[str, object]] = WeakKeyDictionary()

    def set(self, native: duckdb.DuckDBPyConnection, statement: str) -> None:
        """Runs the statement of `search_path_sql` on a connection, unless it has run and the path is still the same."""
        earlier, shown = self._set.pop(native, ("", None))
        if earlier != statement:
            native.execute(statement)
            shown = None
        elif shown is None or _shown(native) != shown:
            native.execute(statement)
            shown = _shown(native)
        self._set[native] = (statement, shown)

    def statement(self, native: duckdb.DuckDBPyConnection) -> str:
        """The statement that has set the path of a connection; empty if it is not known."""
        return self._set.get(native, ("", None))[0]


def _shown(native: duckdb.DuckDBPyConnection) -> object:
    return native.execute("SELECT system.main.current_setting('search_path')").fetchall()


def search_path_sql(database: str, schemas: Iterable[str] = ()) -> str:
    """Returns the statement that makes DuckDB look up tables in a database, and functions in DuckDB first."""
    names = dict.fromkeys(["main", *schemas])
    path = [SHARED_DATABASE, "system.main", *(qualified(database, schema) for schema in names)]
    return f"SET search_path = {literal(','.join(path))}"


class Connection:
    """A connection to DuckDB that raises lakeconf's errors, without secrets in them.

    It must be used by one thread only; use `SharedConnection` for several threads.
    """

    def __init__(self, native: duckdb.DuckDBPyConnection, secrets: Iterable[Secret] = ()) -> None:
        self._native = native
        self.secrets = tuple(secrets)
        self._errors = _ConnectionErrors(self)
        self._database: str | None = None
        # The extensions of its instance that are known to be loaded: none can be unloaded.
        self.extensions: set[str] = set()
        self._paths = SearchPaths()
        # The SQL that a new connection first runs to be like this one.
        self._set_up = ""
        self._relations = Relations()

    @property
    def native(self) -> duckdb.DuckDBPyConnection:
        """The duckdb connection of the calling thread."""
        return self._native

    def execute(self, sql: str, parameters: Sequence[object] | None = None) -> duckdb.DuckDBPyConnection:
        """Runs SQL."""
        with self.errors():
            return self.native.execute(sql, parameters)

    def run_over(self, name: str, relation: duckdb.DuckDBPyRelation, sql: str) -> list[tuple[Any, ...]]:
        """Runs SQL that names a relation of this connection, and returns its rows; the caller translates errors."""
        # Not `relation.query`, which Ctrl-C does not interrupt.
        self.native.register(name, relation)
        try:
            return self.native.execute(sql).fetchall()
        finally:
            # DuckDB makes a view for it, which it does not remove.
            with contextlib.suppress(LakeconfError):
                self.execute(f"DROP VIEW IF EXISTS temp.main.{name}")

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Runs SQL and returns its rows."""
        with self.errors():
            return self._read(sql, parameters).fetchall()

    def named_rows(self, sql: str, limit: int | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Runs SQL and returns the names of its columns and up to `limit` rows."""
        with self.errors():
            result = self.native.execute(sql)
            names = [column[0] for column in result.description or ()]
            return names, result.fetchall() if limit is None else result.fetchmany(limit)

    def records(self, sql: str, parameters: Sequence[object] | None = None) -> list[dict[str, Any]]:
        """Runs SQL and returns each row as a mapping of column names to values."""
        with self.errors():
            result = self._read(sql, parameters)
            names = [name for name, *_ in result.description]
            return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def _read(self, sql: str, parameters: Sequence[object] | None) -> duckdb.DuckDBPyConnection:
        import duckdb

        native = self.native
        if not isinstance(native, duckdb.DuckDBPyConnection):
            return native.execute(sql, parameters)  # type: ignore[unreachable]  # the simulator's model of DuckDB
        return native.execute(*with_literals(sql, parameters)) if parameters else native.execute(sql)

    def arrow(self, sql: str, parameters: Sequence[object] | None = None) -> pyarrow.Table:
        """Runs SQL and returns its rows as an Arrow table."""
        with self.errors():
            return self.native.execute(sql, parameters).to_arrow_table()

    def batches(self, sql: str, rows: int) -> Iterator[pyarrow.RecordBatch]:
        """Runs SQL and yields its rows as Arrow batches of at most `rows` rows, while DuckDB computes them."""
        with self.errors():
            reader = self.native.execute(sql).to_arrow_reader(rows)
        while True:
            with self.errors(), errors_of_arrow():
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    def run(self, statement: Statement) -> None:
        """Runs a statement of a store, with secret values bound as parameters."""
        if isinstance(statement, LoadExtension):
            load_extension(self, statement.name)
            return
        sql, parameters = bind(statement)
        with self.errors():
            # Keep revealed values out of local variables: error reporting tools show them.
            self.native.execute(sql, [secret.for_connection() for secret in parameters] or None)

    @property
    def database(self) -> str:
        """The default database for tables."""
        if self._database is None:
            ((database,),) = self.rows("SELECT current_database()")
            return str(database)
        return self._database

    @property
    def time_zone(self) -> str:
        """The time zone in which DuckDB casts TIMESTAMP to TIMESTAMPTZ."""
        ((zone,),) = self.rows("SELECT system.main.current_setting('TimeZone')")
        return str(zone)

    def prefer_builtins(self, database: str, schemas: Iterable[str] = ()) -> None:
        """Makes a database the default for tables, but resolves functions in DuckDB first.

        After `USE` alone, a macro of the lake named `count` or `ducklake_current_snapshot` would replace the function
        of that name, even in lakeconf's own statements.
        """
        self._database = database
        with self.errors():
            self._paths.set(self.native, search_path_sql(database, schemas))

    def relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        """Binds a query without running it."""
        with self.errors():
            return self.native.sql(sql)

    def register(self, name: str, frame: object) -> None:
        """Registers a frame or relation as a temporary view, valid while the connection is open."""
        with self.errors():
            self.native.register(name, frame)

    def from_arrow(self, table: object) -> duckdb.DuckDBPyRelation:
        """Creates a relation from an Arrow table."""
        with self.errors():
            return self.native.from_arrow(table)

    def share(self, name: str, relation: duckdb.DuckDBPyRelation) -> None:
        """Makes a view of a relation of the calling thread, which the queries of all relations may name."""
        with self.errors():
            self._relations.share(self.native, name, relation)

    def apart(self, relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        """The rows of a relation of the calling thread, as a relation with a connection of its own."""
        with self.errors():
            own = self._native.cursor()
            set_up = self._paths.statement(self.native) or self._set_up
            if set_up:
                own.execute(set_up)
            own.execute(f"SET TimeZone = {literal(self.time_zone)}")
            return self._relations.apart(self.native, own, relation)

    def joinable(self, relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation | None:
        """The rows as a relation that joins with those of the calling thread; None if it is of another instance."""
        with self.errors():
            return self._relations.joinable(self.native, relation)

    def errors(self) -> AbstractContextManager[None]:
        """Translates duckdb errors inside a `with` block to lakeconf's and masks the secrets of this connection.

        Ctrl-C stops the running query. duckdb itself only stops waiting for it: the next statement, or `close`, would
        wait until the query ends.
        """
        return self._errors

    @contextlib.contextmanager
    def errors_as_json(self) -> Iterator[None]:
        """DuckDB's errors inside are JSON: only JSON has the exact position of an error."""
        self.execute("SET errors_as_json = true")
        try:
            yield
        finally:
            # The setting ends with the connection if a broken transaction refuses this.
            with contextlib.suppress(LakeconfError):
                self.execute("RESET errors_as_json")

    @contextlib.contextmanager
    def errors_with_places(self) -> Iterator[None]:
        """Errors inside have the place in the SQL that DuckDB was given first, and no text of lakeconf's statement.

        DuckDB shows the place of an error in a relation in the wrong text: that of the statement that reads it.
        """
        import duckdb

        with self.errors_as_json():
            try:
                yield
            except duckdb.Error as error:
                read_json(error)
                raise

    def cursor(self) -> Connection:
        """Opens another connection to the same instance; it does not inherit `USE`."""
        with self.errors():
            return Connection(self._native.cursor(), self.secrets)

    def detach_native(self) -> duckdb.DuckDBPyConnection:
        """Returns the duckdb connection to a caller that takes ownership; do not use this object afterwards."""
        return self._native

    def close(self) -> None:
        """Closes the connection."""
        if not _is_lost(self._native):
            self._native.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _ConnectionErrors:
    """The context of `Connection.errors`, which has no state."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            return
        if is_interrupt(error):
            self._connection.native.interrupt()
        translated = translation(error, self._connection.secrets)
        if translated is not None:
            raise translated from error


def _is_lost(native: duckdb.DuckDBPyConnection) -> bool:
    """Ends an open transaction, and returns True if the instance is lost, after which it must not be closed.

    DuckDB ends the process if it closes a transaction that it cannot roll back: because the catalog's server is lost,
    or after a fatal error of its own.
    """
    import duckdb

    try:
        native.rollback()
    except duckdb.FatalException:
        # Also Python must not close it, not even when the process ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))
        return True
    except Exception:  # noqa: BLE001 - there is none, or its server is lost
        return False
    return False


def schemas_of(connection: Connection, database: str) -> list[str]:
    """Returns the sorted schemas of an attached database."""
    rows = connection.rows("SELECT schema_name FROM duckdb_schemas() WHERE database_name = ?", [database])
    return sorted(schema for (schema,) in rows)


def connect(secrets: Iterable[Secret] = ()) -> Connection:
    """Opens an in-memory DuckDB instance without a progress bar, which DuckDB would print to stdout."""
    import duckdb

    check_version(duckdb.__version__)
    connection = Connection(duckdb.connect(), secrets)
    connection.execute("SET enable_progress_bar = false")
    return connection


def fetched(frame: nw.LazyFrame[Any], secrets: Iterable[Secret]) -> list[tuple[Any, ...]]:
    """Computes a lazy frame; DuckDB frames need no pyarrow, unlike narwhals' `collect`."""
    import duckdb
    import narwhals as nw

    native = nw.to_native(frame)
    if not isinstance(native, duckdb.DuckDBPyRelation):
        return frame.collect("pyarrow").rows()
    with translated_errors(secrets):
        return native.fetchall()


def load_extension(connection: Connection, name: str) -> None:
    """Loads an extension from its installed wheel, or without a wheel from DuckDB's extension server."""
    if not connection.extensions:  # DuckDB looks for installed extensions in files each time
        rows = connection.rows("SELECT extension_name FROM duckdb_extensions() WHERE loaded")
        connection.extensions.update(str(loaded) for (loaded,) in rows)
    if name in connection.extensions:
        return
    try:
        connection.execute(extension_sql(name))
    except LakeconfError as error:
        raise ConnectionFailed(
            f"the DuckDB extension {name!r} can neither be installed nor loaded: {error.message}",
            hint="install the extensions as packages: pip install 'lakeconf[bundled]'",
        ) from error
    connection.extensions.add(name)
    if name == "ducklake":
        create_supported_catalogs(connection.rows)


def extension_sql(name: str) -> str:
    """Returns the SQL that loads an extension from its installed wheel, or else from DuckDB's extension server."""
    wheel = _extension_wheel(name)
    return f"INSTALL {name}; LOAD {name};" if wheel is None else f"LOAD {literal(str(wheel))};"


def _extension_wheel(name: str) -> Path | None:
    import importlib.util

    import duckdb

    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
        if path.is_file():
            return path
    return None


class SharedConnection(Connection):
    """A connection that gives each thread its own cursor.

    duckdb mixes up results if several threads use one connection at the same time. A relation belongs to the cursor of
    the thread that created it. The calling thread continues to use the connection directly; each new cursor first runs
    the SQL of `set_up`, such as `USE`, which cursors do not inherit. Closing it detaches the database `attached`.
    """

    def __init__(self, connection: Connection, set_up: str, attached: str = "") -> None:
        super().__init__(connection.native, connection.secrets)
        self._set_up, self._attached = set_up, attached
        self._is_closed = False
        self._cursors = threading.local()
        self._cursors.native = connection.native
        self._all: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet([connection.native])
        self._adding = threading.Lock()

    @property
    def native(self) -> duckdb.DuckDBPyConnection:
        """The duckdb connection of the calling thread."""
        self._check_open()
        if not hasattr(self._cursors, "native"):
            with self.errors():
                cursor = self._native.cursor()
                cursor.execute(self._set_up)
            self._cursors.native = cursor
            with self._adding:
                self._all.add(cursor)
        native: duckdb.DuckDBPyConnection = self._cursors.native
        return native

    def close(self) -> None:
        """Closes the connection and the cursors of all threads, from any thread."""
        self._is_closed = True
        with self._adding:
            natives = list(self._all)
        lost = [native for native in natives if _is_lost(native)]
        if lost:
            return
        if self._attached:
            # A commit that failed keeps DuckDB's instance in memory, and so does a relation that a user has. Its
            # connections to the catalog's server, or its lock on the catalog's file, would stay.
            with contextlib.suppress(Exception), self._native.cursor() as cursor:
                cursor.execute(f"DETACH DATABASE IF EXISTS {identifier(self._attached)}")
        self._native.close()

    def cursor(self) -> Connection:
        """Opens another connection to the same instance; it does not inherit `USE`."""
        self._check_open()
        return super().cursor()

    def _check_open(self) -> None:
        if self._is_closed:
            raise LakeconfError("the lake is closed", hint="open it again: store.open()")


def remove_files(connection: Connection, paths: Sequence[str]) -> None:
    """Removes exactly these files, on this machine or in a bucket; missing files are ignored.

    DuckDB has no statement that removes a file, so an in-memory catalog schedules these files for deletion.
    """
    # An interrupted removal may have left its catalog attached, and another thread may remove files at the same time.
    scratch = f"__lakeconf_removal_{uuid.uuid4().hex}"
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"ATTACH 'ducklake::memory:' AS {scratch} (DATA_PATH '/')")
            rows = ", ".join(f"({number}, {literal(path)}, false, now())" for number, path in enumerate(paths))
            scheduled = f"{metadata_database(scratch)}.ducklake_files_scheduled_for_deletion"
            cursor.execute(f"INSERT INTO {scheduled} VALUES {rows}")  # noqa: S608
            cursor.rows(f"CALL ducklake_cleanup_old_files('{scratch}', cleanup_all => true)")
        finally:
            cursor.execute(f"DETACH DATABASE IF EXISTS {scratch}")


@contextlib.contextmanager
def closed_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an empty database: no files, no extensions, no variables of Python.

    To make a database takes 20 ms, so all connections of a process share one: create only temporary tables.
    """
    import duckdb

    process = os.getpid()  # the threads of a database end where a process is forked
    try:
        try:
            connection = _closed_database(process).cursor()
            connection.execute("SELECT 1")
        except duckdb.Error:  # after an internal error, DuckDB runs no further statement in a database
            _closed_database.cache_clear()
            connection = _closed_database(process).cursor()
        with connection:
            yield connection
    except RuntimeError as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise


@functools.cache
def _closed_database(_process: int) -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect(config=_SETTINGS)
