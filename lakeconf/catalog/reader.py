"""Reads the catalog of a lake, in transactions that see one consistent state."""

from __future__ import annotations

import contextlib
import functools
import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeconf.catalog.admission import check_numbers, check_text, tables_query
from lakeconf.catalog.definitions import Definitions
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import (
    OWN_QUERIES,
    SERVER_QUERIES,
    SUPPORTED_VERSION,
    metadata_database,
    no_table,
    version_sentence,
)
from lakeconf.errors import CatalogError, LakeconfError, QueryError, UnknownNameError
from lakeconf.sql import identifier, literal, literal_query

if TYPE_CHECKING:
    from functools import cached_property

    cached = cached_property
else:

    class cached:  # noqa: N801 - a decorator
        """Like `functools.cached_property` of Python 3.12.

        In Python 3.11, that class computes values under one lock for all objects. A catalog server that does not reply
        would block the other lakes of the process. Here, two threads may compute a value twice.
        """

        def __init__(self, function: Any) -> None:
            self._function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            # Not setattr: the class may be a frozen dataclass. From now on, Python finds the value without this method.
            return instance.__dict__.setdefault(self._name, self._function(instance))


# More than the threads that usually read one catalog at the same time.
_MOST_IDLE = 4
# The SQL of every catalog.
_VERSION = """
    SELECT value AS version, (SELECT max(snapshot_id) FROM ducklake_snapshot) AS newest
    FROM ducklake_metadata WHERE key = 'version' AND scope IS NULL
"""
# After two concurrent deletes, DuckLake returns the rows of a file twice, also those that both have deleted.
_DOUBLED = """
    SELECT DISTINCT table_id FROM ducklake_delete_file WHERE end_snapshot IS NULL
    GROUP BY table_id, data_file_id HAVING count(*) > 1
"""
_VERSION_TYPES = "version VARCHAR, newest BIGINT"


@dataclass
class Cursor:
    """A cursor, with what was set on it."""

    connection: Connection  # the cursor
    is_clean: bool = False  # True if no transaction is open on it: only then another transaction may use it
    _set: dict[str, str] = field(default_factory=dict)

    def set_up(self, name: str, statement: str) -> None:
        """Runs a statement, unless it was the last one of this name on this cursor."""
        if self._set.get(name) != statement:
            self._set.pop(name, None)
            self.connection.execute(statement)
            self._set[name] = statement


class Cursors:
    """The cursors of a connection that are between two transactions; several threads may take one at the same time.

    Closing the connection closes them.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._idle: deque[Cursor] = deque()  # its methods are atomic

    @contextlib.contextmanager
    def taken(self) -> Iterator[Cursor]:
        """A cursor for one transaction. It is used again only if it is clean afterwards and there was no error."""
        try:
            cursor = self._idle.pop()
        except IndexError:
            cursor = Cursor(self._connection.cursor())
        cursor.is_clean = False
        try:
            yield cursor
        except BaseException:
            cursor.is_clean = False
            raise
        finally:
            if cursor.is_clean and len(self._idle) < _MOST_IDLE:
                self._idle.append(cursor)
            else:
                cursor.connection.close()


@dataclass(frozen=True)
class ParentLake:
    """The lake that another one is a branch of, attached to the same connection."""

    reader: CatalogReader
    snapshot_id: int  # the snapshot at which the branch reads it
    snapshot_time: str  # its time: after a restore of the other lake, another snapshot may have its number


@dataclass(frozen=True)
class CatalogReader:
    """A lake that is attached to a connection, and its metadata database.

    DuckLake attaches the metadata database as a hidden database, which queries can only access by name.
    """

    # The connection that has the lake attached. Reads of the lake use its time zone.
    connection: Connection = field(repr=False)
    alias: str  # the name under which the lake is attached
    # The schema of the metadata tables; None to use the schema of ATTACH, or the default.
    metadata_schema: str | None = None
    # The lake that this one is a branch of, and the snapshot at which it is read; None if it is no branch.
    parent: ParentLake | None = field(default=None, repr=False)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[MetadataTransaction]:
        """Opens a read transaction on the metadata, which sees one consistent state.

        It runs on its own cursor and sees only committed data. Keep it short: it may block commits on SQLite.
        """
        metadata, data_path = self.metadata, self.data_path
        with self._cursors.taken() as taken:
            taken.set_up("TimeZone", self._time_zone_sql)
            transaction = MetadataTransaction(taken.connection, self.alias, data_path, self._own_query)
            newest = self._begin(taken, transaction, metadata)
            try:
                self._check_text(taken.connection, newest)
                yield transaction
            finally:
                with contextlib.suppress(LakeconfError):
                    taken.connection.execute("ROLLBACK")
                    taken.is_clean = True

    def _check_tables(self, cursor: Connection) -> None:
        for (name,) in cursor.rows(self._tables_query):
            raise no_table(name)

    def _check_text(self, cursor: Connection, newest: int | None) -> None:
        """Checks the text that DuckLake reads, if that has not been done for the newest snapshot."""
        checked, newest = self._checked_up_to, -1 if newest is None else newest
        kind = self._settings[0]
        if not checked:
            if kind in SERVER_QUERIES:
                self._check_tables(cursor)
            check_numbers(cursor.rows)
        if not checked or newest > checked[0]:
            check_text(cursor.rows, self.data_path, checked[0] if checked else None)
            doubled = {table_id for (table_id,) in cursor.rows(_DOUBLED)}
            # In this order, another thread never misses one of them.
            self.doubled_tables.update(doubled)
            self.doubled_tables.intersection_update(doubled)
            checked[:] = [newest]

    @property
    def catalog_type(self) -> str:
        """The type of the metadata database, such as `sqlite`."""
        return self._settings[0]

    @cached
    def _own_query(self) -> str | None:
        """The beginning of the call that runs a query in the catalog itself; None if there is no such call."""
        query = OWN_QUERIES.get(self._settings[0])
        return None if query is None else f"{query}({literal(self.metadata_database)}, "

    @cached
    def _tables_query(self) -> str:
        """The query for what is not a plain table in the catalog."""
        schema = self.metadata_schema or self._attached[1] or "public"
        return tables_query(self._settings[0], self.metadata_database, str(schema))

    @cached
    def _checked_up_to(self) -> list[int]:
        """The snapshot up to which text has been checked; empty at first."""
        return []

    @cached
    def doubled_tables(self) -> set[int]:
        """The ids of the tables of which a file had two live delete files when the text was checked."""
        return set()

    def wrote_rows(self, snapshot_id: int) -> None:
        """Takes note of a snapshot in which lakeconf only changed rows: its text needs no check."""
        if self._checked_up_to == [snapshot_id - 1]:
            self._checked_up_to[:] = [snapshot_id]

    def on(self, connection: Connection) -> CatalogReader:
        """A reader of the same catalog on another connection, which knows what this one has checked."""
        other = CatalogReader(connection, self.alias, self.metadata_schema, self.parent)
        vars(other).update(_checked_up_to=self._checked_up_to, doubled_tables=self.doubled_tables)
        return other

    @contextlib.contextmanager
    def one_state(self) -> Iterator[CatalogReader]:
        """A reader whose transactions, inside the `with` block, are one transaction, so that they see one state."""
        with self.transaction() as transaction:
            state = _OneState(self.connection, self.alias, self.metadata_schema, self.parent, transaction)
            vars(state).update(vars(self) | vars(state))
            yield state

    @cached
    def _settings(self) -> tuple[str, str]:
        """The type of the catalog and the data path."""
        with self.connection.cursor() as cursor:
            ((kind, path),) = cursor.rows("SELECT catalog_type, data_path FROM ducklake_settings(?)", [self.alias])
        return str(kind), str(path)

    @cached
    def _attached(self) -> tuple[Any, Any]:
        """In the options of ATTACH: the metadata database and its schema."""
        rows = self.connection.rows(
            "SELECT options['metadata_catalog'], options['metadata_schema'] FROM duckdb_databases() "
            "WHERE database_name = ? AND type = 'ducklake'",
            [self.alias],
        )
        if not rows:
            raise CatalogError(f"no DuckLake is attached as {self.alias!r}")
        return rows[0][0], rows[0][1]

    @contextlib.contextmanager
    def lake_cursor(self) -> Iterator[Connection]:
        """Opens a cursor for reading the lake, with the time zone of the reader's connection."""
        with self.connection.cursor() as cursor:
            cursor.execute(self._time_zone_sql)
            yield cursor

    @cached
    def definitions(self) -> Definitions[Any]:
        """The definitions of tables that `load_table` has read."""
        return Definitions()

    @cached
    def _cursors(self) -> Cursors:
        return Cursors(self.connection)

    @property
    def _time_zone_sql(self) -> str:
        return f"SET TimeZone = {literal(self.time_zone)}"

    @cached
    def metadata(self) -> str:
        """The quoted name of the metadata database, with its schema if that is known."""
        schema = self.metadata_schema or self._attached[1]
        if schema is None and self._a_secret_names_a_schema():
            # DuckDB does not show a schema that a secret sets, and the server's default schema may contain another
            # lake.
            raise CatalogError(
                f"the metadata schema of {self.alias!r} is unknown, because a DuckLake secret may set it",
                hint="pass metadata_schema",
            )
        database = identifier(self.metadata_database)
        return database if schema is None else f"{database}.{identifier(schema)}"

    @cached
    def metadata_database(self) -> str:
        """The name of the metadata database, which DuckLake hides."""
        return metadata_database(self.alias, self._attached[0])

    def _a_secret_names_a_schema(self) -> bool:
        secrets = self.connection.rows(
            "SELECT 1 FROM duckdb_secrets() WHERE type = 'ducklake' AND secret_string LIKE '%;metadata_schema=_%'"
        )
        return bool(secrets)

    @cached
    def data_path(self) -> str:
        """The absolute folder of the lake's files, ending in `/`; includes an override by ATTACH."""
        _, path = self._settings
        if not self.data_path_is_absolute:
            path = os.path.abspath(path)
        return path if path.endswith("/") else f"{path}/"

    @cached
    def data_path_is_absolute(self) -> bool:
        """True if the lake is attached with an absolute data path, so that DuckDB's `filename` is absolute too."""
        return "://" in self._settings[1] or os.path.isabs(self._settings[1])

    @cached
    def lake_id(self) -> str:
        """The id of the lake: the UUID that DuckLake gives to the first schema of every catalog."""
        query = "SELECT schema_uuid FROM ducklake_schema ORDER BY schema_id, begin_snapshot LIMIT 1"
        with self.transaction() as transaction:
            rows = transaction.rows(query)
        if not rows or rows[0][0] is None:
            raise CatalogError(f"the lake {self.alias!r} has no id, because its catalog has no schema")
        return str(rows[0][0])

    @property
    def time_zone(self) -> str:
        """The time zone of the connection."""
        return self.connection.time_zone

    @cached
    def encrypted(self) -> bool:
        """True if the lake encrypts the files that it writes."""
        with self.transaction() as transaction:
            values = transaction.rows("SELECT value FROM ducklake_metadata WHERE key = 'encrypted' AND scope IS NULL")
        return [str(value).lower() for (value,) in values] == ["true"]

    def _begin(self, taken: Cursor, transaction: MetadataTransaction, metadata: str) -> int | None:
        """Begins a transaction, and returns the newest snapshot."""
        cursor = taken.connection
        try:
            taken.set_up("database", f"USE {metadata}")
            cursor.execute("BEGIN")
            if self._settings[0] in OWN_QUERIES:  # anyone may have changed the file since it was attached
                self._check_tables(cursor)
            rows = cursor.rows(transaction.own_sql(_VERSION, _VERSION_TYPES))
        except QueryError as error:
            raise CatalogError(
                f"{metadata} does not contain the metadata of a DuckLake: {error.message}", hint="check metadata_schema"
            ) from error
        versions = [version for version, _ in rows]
        if versions != [SUPPORTED_VERSION]:
            catalog_version = ", ".join(map(str, versions)) or "unknown"
            raise CatalogError(f"{self.alias!r}: {version_sentence(catalog_version, SUPPORTED_VERSION, 'lakeconf')}")
        newest: int | None = rows[0][1]
        return newest


@dataclass(frozen=True)
class _OneState(CatalogReader):
    """The reader of `CatalogReader.one_state`; what its lake's reader has found out is known to it too."""

    open_transaction: MetadataTransaction | None = field(default=None, repr=False)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[MetadataTransaction]:
        if self.open_transaction is None:
            raise AssertionError("only one_state makes this reader")
        yield self.open_transaction


@dataclass(frozen=True)
class MetadataTransaction:
    """An open read transaction with the metadata schema as default: tables such as `ducklake_table` need no prefix.

    Do not call DuckLake functions in it: they use another connection and may see a newer snapshot.
    """

    cursor: Connection = field(repr=False)  # the connection of the transaction
    alias: str  # the name under which the lake is attached
    data_path: str  # the absolute folder of the lake's files, ending in `/`
    # The beginning of the call that runs a query in the catalog itself; None if DuckDB's reads of its tables are as
    # fast.
    own_query: str | None = None

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Runs a query on the metadata tables."""
        return self.cursor.rows(sql, parameters)

    def newest(self) -> int:
        """The latest snapshot."""
        ((snapshot_id,),) = self.rows("SELECT max(snapshot_id) FROM ducklake_snapshot")
        return int(snapshot_id)

    def own_rows(
        self, sql: str, columns: str, parameters: Sequence[object] = (), *, order: str = ""
    ) -> list[tuple[Any, ...]]:
        """Runs a query on the metadata tables that DuckDB and the catalog understand alike: by the catalog, if faster.

        `columns` has DuckDB's types, such as `a BIGINT, b VARCHAR`: a catalog may return strings.
        """
        ordered = f" ORDER BY {order}" if order else ""
        argument = None if self.own_query is None else literal_query(sql, parameters)
        if argument is None:
            return self.rows(sql + ordered, parameters)
        return self.rows(f"SELECT {_typed(columns)} FROM {self.own_query}{argument}){ordered}")  # noqa: S608

    def own_sql(self, sql: str, columns: str) -> str:
        """The SQL for the rows of such a query, to read from or to run."""
        if self.own_query is None:
            return sql
        return f"SELECT {_typed(columns)} FROM {self.own_query}{literal(sql)})"  # noqa: S608

    def has_table(self, name: str) -> bool:
        """Returns True if the metadata database has this table now; DuckLake creates some tables on first use."""
        if self.own_query is not None:
            # Faster: with its error for an unknown table, DuckDB names similar ones, and loads all tables for that.
            existing = f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = {literal(name)}"  # noqa: S608
            return bool(self.rows(f"FROM {self.own_query}{literal(existing)})"))
        try:
            self.cursor.execute(f"SELECT 1 FROM {identifier(name)} LIMIT 0")  # noqa: S608
        except UnknownNameError:
            return False
        return True

    def existing_tables(self, names: Sequence[str]) -> list[str]:
        """Those of some names that tables of the metadata database have now, in their order."""
        if self.own_query is None or len(names) == 1:
            return [name for name in names if self.has_table(name)]
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        existing = {name for (name,) in self.rows(f"FROM {self.own_query}{literal(query)})")}
        return [name for name in names if name in existing]


@functools.lru_cache(256)
def _typed(columns: str) -> str:
    """The SELECT list that casts columns to their types."""
    pairs = (column.split() for column in columns.split(","))
    return ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in pairs)
