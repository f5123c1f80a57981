"""Opens DuckDB, finds its extensions, runs statements; the one place that meets an error of duckdb."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeconf.errors import (
    CatalogError,
    CatalogLockedError,
    CatalogMissingError,
    CatalogVersionError,
    CommitConflictError,
    CommitError,
    ConnectionFailed,
    FileMissingError,
    LakeconfError,
    QueryError,
    SchemaError,
    StorageError,
    UnknownNameError,
)
from lakeconf.secret import Secret, scrub
from lakeconf.sql import LoadExtension, Statement, bind, literal
from lakeconf.versions import MIGRATE, refused_version

if TYPE_CHECKING:
    import duckdb
    import narwhals as nw
    import pyarrow

# Ordered: the first pattern that the message matches decides.
_BY_MESSAGE: tuple[tuple[str, type[LakeconfError], str | None], ...] = (
    (r"^(Catalog|Binder) Error: .* does not exist", UnknownNameError, None),
    (r"creating a new DuckLake is explicitly disabled", CatalogMissingError, None),
    (
        r"DATA_PATH parameter .* does not match",
        CatalogError,
        "give the path that the lake was made with, or set attach_options.override_data_path = true",
    ),
    (r"catalog version|AUTOMATIC_MIGRATION|DuckLake Extension .* requires", CatalogError, None),
    (
        r"exists, but it is not a valid DuckDB database|file is not a database|not an error",
        CatalogError,
        "the file is not a catalog of this type: check `type` and `uri` of the metadata backend",
    ),
    (
        r"readonly database|database or disk is full|disk I/O error",
        CatalogError,
        "the catalog's file or its folder cannot be written: check their rights, and the space on the disk",
    ),
    # What names a file comes before what is looked for in whole sentences: a file may be called anything.
    (
        r"certificate.* for HTTP",
        StorageError,
        "of a private authority, name its certificate: `ca_cert_file` of the storage backend",
    ),
    (
        r"ExpiredToken|token (included in the request )?(is|has) expired",
        StorageError,
        "the credentials have expired: get new ones, and open the lake again",
    ),
    (
        r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken",
        StorageError,
        "check key_id, secret and session_token of the storage backend",
    ),
    (r"NoSuchBucket", StorageError, "make the bucket, or check `bucket`, `region` and `endpoint`"),
    (r"HTTP (code )?404", FileMissingError, None),
    (r"HTTP (code )?403", StorageError, "the credentials of the storage backend do not permit this on the bucket"),
    (r"HTTP (code )?(503|429|500)", StorageError, "the storage server is overloaded or ill: try again later"),
    (r"error for HTTP [A-Z]+ to", StorageError, "is the storage server up? Check `endpoint` and `use_ssl`"),
    (r"No space left|File too large", StorageError, "the disk is full: make room, and do it again"),
    (
        r"Unique file handle conflict",
        ConnectionFailed,
        "this process has the catalog's file open already: close that lake first, or use SQLite or Postgres",
    ),
    (r"database is locked", CatalogLockedError, "another process is writing; try again"),
    (r"Could not set lock on file", ConnectionFailed, "another process is writing; try again"),
    (r"password authentication failed", ConnectionFailed, "check `user` and `password` of the metadata backend"),
    (r"FATAL: +database .* does not exist", ConnectionFailed, "make the database, or check `database`"),
    (
        r"Unable to connect to Postgres|could not connect|connection to server|Connection refused"
        r"|server closed the connection|SSL (error|connection)|Could not establish connection"
        r"|terminating connection|could not receive data|could not send data",
        ConnectionFailed,
        "is the server up? Check `host` and `port` of the metadata backend",
    ),
    (r"[Cc]onflict|has been altered by another|attempting to .* another transaction", CommitConflictError, None),
    (r"Failed to (attach|probe|initialize|load|migrate) DuckLake", CatalogError, None),
    (r"Failed to commit", CommitError, None),
    (r"HTTP|No such file|No files found|Permission denied|Cannot open file|Cannot write to", StorageError, None),
)
_BY_CLASS: dict[str, type[LakeconfError]] = {
    "HTTPException": StorageError,
    "IOException": StorageError,
    "PermissionException": StorageError,
    "ConnectionException": ConnectionFailed,
    "TransactionException": CommitError,
    "ConstraintException": SchemaError,
    "ConversionException": SchemaError,
    "TypeMismatchException": SchemaError,
    "OutOfRangeException": SchemaError,
}


class Connection:
    """A connection to DuckDB whose errors are lakeconf's, without a secret in them.

    It belongs to one thread; see `SharedConnection` for several.

    Args:
        native: The connection of duckdb.
        secrets: What must not show in an error.
    """

    def __init__(self, native: duckdb.DuckDBPyConnection, secrets: Iterable[Secret] = ()) -> None:
        self._native = native
        self.secrets = tuple(secrets)

    @property
    def native(self) -> duckdb.DuckDBPyConnection:
        """The connection of duckdb for the thread that asks."""
        return self._native

    def execute(self, sql: str, parameters: Sequence[object] | None = None) -> duckdb.DuckDBPyConnection:
        """Runs SQL.

        Args:
            sql: One statement, or several without parameters.
            parameters: Values for its `?`.

        Returns:
            duckdb's connection, whose result can be fetched.

        Raises:
            LakeconfError: DuckDB refuses; the class says why.
        """
        with translated_errors(self.secrets):
            return self.native.execute(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Runs SQL and gives its rows."""
        with translated_errors(self.secrets):
            return self.native.execute(sql, parameters).fetchall()

    def records(self, sql: str, parameters: Sequence[object] | None = None) -> list[dict[str, Any]]:
        """Runs SQL and returns each row as a mapping of column names to values."""
        with translated_errors(self.secrets):
            found = self.native.execute(sql, parameters)
            names = [name for name, *_ in found.description]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def arrow(self, sql: str, parameters: Sequence[object] | None = None) -> pyarrow.Table:
        """Runs SQL and gives its rows as an Arrow table."""
        with translated_errors(self.secrets):
            return self.native.execute(sql, parameters).to_arrow_table()

    def run(self, statement: Statement) -> None:
        """Runs a statement of a store's set-up, its secret values bound."""
        if isinstance(statement, LoadExtension):
            load_extension(self, statement.name)
            return
        sql, parameters = bind(statement)
        self.execute(sql, parameters or None)

    def cursor(self) -> Connection:
        """Another connection to the same instance; it does not inherit `USE`."""
        with translated_errors(self.secrets):
            return Connection(self._native.cursor(), self.secrets)

    def close(self) -> None:
        """Closes the connection."""
        self._native.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(secrets: Iterable[Secret] = ()) -> Connection:
    """Opens an instance of DuckDB in memory.

    Args:
        secrets: What must not show in an error.

    Returns:
        The connection; nothing is attached yet.
    """
    import duckdb

    return Connection(duckdb.connect(), secrets)


def fetched(frame: nw.LazyFrame[Any]) -> list[tuple[Any, ...]]:
    """Computes a lazy frame; one of DuckDB without pyarrow, which narwhals' `collect` needs.

    Args:
        frame: A lazy frame of any engine.

    Returns:
        Its rows.

    Raises:
        LakeconfError: DuckDB refuses; the class says why.
    """
    import duckdb

    native = frame.to_native()
    if not isinstance(native, duckdb.DuckDBPyRelation):
        return frame.collect("pyarrow").rows()
    with translated_errors():
        return native.fetchall()


def load_extension(connection: Connection, name: str) -> None:
    """Loads an extension from its installed wheel, by path; without a wheel from DuckDB's extension server.

    Args:
        connection: Where to load it.
        name: Its name, such as `sqlite_scanner`.

    Raises:
        ConnectionFailed: There is no wheel, and the server cannot be reached.
    """
    loaded = "SELECT loaded FROM duckdb_extensions() WHERE extension_name = ?"
    if (True,) in connection.rows(loaded, [name]):
        return
    try:
        connection.execute(extension_sql(name))
    except LakeconfError as error:
        raise ConnectionFailed(
            f"the DuckDB extension {name!r} can neither be installed nor loaded: {error.message}",
            hint="pip install 'lakeconf[bundled]' brings the extensions as packages",
        ) from error


def extension_sql(name: str) -> str:
    """The SQL that loads an extension from its installed wheel, by path; without a wheel from DuckDB's server."""
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


@contextlib.contextmanager
def translated_errors(secrets: Iterable[Secret] = ()) -> Iterator[None]:
    """Turns every error of duckdb into one of lakeconf's, with `secrets` scrubbed.

    Raises:
        LakeconfError: In place of `duckdb.Error`, which is its cause and is scrubbed as well.
    """
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        error.args = (_scrubbed(str(error), secrets),)
        raise _translate(error) from error


def _scrubbed(text: str, secrets: Iterable[Secret]) -> str:
    # A connection string in an error holds the password in clear, whoever wrote it.
    text = re.sub(r"(password\s*=\s*)('[^']*'|\S+)", r"\1***", scrub(text, secrets))
    return re.sub(r"(://[^\s:/@]*:)[^\s@/]+@", r"\1***@", text)


def _translate(error: Exception) -> LakeconfError:
    text = str(error)
    version = refused_version(text)
    if version is not None:
        refused = CatalogVersionError(version)
        refused.can_migrate = version.endswith(MIGRATE)
        return refused
    for pattern, error_class, hint in _BY_MESSAGE:
        if re.search(pattern, text):
            return error_class(text, hint=hint)
    return _BY_CLASS.get(type(error).__name__, QueryError)(text)
