"""The state of a loaded file, as rows of `lakeconf.commits` keep it, so that a later run notices a changed file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import INTERNAL_SCHEMA
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import escaped_json
from lakeconf.errors import CatalogError, CommitConflictError, UnknownNameError
from lakeconf.sql import folded, identifier, literal


class FileState(NamedTuple):
    """What tells apart two contents of a file.

    Attributes:
        size: The size in bytes.
        modified: The time of the last change, in microseconds since 1970.
        digest: The SHA-256 of the content; None if it is unknown, as for objects of a bucket.
    """

    size: int
    modified: int
    digest: str | None = None


def loaded_files_json(files: Sequence[str], states: Mapping[str, FileState]) -> str:
    """Formats the files of a run: an object by file."""
    found = {file: states[file]._asdict() if file in states else None for file in files}
    return escaped_json(json.dumps(found))


def loaded_files(text: str) -> tuple[tuple[str, ...], dict[str, FileState]]:
    """Reads the files of a run, and the states of those that have one."""
    found = json.loads(text)
    return tuple(found), {file: _state(one) for file, one in found.items() if one is not None}


def _state(one: Mapping[str, Any]) -> FileState:
    return FileState(one["size"], one["modified"], one.get("digest"))


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
    # Tables of early versions of lakeconf lack this column.
    "table_uuid": "VARCHAR",
}

# The same types in the catalog.
STORED_TYPES = {name: kind.lower() for name, kind in _COLUMNS.items()}
# In place of the hash of a definition: the rows of the table were replaced, so earlier runs no longer count; or the
# table was restored to the version `restored`.
RESET, RESTORED = "reset", "restored"


class FormerName(NamedTuple):
    """The current or a former name of a table.

    Attributes:
        table: The full name.
        begin: The first snapshot with this name.
        end: The snapshot in which the table lost the name; None for the current name.
    """

    table: str
    begin: int
    end: int | None


@dataclass(frozen=True)
class CommitKey:
    """The idempotency key of a write. It belongs to the table and follows renames.

    Attributes:
        table: The table's full name.
        key: The caller's idempotency key.
        table_uuid: The table's id in the catalog; None for a table that the same transaction creates.
        names: The current and former names of the table. A row without a table id matches if the table had the name
            of the row at that time.
    """

    table: str
    key: str
    table_uuid: str | None = None
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


@dataclass(frozen=True)
class ModelRun:
    """A run of a model, or another event of its table, which is committed or about to be.

    Attributes:
        model: The table of the model.
        definition: The hash of the model's definition; `RESET` or `RESTORED` for an event that is no run.
        run: The id of the pipeline run.
        interval: The completed time range, without its end; None if the model has no intervals.
        inputs: The snapshot at which each input was read, by table name.
        files: The files that the run loaded.
        earlier: The number of runs of the model when this run began.
        late_since: For inputs with late rows in intervals that this run did not repeat: the snapshot after which the
            rows were added, by table name.
        file_states: The states of the files when the run loaded them, by file.
        snapshot_id: The snapshot of the commit; None before it.
        restored: The version that the table was restored to, for such an event.
    """

    model: str
    definition: str
    run: str
    interval: tuple[datetime, datetime] | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)
    files: Sequence[str] = ()
    earlier: int = 0
    late_since: Mapping[str, int] = field(default_factory=dict)
    file_states: Mapping[str, FileState] = field(default_factory=dict)
    snapshot_id: int | None = field(default=None, compare=False)
    restored: int | None = None


def recorded_name(schema: str, table: str) -> str:
    """The name of a table in rows of `lakeconf.commits`: never quoted."""
    return f"{schema}.{table}"


def find(connection: Connection, alias: str, keys: Sequence[CommitKey]) -> dict[CommitKey, int]:
    """The keys that have been committed, each with its snapshot.

    Args:
        connection: A connection with the lake attached. An open transaction also sees its own rows.
    """
    columns = _columns(connection, alias) if keys else ()
    if not columns:
        return {}
    table_uuid = "table_uuid" if "table_uuid" in columns else "NULL"
    wanted = ", ".join(sorted({literal(key.key) for key in keys}))
    rows = connection.rows(
        f"SELECT table_name, idempotency_key, {table_uuid}, min(snapshot_id) FROM {identifier(alias)}.{TABLE} "
        f"WHERE idempotency_key IN ({wanted}) GROUP BY ALL ORDER BY 4 DESC"
    )
    # The oldest snapshot comes last and wins.
    return {
        key: snapshot_id
        for name, text, found, snapshot_id in rows
        for key in keys
        if key.key == text and key.is_of(name, found, snapshot_id)
    }


def keys_of(connection: Connection, alias: str, prefix: CommitKey) -> list[str]:
    """The keys of a table that start with the key of `prefix`, sorted."""
    columns = _columns(connection, alias)
    if not columns:
        return []
    table_uuid = "table_uuid" if "table_uuid" in columns else "NULL"
    rows = connection.rows(
        f"SELECT table_name, idempotency_key, {table_uuid}, snapshot_id FROM {identifier(alias)}.{TABLE} "
        f"WHERE starts_with(idempotency_key, {literal(prefix.key)})"
    )
    return sorted({text for name, text, found, snapshot_id in rows if prefix.is_of(name, found, snapshot_id)})


def names_of(reader: CatalogReader, table_id: int) -> tuple[str | None, tuple[FormerName, ...]]:
    """The UUID of a table in the catalog, and its names in snapshots that have not expired."""
    with reader.transaction() as transaction:
        rows = transaction.rows(
            "SELECT CAST(t.table_uuid AS VARCHAR), s.schema_name, t.table_name, t.begin_snapshot, t.end_snapshot "
            "FROM ducklake_table AS t JOIN ducklake_schema AS s ON s.schema_id = t.schema_id WHERE t.table_id = ?",
            [table_id],
        )
    names = tuple(FormerName(recorded_name(schema, table), begin, end) for _, schema, table, begin, end in rows)
    return (rows[0][0] if rows else None), names


def model_runs(connection: Connection, alias: str, model: str) -> list[ModelRun]:
    """The committed runs of a model, oldest first."""
    if not _columns(connection, alias):
        return []
    rows = connection.rows(
        "SELECT definition, run, interval_start, interval_end, inputs, files, snapshot_id "
        f"FROM {identifier(alias)}.{TABLE} WHERE model = ? ORDER BY snapshot_id, rowid",
        [model],
    )
    return [
        ModelRun(
            model,
            definition,
            run,
            interval=None if start is None else (start, end),
            inputs=found["inputs"],
            files=loaded,
            earlier=earlier,
            late_since=found["late_since"],
            file_states=states,
            snapshot_id=snapshot_id,
            restored=found["restored"],
        )
        for earlier, (definition, run, start, end, inputs, files, snapshot_id) in enumerate(rows)
        for found, (loaded, states) in [(json.loads(inputs), loaded_files(files))]
    ]


def models_of(connection: Connection, alias: str, table: str) -> list[str]:
    """The models with recorded runs whose table has a name, in any case."""
    if not _columns(connection, alias):
        return []
    rows = connection.rows(f"SELECT DISTINCT model FROM {identifier(alias)}.{TABLE} WHERE model IS NOT NULL")
    return [model for (model,) in rows if folded(model) == folded(table)]


def check_runs(connection: Connection, alias: str, runs: Sequence[ModelRun]) -> None:
    """Refuses runs of models that another process has run since they began."""
    for run in runs:
        if len(model_runs(connection, alias, run.model)) != run.earlier:
            raise CommitConflictError(
                f"another process ran the model {run.model} at the same time, so nothing was written",
                hint="run the pipeline again: completed intervals are skipped",
            )


def statements(alias: str, token: str, keys: Sequence[CommitKey], runs: Sequence[ModelRun] = ()) -> tuple[str, ...]:
    """The SQL that records keys and runs of models, inside the transaction that they belong to."""
    # It only appends to the table: an update would conflict with the appends of all other writers.
    rows = [_key_values(token, key) for key in dict.fromkeys(keys)]
    rows += [f"({literal(token)}, {literal(run.model)}, NULL, now(), {_run_values(run)}, NULL)" for run in runs]
    if not rows:
        return ()
    schema = f"{identifier(alias)}.{INTERNAL_SCHEMA}"
    columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    return (
        f"CREATE SCHEMA IF NOT EXISTS {schema}",
        f"CREATE TABLE IF NOT EXISTS {schema}.commits ({columns})",
        f"ALTER TABLE {schema}.commits ADD COLUMN IF NOT EXISTS table_uuid VARCHAR",
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


def _text(value: str | None) -> str:
    return "NULL" if value is None else literal(value)


def _run_values(run: ModelRun) -> str:
    interval = ["NULL", "NULL"] if run.interval is None else [literal(moment.isoformat(" ")) for moment in run.interval]
    inputs = {"inputs": dict(run.inputs), "late_since": dict(run.late_since), "restored": run.restored}
    texts = (json.dumps(inputs), loaded_files_json(run.files, run.file_states))
    return ", ".join([*map(literal, (run.model, run.definition, run.run)), *interval, *map(literal, texts)])


def _columns(connection: Connection, alias: str) -> tuple[str, ...]:
    """The columns of `lakeconf.commits`, in lower case; empty if the lake has no such table."""
    try:
        found = connection.rows(f"DESCRIBE {identifier(alias)}.{TABLE}")
    except UnknownNameError:
        return ()
    columns = tuple(str(name).lower() for name, *_ in found)
    missing = [name for name in _COLUMNS if name not in columns and name != "table_uuid"]
    if missing:
        raise CatalogError(
            f"{TABLE} lacks the column {missing[0]!r}, so lakeconf cannot tell what was committed before",
            hint=f"rename its schema if another program created the table: lakeconf reserves {INTERNAL_SCHEMA!r}",
        )
    return columns
