"""Catalogs in a file: DuckDB and SQLite."""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from lakeconf.backends.backend import MetadataBackend, StoreNames, Text, described
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import OWN_QUERIES, SQLITE_NO_TABLES, no_table
from lakeconf.errors import CatalogError, CatalogMissingError, QueryError, StorageError, storage_errors
from lakeconf.sql import SetOption, Value, literal

_HEADERS = {"SQLite": (0, b"SQLite format 3\x00"), "DuckDB": (8, b"DUCK")}
_URI = "Path of the catalog file, relative to the configuration file."
_OWNER_ONLY, _OWNER_ONLY_FOLDER = 0o600, 0o700
# Of the files that a database has beside it.
DATABASE_SUFFIXES = ("-journal", "-wal", "-shm", ".wal")


class CatalogFile(MetadataBackend):
    """A catalog in one file."""

    kind: ClassVar[str]
    look_options: ClassVar[str] = "READ_ONLY"
    # Queries for the tables in the database `{0}`, and for what is not a plain table.
    tables: ClassVar[str]
    no_tables: ClassVar[str]
    uri: Annotated[Text, described(_URI, example=".lakeconf/catalog.sqlite")]

    @classmethod
    def path_fields(cls) -> tuple[str, ...]:
        return ("uri",)

    def file(self) -> Path:
        return Path(self.uri)

    def prepare(self, *, read_only: bool) -> None:
        path = self.file()
        if path.is_dir():
            raise CatalogError(f"the catalog {path} is a directory", hint="set uri to the catalog's file")
        for file in (path, *(Path(f"{path}{suffix}") for suffix in DATABASE_SUFFIXES)):
            if file.exists() and not file.is_file():  # the database would wait for ever to open a pipe
                raise CatalogError(f"{file} is not a regular file", hint="find out who made it, and remove it")
        if path.exists() and path.stat().st_size:
            return
        if read_only:
            raise CatalogMissingError(f"the catalog {path} does not exist")
        make_folder(path.parent)

    def admit(self, connection: Connection) -> None:
        path = self.file()
        if not (path.is_file() and path.stat().st_size):
            return
        try:
            self._check_tables(connection, f"lakeconf_{uuid.uuid4().hex}")
        except (CatalogError, QueryError, StorageError) as error:
            if error.__cause__ is not None:  # of DuckDB, which does not say what else the file is
                self.explain(path, error.message)
            raise

    def _check_tables(self, connection: Connection, name: str) -> None:
        # By the library that attaches the lake: if Python closes a file, the process loses all locks on it
        # (https://www.sqlite.org/howtocorrupt.html §2.2). A database cannot be detached in a transaction of the user.
        with connection.cursor() as cursor:
            cursor.execute(f"ATTACH {literal(self.uri)} AS {name} (TYPE {self.type}, {self.look_options})")
            try:
                refuse_foreign(
                    self.file(), self.kind, [str(table) for (table,) in cursor.rows(self.tables.format(name))]
                )
                for (table,) in cursor.rows(self.no_tables.format(name)):
                    raise no_table(table)
            finally:
                cursor.execute(f"DETACH {name}")

    def explain(self, path: Path, message: str) -> None:  # noqa: ARG002 - for SQLite
        """Raises an error that says why a file is not a database of this type, if that is known."""
        hint = "check the permissions of the file"
        with storage_errors(f"the catalog {path} cannot be read", hint=hint), path.open("rb") as file:
            head = file.read(32)
        kind = next((name for name, (at, magic) in _HEADERS.items() if head[at:].startswith(magic)), None)
        if kind == self.kind:
            return
        what = f"a {kind} database" if kind else "an unknown type of file"
        hint = f'set type = "{kind.lower()}" or name another file' if kind else "name the file of the lake's catalog"
        raise CatalogError(f"the catalog {path} is {what}, not a {self.kind} database", hint=hint)

    def make_private(self) -> None:
        path = self.file()
        make_folder(path.parent, mode=_OWNER_ONLY_FOLDER)
        if path.exists():
            return
        with (
            storage_errors(f"the catalog {path} cannot be created", hint="check the permissions of its folder"),
            tempfile.TemporaryDirectory(prefix=".lakeconf-", dir=path.parent) as folder,
        ):
            empty = Path(folder) / "catalog"
            self.make_empty(empty)
            empty.chmod(_OWNER_ONLY)
            # Another process may create the file at the same time. File systems without links have no permissions.
            with contextlib.suppress(OSError):
                os.link(empty, path)

    def make_empty(self, path: Path) -> None:
        """Creates a database without tables."""
        path.touch()


def refuse_foreign(path: Path, kind: str, tables: Collection[str]) -> None:
    """Rejects a database of another application, because DuckLake would create its tables in it."""
    if tables and "ducklake_metadata" not in tables:
        raise CatalogError(
            f"{path} is a {kind} database, but not a DuckLake catalog (it contains the table {min(tables)!r})",
            hint="use a separate file for the catalog; lakeconf does not create a catalog among other tables",
        )


def make_folder(path: Path, *, mode: int = 0o777) -> None:
    """Creates a folder and its parents."""
    hint = "check the permissions of the folder above it"
    with storage_errors(f"the folder {path} cannot be created", hint=hint):
        path.mkdir(mode, parents=True, exist_ok=True)


class DuckDBMetadata(CatalogFile):
    """A catalog in a DuckDB file: only one process can have it open."""

    kind: ClassVar[str] = "DuckDB"
    tables: ClassVar[str] = "SELECT table_name FROM duckdb_tables() WHERE database_name = '{0}'"
    # Only names: DuckDB binds nothing. A generated column can depend on the query that reads it.
    no_tables: ClassVar[str] = """
        SELECT view_name FROM duckdb_views() WHERE database_name = '{0}' AND NOT internal
        UNION ALL SELECT function_name FROM duckdb_functions() WHERE database_name = '{0}' AND NOT internal
        UNION ALL SELECT table_name FROM duckdb_tables() WHERE database_name = '{0}'
            AND contains(regexp_replace(sql, '"[^"]*"|''[^'']*''', '', 'g'), 'GENERATED ALWAYS')
    """
    type: Literal["duckdb"] = "duckdb"
    uri: Annotated[Text, described(_URI, example=".lakeconf/catalog.duckdb")]
    metadata_schema: Annotated[
        Text | None, described("Schema of the catalog's tables in the file; default `main`.", example="lake")
    ] = None

    @property
    def extensions(self) -> tuple[str, ...]:
        return ()

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:  # noqa: ARG002 - the file is enough
        schema: dict[str, Value] = {"metadata_schema": self.metadata_schema} if self.metadata_schema else {}
        return {"metadata_path": f"duckdb:{self.uri}", **schema}

    def make_empty(self, path: Path) -> None:
        import duckdb

        duckdb.connect(str(path)).close()


def _sqlite(query: str) -> str:
    return f"FROM {OWN_QUERIES['sqlite']}('{{0}}', {literal(query)})"


class SQLiteMetadata(CatalogFile):
    """A catalog in a SQLite file: several processes on one machine can use it, one writer at a time."""

    kind: ClassVar[str] = "SQLite"
    look_options: ClassVar[str] = "READ_ONLY, BUSY_TIMEOUT 30000"
    tables: ClassVar[str] = _sqlite("SELECT name FROM sqlite_master WHERE type = 'table'")
    no_tables: ClassVar[str] = _sqlite(SQLITE_NO_TABLES)
    integrity: ClassVar[str] = _sqlite("PRAGMA integrity_check(1)")
    # A connection that only reads cannot change the journal mode: SQLite refuses the attempt.
    write_defaults: ClassVar[Mapping[str, Value]] = {"meta_journal_mode": "WAL"}
    type: Literal["sqlite"] = "sqlite"

    @property
    def extensions(self) -> tuple[str, ...]:
        return ("sqlite_scanner",)

    @property
    def duckdb_settings(self) -> tuple[SetOption, ...]:
        # By default, a transaction that only reads opens another connection for each table, limited to the ROWIDs that
        # its own connection has seen. It misses what a commit in between moves: rows return, are doubled or are lost.
        return (SetOption("sqlite_disable_multithreaded_scans", "true"),)

    @property
    def attach_defaults(self) -> Mapping[str, Value]:
        # How many milliseconds SQLite waits for another commit before it reports a locked database.
        return {**super().attach_defaults, "meta_busy_timeout": 30_000}

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:  # noqa: ARG002 - the file is enough
        return {"metadata_path": f"sqlite:{self.uri}"}

    def explain(self, path: Path, message: str) -> None:
        is_refused = "unable to open" in message or "readonly database" in message
        if is_refused and Path(f"{path}-journal").exists():  # not rolled back here: it can name files to delete
            raise CatalogError(
                f"the catalog {path} has the journal of a commit that did not end",
                hint="let SQLite roll it back, if only people you trust can write here: "
                f"sqlite3 {path.name} 'PRAGMA quick_check'",
            )
        if is_refused and os.access(path, os.R_OK):
            raise CatalogError(
                f"the catalog {path} has a write-ahead log, which SQLite cannot read in a read-only folder",
                hint=f"run on a writable copy: sqlite3 {path.name} 'PRAGMA journal_mode = DELETE'",
            )
        if "not a database" in message:  # otherwise another connection of this process may have locks on the file
            super().explain(path, message)
        if "malformed" in message or "not a database" in message:
            reason = message.rpartition(": ")[2]
            raise CatalogError(f"the catalog {path} is damaged: {reason}", hint="restore the file from a backup")
