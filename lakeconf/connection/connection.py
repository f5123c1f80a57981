"""Opens DuckDB, finds its extensions and runs statements: the only way from lakeconf to DuckDB."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeconf.connection.errors import is_interrupt, translated_errors
from lakeconf.errors import ConnectionFailed, LakeconfError
from lakeconf.secret import Secret
from lakeconf.sql import LoadExtension, Statement, bind, identifier, literal

if TYPE_CHECKING:
    import duckdb
    import narwhals as nw
    import pyarrow


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
        self._database: str | None = None

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
        with self.errors():
            return self.native.execute(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Runs SQL and gives its rows."""
        with self.errors():
            return self.native.execute(sql, parameters).fetchall()

    def named_rows(self, sql: str, limit: int | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Runs SQL and gives the names of its columns and its rows, at most `limit` of them."""
        with self.errors():
            result = self.native.execute(sql)
            names = [column[0] for column in result.description or ()]
            return names, result.fetchall() if limit is None else result.fetchmany(limit)

    def records(self, sql: str, parameters: Sequence[object] | None = None) -> list[dict[str, Any]]:
        """Runs SQL and returns each row as a mapping of column names to values."""
        with self.errors():
            found = self.native.execute(sql, parameters)
            names = [name for name, *_ in found.description]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def arrow(self, sql: str, parameters: Sequence[object] | None = None) -> pyarrow.Table:
        """Runs SQL and gives its rows as an Arrow table."""
        with self.errors():
            return self.native.execute(sql, parameters).to_arrow_table()

    def run(self, statement: Statement) -> None:
        """Runs a statement of a store's set-up, its secret values bound."""
        if isinstance(statement, LoadExtension):
            load_extension(self, statement.name)
            return
        sql, parameters = bind(statement)
        with self.errors():
            # Revealed values are in no local variable: tools that report errors show those of each frame.
            self.native.execute(sql, [secret.reveal() for secret in parameters] or None)

    @property
    def database(self) -> str:
        """The default database for tables."""
        if self._database is None:
            ((database,),) = self.rows("SELECT current_database()")
            return str(database)
        return self._database

    def prefer_builtins(self, database: str, schemas: Iterable[str] = ()) -> None:
        """Makes a database the default for tables, but looks for functions in DuckDB itself first.

        After `USE` alone, a macro of the lake that is called `count` or `ducklake_current_snapshot` would replace the
        function of that name, also in lakeconf's own statements.

        Args:
            database: The name that a lake is attached as.
            schemas: Its schemas besides `main` that queries name without the database: `schema.table`.
        """
        self._database = database
        self.execute(search_path_sql(database, schemas))

    def relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        """Binds a query without running it.

        Args:
            sql: One query.

        Returns:
            A lazy relation, which lives as long as the connection.
        """
        with self.errors():
            return self.native.sql(sql)

    def register(self, name: str, frame: object) -> None:
        """Makes a frame or a relation a temporary view, which lives as long as the connection."""
        with self.errors():
            self.native.register(name, frame)

    def from_arrow(self, table: object) -> duckdb.DuckDBPyRelation:
        """A relation of an Arrow table."""
        with self.errors():
            return self.native.from_arrow(table)

    def owns(self, relation: duckdb.DuckDBPyRelation) -> bool:
        """True if a relation was made on this connection, so that it can be joined with others of it."""
        import duckdb

        try:
            one = self.native.from_query("SELECT 1 AS one LIMIT 0")
            one.join(relation.limit(0).set_alias("theirs"), "true")
        except duckdb.Error:
            return False
        return True

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turns errors of duckdb inside a `with` block into lakeconf's, without the secrets of this connection.

        Ctrl-C stops the query that runs. duckdb itself only stops waiting for it, and the next statement, or `close`,
        would wait until the query ends.
        """
        with translated_errors(self.secrets):
            try:
                yield
            except BaseException as error:
                if is_interrupt(error):
                    self.native.interrupt()
                raise

    def cursor(self) -> Connection:
        """Another connection to the same instance; it does not inherit `USE`."""
        with self.errors():
            return Connection(self._native.cursor(), self.secrets)

    def detach_native(self) -> duckdb.DuckDBPyConnection:
        """The connection of duckdb itself, for a caller who takes over; nothing else of lakeconf uses it."""
        return self._native

    def close(self) -> None:
        """Closes the connection."""
        self.native.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def search_path_sql(database: str, schemas: Iterable[str] = ()) -> str:
    """The statement behind `Connection.prefer_builtins`."""
    found = dict.fromkeys(["main", *schemas])
    path = ["system.main", *(f"{identifier(database)}.{identifier(schema)}" for schema in found)]
    return f"SET search_path = {literal(','.join(path))}"


def connect(secrets: Iterable[Secret] = ()) -> Connection:
    """Opens an instance of DuckDB in memory, without a progress bar: DuckDB prints it to standard output.

    Args:
        secrets: What must not show in an error.

    Returns:
        The connection; nothing is attached yet.
    """
    import duckdb

    connection = Connection(duckdb.connect(), secrets)
    connection.execute("SET enable_progress_bar = false")
    return connection


def fetched(frame: nw.LazyFrame[Any], secrets: Iterable[Secret]) -> list[tuple[Any, ...]]:
    """Computes a lazy frame; one of DuckDB without pyarrow, which narwhals' `collect` needs.

    Args:
        frame: A lazy frame of any engine.
        secrets: What must not show in an error.

    Returns:
        Its rows.

    Raises:
        LakeconfError: DuckDB refuses; the class says why.
    """
    import duckdb

    native = frame.to_native()
    if not isinstance(native, duckdb.DuckDBPyRelation):
        return frame.collect("pyarrow").rows()
    with translated_errors(secrets):
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
