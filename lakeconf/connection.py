"""Opens DuckDB, finds its extensions, runs statements; the one place that meets an error of duckdb."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeconf.errors import (
    CatalogError,
    CommitConflictError,
    CommitError,
    ConnectionFailed,
    LakeconfError,
    QueryError,
    SchemaError,
    StorageError,
)
from lakeconf.secret import Secret, scrub
from lakeconf.sql import LoadExtension, Statement, bind

if TYPE_CHECKING:
    import duckdb
    import pyarrow

# Ordered: the first pattern that the message matches decides.
_BY_MESSAGE: tuple[tuple[str, type[LakeconfError], str | None], ...] = (
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
    (r"database is locked|Could not set lock on file", ConnectionFailed, "another process is writing; try again"),
    (
        r"Unable to connect to Postgres|could not connect|connection to server|Connection refused"
        r"|server closed the connection|SSL (error|connection)|Could not establish connection"
        r"|terminating connection|could not receive data|could not send data",
        ConnectionFailed,
        None,
    ),
    (r"[Cc]onflict|has been altered by another|attempting to .* another transaction", CommitConflictError, None),
    (r"Failed to (attach DuckLake|probe DuckLake|initialize DuckLake|load DuckLake)", CatalogError, None),
    (r"Failed to commit", CommitError, None),
    (r"HTTP|No such file|No files found|Permission denied|No space left|Cannot open file", StorageError, None),
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

    Args:
        native: The connection of duckdb.
        secrets: What must not show in an error.
    """

    def __init__(self, native: duckdb.DuckDBPyConnection, secrets: Iterable[Secret] = ()) -> None:
        self.native = native
        self._secrets = tuple(secrets)

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
        with translated_errors(self._secrets):
            return self.native.execute(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Runs SQL and gives its rows."""
        with translated_errors(self._secrets):
            return self.native.execute(sql, parameters).fetchall()

    def arrow(self, sql: str, parameters: Sequence[object] | None = None) -> pyarrow.Table:
        """Runs SQL and gives its rows as an Arrow table."""
        with translated_errors(self._secrets):
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
        with translated_errors(self._secrets):
            return Connection(self.native.cursor(), self._secrets)

    def close(self) -> None:
        """Closes the connection."""
        self.native.close()

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
    wheel = _extension_wheel(name)
    if wheel is not None:
        connection.execute(f"LOAD '{str(wheel).replace(chr(39), chr(39) * 2)}'")
        return
    try:
        connection.execute(f"INSTALL {name}; LOAD {name};")
    except LakeconfError as error:
        raise ConnectionFailed(
            f"the DuckDB extension {name!r} can neither be installed nor loaded: {error.message}",
            hint="pip install 'lakeconf[bundled]' brings the extensions as packages",
        ) from error


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
    for pattern, error_class, hint in _BY_MESSAGE:
        if re.search(pattern, text):
            return error_class(text, hint=hint)
    return _BY_CLASS.get(type(error).__name__, QueryError)(text)
