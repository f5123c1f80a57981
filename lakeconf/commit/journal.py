"""The table `lakeconf.commits`: idempotency keys of writes, and events of the tables of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import TableInfo, joined_name, load_table
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import INTERNAL_SCHEMA
from lakeconf.errors import CatalogError, CommitConflictError, TableNotFoundError, UnknownNameError
from lakeconf.sql import folded, identifier, literal

TABLE = f"{INTERNAL_SCHEMA}.commits"

_COLUMNS = {
    "token": "VARCHAR",
    "table_name": "VARCHAR",
    "idempotency_key": "VARCHAR",
    "committed_at": "TIMESTAMPTZ",
    "model": "VARCHAR",
    "definition": "VARCHAR",
    "run": "VARCHAR",
    "interval_start": "TIMESTAMP",
    "interval_end": "TIMESTAMP",
    "inputs": "VARCHAR",
    "files": "VARCHAR",
    "table_uuid": "VARCHAR",
}

# The events of the adopted files of a table have its name after this. No model has such a name.
ADOPTIONS = "adopt "
# The same types in the catalog.
STORED_TYPES = {name: kind.lower() for name, kind in _COLUMNS.items()}
# The columns that say what happened in an event.
_PAYLOAD = ("definition", "run", "interval_start", "interval_end", "inputs", "files")


class FormerName(NamedTuple):
    """The current or a former name of a table."""

    table: str  # the name in rows of `lakeconf.commits`
    begin: int  # the first snapshot with this name
    end: int | None  # the snapshot in which the table lost the name; None for the current name
    full_name: str  # the full name, with quotes where they are needed

    def is_at(self, version: int) -> bool:
        """True if the table has the name in a snapshot."""
        return self.begin <= version and (self.end is None or version < self.end)


@dataclass(frozen=True)
class CommitKey:
    """The idempotency key of a write. It belongs to the table and follows renames."""

    table: str  # the table's full name
    key: str  # the caller's idempotency key
    table_uuid: str | None = None  # the table's id in the catalog; None for a table that the same transaction creates
    # The current and former names of the table. A row without a table id matches if the table had the name of the row
    # at that time.
    names: tuple[FormerName, ...] = field(default=(), compare=False)

    def is_of(self, table: str, table_uuid: str | None, snapshot_id: int) -> bool:
        """True if a row of `lakeconf.commits` with this key belongs to this table."""
        if table_uuid is not None:
            return table_uuid == self.table_uuid
        return any(
            folded(table) == folded(name.table)
            and name.begin <= snapshot_id
            and (name.end or snapshot_id + 1) > snapshot_id
            for name in self.names
        )


class Event(NamedTuple):
    """An event of the table of a model, such as a run, which is committed or about to be."""

    model: str  # the table of the model
    # What happened, by column of `lakeconf.commits`; only the one who records it reads it.
    payload: Mapping[str, str | datetime | None]
    earlier: int = 0  # the number of events of the model when this one began
    snapshot_id: int | None = None  # the snapshot of the commit; None before it


def table_of_keys(reader: CatalogReader, snapshot_id: int) -> TableInfo | None:
    """The table of idempotency keys, if it has the columns of the current version of lakeconf."""
    try:
        info = load_table(reader, TABLE, snapshot_id)
    except TableNotFoundError:
        return None
    types = {column.name: column.type for column in info.columns}
    return info if types == STORED_TYPES and all(column.nullable for column in info.columns) else None


def recorded_name(schema: str, table: str) -> str:
    """The name of a table in rows of `lakeconf.commits`: never quoted."""
    return f"{schema}.{table}"


def find(connection: Connection, alias: str, keys: Sequence[CommitKey]) -> dict[CommitKey, int]:
    """The keys that have been committed, each with its snapshot; an open transaction also sees its own."""
    if not keys or not _exists(connection, alias):
        return {}
    wanted = ", ".join(sorted({literal(key.key) for key in keys}))
    rows = connection.rows(
        f"SELECT table_name, idempotency_key, table_uuid, min(snapshot_id) FROM {identifier(alias)}.{TABLE} "
        f"WHERE idempotency_key IN ({wanted}) GROUP BY ALL ORDER BY 4 DESC"
    )
    # The oldest snapshot comes last and wins.
    return {
        key: snapshot_id
        for name, text, uuid, snapshot_id in rows
        for key in keys
        if key.key == text and key.is_of(name, uuid, snapshot_id)
    }


def keys_of(connection: Connection, alias: str, prefix: CommitKey) -> list[str]:
    """The keys of a table that start with the key of `prefix`, sorted."""
    if not _exists(connection, alias):
        return []
    rows = connection.rows(
        f"SELECT table_name, idempotency_key, table_uuid, snapshot_id FROM {identifier(alias)}.{TABLE} "
        f"WHERE starts_with(idempotency_key, {literal(prefix.key)})"
    )
    return sorted({text for name, text, uuid, snapshot_id in rows if prefix.is_of(name, uuid, snapshot_id)})


def names_of(reader: CatalogReader, table_id: int) -> tuple[str | None, tuple[FormerName, ...]]:
    """The UUID of a table in the catalog, and its names in snapshots that have not expired."""
    with reader.transaction() as transaction:
        rows = transaction.rows(
            "SELECT CAST(t.table_uuid AS VARCHAR), s.schema_name, t.table_name, t.begin_snapshot, t.end_snapshot "
            "FROM ducklake_table AS t JOIN ducklake_schema AS s ON s.schema_id = t.schema_id WHERE t.table_id = ?",
            [table_id],
        )
    names = tuple(
        FormerName(recorded_name(schema, table), begin, end, joined_name(schema, table))
        for _, schema, table, begin, end in rows
    )
    return (rows[0][0] if rows else None), names


def events_of(connection: Connection, alias: str, model: str) -> list[Event]:
    """The committed events of a model, oldest first."""
    if not _exists(connection, alias):
        return []
    rows = connection.rows(
        f"SELECT {', '.join(_PAYLOAD)}, snapshot_id "
        f"FROM {identifier(alias)}.{TABLE} WHERE model = ? ORDER BY snapshot_id, rowid",
        [model],
    )
    return [Event(model, dict(zip(_PAYLOAD, row, strict=False)), earlier, row[-1]) for earlier, row in enumerate(rows)]


def events_with_files(connection: Connection, alias: str) -> list[Event]:
    """The committed events of all adoptions, and of the models that loaded files, oldest first."""
    if not _exists(connection, alias):
        return []
    rows = connection.rows(
        f"SELECT {', '.join(_PAYLOAD)}, snapshot_id, model FROM {identifier(alias)}.{TABLE} "
        f"WHERE model IS NOT NULL AND (starts_with(model, {literal(ADOPTIONS)}) OR files <> '{{}}') "
        "ORDER BY snapshot_id, rowid"
    )
    return [Event(row[-1], dict(zip(_PAYLOAD, row, strict=False)), 0, row[-2]) for row in rows]


def models_of(connection: Connection, alias: str, table: str) -> list[str]:
    """The models with recorded events whose table has a name, in any case."""
    if not _exists(connection, alias):
        return []
    rows = connection.rows(f"SELECT DISTINCT model FROM {identifier(alias)}.{TABLE} WHERE model IS NOT NULL")
    return [model for (model,) in rows if folded(model) == folded(table)]


def check_events(connection: Connection, alias: str, events: Sequence[Event]) -> None:
    """Rejects events of models that another process has run since they began."""
    is_new = bool(events) and not _exists(connection, alias)
    query = f"SELECT count(*) FROM {identifier(alias)}.{TABLE} WHERE model = ?"
    for event in events:
        ((earlier,),) = [(0,)] if is_new else connection.rows(query, [event.model])
        if earlier != event.earlier and event.model.startswith(ADOPTIONS):
            raise CommitConflictError(
                f"another process adopted files into {event.model.removeprefix(ADOPTIONS)}, or restored it, at the "
                "same time, so nothing was written",
                hint="run it again: files that the table has adopted are left out",
            )
        if earlier != event.earlier:
            raise CommitConflictError(
                f"another process ran the model {event.model} at the same time, so nothing was written",
                hint="run the pipeline again: completed intervals are skipped",
            )


def statements(alias: str, token: str, keys: Sequence[CommitKey], events: Sequence[Event] = ()) -> tuple[str, ...]:
    """The SQL that records keys and events, inside the transaction that they belong to."""
    # It only appends to the table: an update would conflict with the appends of all other writers.
    rows = [_key_values(token, key) for key in dict.fromkeys(keys)]
    for event in events:
        payload = ", ".join(_text(event.payload.get(name)) for name in _PAYLOAD)
        rows.append(f"({literal(token)}, NULL, NULL, now(), {literal(event.model)}, {payload}, NULL)")
    if not rows:
        return ()
    schema = f"{identifier(alias)}.{INTERNAL_SCHEMA}"
    columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    return (
        f"CREATE SCHEMA IF NOT EXISTS {schema}",
        f"CREATE TABLE IF NOT EXISTS {schema}.commits ({columns})",
        f"INSERT INTO {schema}.commits ({', '.join(_COLUMNS)}) VALUES {', '.join(rows)}",
    )


def key_row(token: str, key: CommitKey) -> str:
    """The query for the row that records a key."""
    names = ", ".join(_COLUMNS)
    values = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in _COLUMNS.items())
    return f"SELECT {values} FROM (VALUES {_key_values(token, key)}) AS r({names})"


def _key_values(token: str, key: CommitKey) -> str:
    values = (literal(token), literal(key.table), literal(key.key), "now()", *["NULL"] * 7, _text(key.table_uuid))
    return f"({', '.join(values)})"


def _text(value: str | datetime | None) -> str:
    return "NULL" if value is None else literal(str(value))


def _exists(connection: Connection, alias: str) -> bool:
    """True if the lake has the table `lakeconf.commits`, with its columns."""
    try:
        rows = connection.rows(f"DESCRIBE {identifier(alias)}.{TABLE}")
    except UnknownNameError:
        return False
    columns = {str(name).lower() for name, *_ in rows}
    missing = [name for name in _COLUMNS if name not in columns]
    if missing:
        raise CatalogError(
            f"{TABLE} lacks the column {missing[0]!r}, so lakeconf cannot tell what was committed before",
            hint=f"drop it with DuckDB if another program created it: lakeconf reserves the schema {INTERNAL_SCHEMA}",
        )
    return True
