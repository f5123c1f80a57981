"""A catalog as a DuckDB file of its own: read from any kind of catalog, and written to any kind, in one transaction.

The file is the catalog of a DuckLake itself. Between the catalogs of two stores, it is what one connection writes and
the other reads: no connection has the secrets of both.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakeconf.catalog.column_types import sql_type
from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.catalog.tables import columns_at
from lakeconf.connection.connection import Connection, connect
from lakeconf.ducklake import OWN_QUERIES, SERVER_QUERIES, table_of_deletes
from lakeconf.errors import CatalogChangedError, CatalogError, LakeconfError, QueryError, UnsupportedError
from lakeconf.sql import identifier, literal, qualified
from lakeconf.transfer.catalog_tables import (
    DELETED_COLUMNS,
    CatalogColumn,
    check_known,
    columns,
    inlined_columns,
    is_inlined_data,
    own_tables,
)

STAGED = "lakeconf_staged"
_FLUSH = "write inlined rows to files first: CALL ducklake_flush_inlined_data('LAKE'), with the lake attached"
_COLUMNS = """
    SELECT table_name, column_name, data_type FROM duckdb_columns()
    WHERE database_name = ? AND schema_name = ? AND starts_with(table_name, 'ducklake_') ORDER BY column_index
"""
# The columns of a table are those of its last own version: an option that it gets is a version of the lake only.
_INLINED = """
    SELECT i.table_name, i.table_id, max(v.begin_snapshot) FROM ducklake_inlined_data_tables AS i
    LEFT JOIN ducklake_schema_versions AS v ON v.table_id = i.table_id AND v.schema_version <= i.schema_version
    GROUP BY ALL
"""
# The names of all tables, asked of the catalog itself.
_NAMES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 9) = 'ducklake_'",
    "postgres": "SELECT c.relname::text AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = {schema} AND c.relkind = 'r' AND c.relname::text ~ '^ducklake_'",
}
# The paths that a catalog may have as absolute ones.
_PATHS = ("ducklake_schema", "ducklake_table", "ducklake_data_file", "ducklake_delete_file")
Tables = Mapping[str, tuple[CatalogColumn, ...]]


def columns_by_table(connection: Connection, database: str, schema: str) -> dict[str, dict[str, str]]:
    """The types of the columns of all DuckLake tables in an attached database, by table and column."""
    existing: dict[str, dict[str, str]] = defaultdict(dict)
    for table, column, type_name in connection.rows(_COLUMNS, [database, schema]):
        existing[table][column] = type_name
    return dict(existing)


def stage(transaction: MetadataTransaction, kind: str, database: str) -> None:
    """Copies the catalog of a transaction to the attached, empty staged catalog, and ends the transaction.

    `database` is the name of its database, which must not be hidden.
    """
    cursor = transaction.cursor
    ((schema,),) = cursor.rows("SELECT current_schema()")
    existing = columns_by_table(cursor, database, str(schema))
    _check_complete(cursor, kind, database, str(schema), existing)
    check_known(existing)
    tables = _tables(transaction, kind, existing)
    for name, table_columns in tables.items():
        target = qualified(STAGED, "main", name)
        cursor.execute(f"CREATE TABLE {target} ({_declarations(table_columns, 'duckdb')})")
        values = ", ".join(column.read(kind) for column in table_columns)
        cursor.execute(f"INSERT INTO {target} SELECT {values} FROM {identifier(name)}")  # noqa: S608 - quoted names
    cursor.execute("COMMIT")


def _check_complete(
    cursor: Connection, kind: str, database: str, schema: str, existing: Mapping[str, Mapping[str, str]]
) -> None:
    """Rejects a list of tables that DuckDB has kept from before the transaction."""
    query = {**OWN_QUERIES, **SERVER_QUERIES}.get(kind)
    if query is None:
        return
    names = _NAMES[kind].format(schema=literal(schema))
    rows = cursor.rows(f"FROM {query}({literal(database)}, {literal(names)})")
    if {str(name) for (name,) in rows} != existing.keys():
        raise CatalogChangedError("the catalog got a table while it was read", hint="run the command again")


def _declarations(table_columns: tuple[CatalogColumn, ...], kind: str) -> str:
    return ", ".join(column.declared(kind) for column in table_columns)


def _tables(transaction: MetadataTransaction, kind: str, existing: Mapping[str, Mapping[str, str]]) -> Tables:
    """The tables to copy, with their columns."""
    tables = dict(own_tables())
    ids = {int(table_id) for (table_id,) in transaction.rows("SELECT DISTINCT table_id FROM ducklake_table")}
    for name, table_id, begin in transaction.rows(_INLINED):
        if name not in existing:
            raise CatalogError(
                f"the catalog has no table {name}, whose rows are inlined: nothing was copied",
                hint="restore a backup of the catalog",
            )
        values = dict(existing[name])
        own = [values.pop(column.name, None) for column in inlined_columns({})]
        if None in own:
            raise UnsupportedError(f"the catalog's table {name} has other columns than version 1.0")
        tables[name] = inlined_columns(
            values if kind == "duckdb" else _value_types(transaction, table_id, begin, values)
        )
    tables |= {name: columns(DELETED_COLUMNS) for name in existing if table_of_deletes(name) in ids}
    return tables


def _value_types(
    transaction: MetadataTransaction, table_id: int, begin: int | None, stored: Mapping[str, str]
) -> dict[str, str]:
    """The types of inlined values that a catalog stores in other types."""
    known = (
        {} if begin is None else {column.name: sql_type(column) for column in columns_at(transaction, table_id, begin)}
    )
    if known.keys() != stored.keys():
        raise UnsupportedError(
            f"the types of the inlined rows of the table with the id {table_id} are not known: nothing was copied",
            hint=_FLUSH,
        )
    return {name: known[name] for name in stored}


@contextlib.contextmanager
def attached(connection: Connection, file: Path, *, read_only: bool = False) -> Iterator[None]:
    """Attaches a staged catalog to a connection; UTC is the time zone of the text that catalogs store."""
    # With small blocks, the file of a small catalog is small, too.
    options = "READ_ONLY" if read_only else "" if file.exists() else "BLOCK_SIZE 16384"
    connection.execute(f"ATTACH {literal(str(file))} AS {STAGED}{options and f' ({options})'}")
    try:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        yield
    finally:
        with contextlib.suppress(LakeconfError):
            connection.execute(f"DETACH {STAGED}")


def relocate(file: Path, source: str, target: str) -> None:
    """Corrects a staged catalog for another data path.

    Paths that are relative stay as they are. Nothing is scheduled for deletion any more: those files are not copied.
    """
    with connect() as connection, attached(connection, file):
        connection.execute(f"USE {STAGED}")
        connection.execute("BEGIN")
        where = "key = 'data_path' AND scope IS NULL"
        connection.execute(f"UPDATE ducklake_metadata SET value = {literal(target)} WHERE {where}")  # noqa: S608
        for table in _PATHS:
            below = f"NOT path_is_relative AND starts_with(path, {literal(source)})"
            moved = f"{literal(target)} || substr(path, {len(source) + 1})"
            connection.execute(f"UPDATE {table} SET path = {moved} WHERE {below}")  # noqa: S608
        connection.execute("DELETE FROM ducklake_files_scheduled_for_deletion")
        connection.execute("COMMIT")
        connection.execute("USE memory")


def write(connection: Connection, database: str, schema: str, file: Path) -> None:
    """Writes a staged catalog to an attached database without DuckLake tables, in one transaction."""
    with _writing(connection, database, file) as (kind, tables):
        if schema != "main":
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {qualified(database, schema)}")
        for name, table_columns in tables.items():
            target = qualified(database, schema, name)
            connection.execute(f"CREATE TABLE {target} ({_declarations(table_columns, kind)})")
            _write_table(connection, kind, target, name, table_columns)


def replace(
    connection: Connection, database: str, schema: str, file: Path, newest: int, await_commits: str | None
) -> None:
    """Replaces the rows of an attached catalog by those of a staged one, in one transaction.

    The tables stay, with the rights of others on them, apart from those with inlined rows. `newest` is the snapshot
    that the catalog must have, and `await_commits` keeps other commits out.
    """
    with _writing(connection, database, file) as (kind, tables):
        if await_commits is not None:
            connection.execute(await_commits)
        ((now,),) = connection.rows(f"SELECT max(snapshot_id) FROM {qualified(database, schema, 'ducklake_snapshot')}")  # noqa: S608
        if now != newest:
            raise CatalogChangedError(
                f"another program wrote snapshot {now} meanwhile: nothing was changed",
                hint="run the command again when all writers have ended",
            )
        existing, own = columns_by_table(connection, database, schema), own_tables()
        check_known(existing)
        for name in existing:
            target = qualified(database, schema, name)
            connection.execute(f"DELETE FROM {target}" if name in own else f"DROP TABLE {target}")  # noqa: S608
        for name, table_columns in tables.items():
            target = qualified(database, schema, name)
            if name not in own:
                connection.execute(f"CREATE TABLE {target} ({_declarations(table_columns, kind)})")
            _write_table(connection, kind, target, name, table_columns)


@contextlib.contextmanager
def _writing(connection: Connection, database: str, file: Path) -> Iterator[tuple[str, Tables]]:
    """A transaction with a staged catalog: the kind of the database, and the tables to write."""
    ((kind,),) = connection.rows("SELECT type FROM duckdb_databases() WHERE database_name = ?", [database])
    with attached(connection, file, read_only=True):
        tables = _staged_tables(connection)
        connection.execute("BEGIN")
        try:
            yield str(kind), tables
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(LakeconfError):
                connection.execute("ROLLBACK")
            raise


def _staged_tables(connection: Connection) -> Tables:
    own, tables = own_tables(), dict[str, tuple[CatalogColumn, ...]]()
    for name, types in columns_by_table(connection, STAGED, "main").items():
        if is_inlined_data(name):
            tables[name] = inlined_columns(dict(list(types.items())[len(inlined_columns({})) :]))
        else:
            tables[name] = own.get(name) or columns(DELETED_COLUMNS)
    return tables


def _write_table(
    connection: Connection, kind: str, target: str, name: str, table_columns: tuple[CatalogColumn, ...]
) -> None:
    source = qualified(STAGED, "main", name)
    values = ", ".join(column.written(kind) for column in table_columns)
    try:
        connection.execute(f"INSERT INTO {target} SELECT {values} FROM {source}")  # noqa: S608 - quoted names
    except QueryError as error:
        raise UnsupportedError(
            f"the rows of the catalog's table {name} cannot be stored in {kind}: {error.message}", hint=_FLUSH
        ) from error
    ((before, after),) = connection.rows(
        f"SELECT (SELECT count(*) FROM {source}), (SELECT count(*) FROM {target})"  # noqa: S608
    )
    is_equal = before == after
    if is_equal and is_inlined_data(name) and kind != "duckdb":
        # A nested value with quotes can change in text. As text, also values that DuckDB cannot compare are compared.
        read = ", ".join(column.read(kind) for column in table_columns)
        as_text = "SELECT CAST(COLUMNS(*) AS VARCHAR) FROM"
        is_equal = not connection.rows(
            f"{as_text} {source} EXCEPT ALL {as_text} (SELECT {read} FROM {target}) LIMIT 1"  # noqa: S608
        )
    if not is_equal:
        raise UnsupportedError(
            f"the rows of the catalog's table {name} would change in {kind}: nothing was written to the catalog",
            hint=_FLUSH,
        )
