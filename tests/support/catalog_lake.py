"""Lakes for the tests of `lakeconf.catalog`, and an independent reader of scan plans in plain DuckDB."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from server_process import free_port

from lakeconf.catalog.pruning.predicates import literal_type, to_duckdb_sql
from lakeconf.catalog.pruning.scan_plan import inlined_rows
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import connect, load_extension
from lakeconf.sql import identifier, literal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer

    from lakeconf.catalog.data_file import DataFile
    from lakeconf.catalog.pruning.scan_plan import ScanPlan
    from lakeconf.connection.connection import Connection

METADATA = "__ducklake_metadata_lake"
FILE_CATALOGS = ("duckdb", "sqlite")
_SNAPSHOT = "_ducklake_internal_snapshot_id"


def column(type_: str, name: str = "a", field_id: int = 1, *, former: str = "", later: str = "") -> Column:
    """A column, which may have had another type or get one."""
    before, after = ((other,) if other else () for other in (former, later))
    return Column(field_id, name, type_, nullable=True, initial_default=None, former_types=before, later_types=after)


class AttachedLake:
    """A lake attached as `lake` to its own DuckDB instance."""

    def __init__(self, kind: str, connection: Connection, folder: Path) -> None:
        self.kind = kind
        self.connection = connection
        self.folder = folder
        self.reader = CatalogReader(connection, "lake")

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.rows(sql)

    def metadata(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs SQL on the metadata database."""
        with self.connection.cursor() as cursor:
            cursor.execute(f"USE {METADATA}")
            return cursor.rows(sql)

    def versions(self) -> list[int]:
        return [version for (version,) in self.metadata("SELECT snapshot_id FROM ducklake_snapshot ORDER BY ALL")]

    @property
    def newest(self) -> int:
        return self.versions()[-1]


@contextlib.contextmanager
def lake(
    kind: str, folder: Path, *, server: PostgresServer | None = None, database: str | None = None, options: str = ""
) -> Iterator[AttachedLake]:
    """Attaches a new or existing lake; `kind` is the type of its metadata backend."""
    folder.mkdir(parents=True, exist_ok=True)
    with connect() as connection, contextlib.ExitStack() as servers:
        load_extension(connection, "ducklake")
        catalog = str(folder / "catalog.duckdb")
        if kind == "sqlite":
            load_extension(connection, "sqlite_scanner")
            connection.execute("SET GLOBAL sqlite_disable_multithreaded_scans = true")
            catalog = f"sqlite:{folder / 'catalog.sqlite'}"
        elif kind == "postgres":
            assert server is not None
            load_extension(connection, "postgres_scanner")
            catalog = (
                f"postgres:host={server.host} port={server.port} user={server.user} password={server.password} "
                f"dbname={database or server.create_database()}"
            )
        elif kind == "quack":
            catalog = servers.enter_context(_quack_server())
            load_extension(connection, "httpfs")
            load_extension(connection, "quack")
            connection.execute(f"CREATE SECRET (TYPE quack, TOKEN 'token', SCOPE {literal(catalog)})")
        connection.execute(f"ATTACH {literal('ducklake:' + catalog)} AS lake (DATA_PATH '{folder}/data'{options})")
        yield AttachedLake(kind, connection, folder)


@contextlib.contextmanager
def _quack_server() -> Iterator[str]:
    """The address of a DuckDB in memory that serves its catalog; both sides need `httpfs` for it."""
    with connect() as server:
        load_extension(server, "httpfs")
        load_extension(server, "quack")
        address = f"quack:localhost:{free_port()}"
        server.execute(f"CALL quack_serve({literal(address)}, token = 'token')")
        yield address
        server.execute(f"CALL quack_stop({literal(address)})")


def planned_rows(source: AttachedLake, plan: ScanPlan) -> list[str]:
    """The rows that the plan describes, each as text, sorted; only for tables without nested columns."""
    for_files = [_file_sql(source.connection, plan, file) for file in plan.files]
    names = ", ".join(identifier(column.name) for column in plan.columns)
    with source.connection.cursor() as cursor:
        cursor.register("inlined", inlined_rows(source.reader, plan))
        sql = " UNION ALL ".join([f"SELECT {names} FROM inlined", *for_files])
        # Filter after reading: a filter that DuckDB pushes into a file compares a promoted FLOAT as a FLOAT.
        cursor.execute(f"CREATE OR REPLACE TEMP TABLE planned AS {sql}")
        matching = to_duckdb_sql(plan.predicate) if plan.predicate else "true"
        return _as_text(cursor, f"SELECT * FROM planned WHERE {matching}")


def duckdb_rows(source: AttachedLake, plan: ScanPlan, where: str = "true") -> list[str]:
    """The rows of the same columns that DuckDB returns; it filters the whole table, without statistics."""
    names = ", ".join(identifier(column.name) for column in plan.columns)
    table = f"lake.{identifier(plan.table.schema_name)}.{identifier(plan.table.name)}"
    with source.connection.cursor() as cursor:
        cursor.execute(
            f"CREATE OR REPLACE TEMP TABLE whole AS SELECT * FROM {table} AT (VERSION => {plan.snapshot_id})"
        )
        return _as_text(cursor, f"SELECT {names} FROM whole WHERE {where}")


def _as_text(connection: Connection, sql: str) -> list[str]:
    return sorted(str(row) for row in connection.rows(f"SELECT CAST(x AS VARCHAR) FROM ({sql}) AS x"))


def _file_sql(connection: Connection, plan: ScanPlan, file: DataFile) -> str:
    deleted = [f"SELECT unnest({list(file.inlined_deletes)}::BIGINT[])"]
    if file.delete_file is not None:
        path = literal(file.delete_file.path)
        has_snapshots = connection.rows(f"FROM parquet_schema({path}) WHERE name = '{_SNAPSHOT}'")
        visible = f" WHERE {_SNAPSHOT} <= {plan.snapshot_id}" if has_snapshots else ""
        deleted.append(f"SELECT pos FROM read_parquet({path}){visible}")
    conditions = [f"file_row_number NOT IN ({' UNION ALL '.join(deleted)})"]
    if file.snapshot_filter is not None:
        conditions.append(f"{_SNAPSHOT} <= {file.snapshot_filter}")
    names = ", ".join(identifier(column.name) for column in plan.columns)
    return f"SELECT {names} FROM {_read_sql(plan, file)} WHERE {' AND '.join(conditions)}"


def _read_sql(plan: ScanPlan, file: DataFile) -> str:
    """The columns of the file under their names in the table, resolved by field id or by name."""
    columns = {c.field_id: (c.name, str(literal_type(c.type)), c.initial_default) for c in plan.table.columns}
    if file.mapping_id is not None:
        sources = {m.field_id: m.source_name for m in plan.name_mappings[file.mapping_id]}
        selected = ", ".join(
            f"CAST({identifier(sources[i]) if i in sources else _default(d)} AS {t}) AS {identifier(name)}"
            for i, (name, t, d) in columns.items()
        )
        return f"(SELECT {selected}, file_row_number FROM read_parquet({literal(file.path)}, file_row_number = true))"
    fields = [
        f"{i}: {{'name': {literal(name)}, 'type': {literal(t)}, 'default_value': {_default(d)}}}"
        for i, (name, t, d) in columns.items()
    ]
    if file.snapshot_filter is not None:
        fields.append(f"2147483539: {{'name': '{_SNAPSHOT}', 'type': 'BIGINT', 'default_value': NULL}}")
    schema = ", ".join(fields)
    return f"(SELECT *, file_row_number FROM read_parquet({literal(file.path)}, schema = MAP {{{schema}}}))"


def _default(text: str | None) -> str:
    return "NULL" if text is None else literal(text)
