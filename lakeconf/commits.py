"""`lakeconf.commits`: the table in the lake itself that remembers what must outlive `expire_snapshots`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from lakeconf.connection import Connection
from lakeconf.errors import CommitConflictError
from lakeconf.sql import identifier, literal

INTERNAL_SCHEMA = "lakeconf"
TABLE = f"{INTERNAL_SCHEMA}.commits"
_COLUMNS = (
    "token VARCHAR, table_name VARCHAR, idempotency_key VARCHAR, committed_at TIMESTAMPTZ, model VARCHAR, "
    "definition VARCHAR, run VARCHAR, interval_start TIMESTAMP, interval_end TIMESTAMP, inputs VARCHAR, files VARCHAR"
)


class CommitKey(NamedTuple):
    """What a write may be done once for.

    Attributes:
        table: The table's full name.
        key: The caller's idempotency key.
    """

    table: str
    key: str


@dataclass(frozen=True)
class ModelRun:
    """A run of a model that was committed, or is about to be.

    Attributes:
        model: The model's table.
        definition: The hash of its definition.
        run: The id of the run of the pipeline.
        interval: The time range that is done, its end not included; None where the model has no intervals.
        inputs: The snapshot that each input was read at, by the table's name.
        files: The files that it has loaded.
        earlier: How many runs of the model there were when this one began.
    """

    model: str
    definition: str
    run: str
    interval: tuple[datetime, datetime] | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)
    files: Sequence[str] = ()
    earlier: int = 0


def find(connection: Connection, alias: str, keys: Sequence[CommitKey]) -> dict[CommitKey, int]:
    """The keys that have been committed, each with its snapshot.

    Args:
        connection: A connection that the lake is attached to; inside a transaction it answers for that.
        alias: The lake.
        keys: The keys that are looked for.
    """
    if not keys or not _exists(connection, alias):
        return {}
    wanted = ", ".join(f"({literal(table)}, {literal(key)})" for table, key in keys)
    rows = connection.rows(
        f"SELECT table_name, idempotency_key, min(snapshot_id) FROM {identifier(alias)}.{TABLE} "
        f"WHERE (table_name, idempotency_key) IN ({wanted}) GROUP BY ALL"
    )
    return {CommitKey(table, key): snapshot_id for table, key, snapshot_id in rows}


def model_runs(connection: Connection, alias: str, model: str) -> list[ModelRun]:
    """The runs of a model that have been committed, oldest first.

    Args:
        connection: As for `find`.
        alias: The lake.
        model: The model's table.
    """
    if not _exists(connection, alias):
        return []
    rows = connection.rows(
        "SELECT definition, run, interval_start, interval_end, inputs, files "
        f"FROM {identifier(alias)}.{TABLE} WHERE model = ? ORDER BY snapshot_id, rowid",
        [model],
    )
    return [
        ModelRun(
            model,
            definition,
            run,
            interval=None if start is None else (start, end),
            inputs=json.loads(inputs),
            files=json.loads(files),
            earlier=earlier,
        )
        for earlier, (definition, run, start, end, inputs, files) in enumerate(rows)
    ]


def check_runs(connection: Connection, alias: str, runs: Sequence[ModelRun]) -> None:
    """Refuses runs of models that somebody else has run since they began.

    Raises:
        CommitConflictError: There is one.
    """
    for run in runs:
        if len(model_runs(connection, alias, run.model)) != run.earlier:
            raise CommitConflictError(
                f"another runner has run the model {run.model} meanwhile, so nothing was written",
                hint="run it again: what the other has done is skipped",
            )


def statements(alias: str, token: str, keys: Sequence[CommitKey], runs: Sequence[ModelRun] = ()) -> tuple[str, ...]:
    """The SQL that remembers keys and runs of models, inside the transaction that they are for.

    The table is only ever appended to: an update would conflict with every other writer's append.
    """
    rows = [f"({literal(token)}, {literal(table)}, {literal(key)}, now(){', NULL' * 7})" for table, key in keys]
    rows += [f"({literal(token)}, {literal(run.model)}, NULL, now(), {_run_values(run)})" for run in runs]
    if not rows:
        return ()
    schema = f"{identifier(alias)}.{INTERNAL_SCHEMA}"
    return (
        f"CREATE SCHEMA IF NOT EXISTS {schema}",
        f"CREATE TABLE IF NOT EXISTS {schema}.commits ({_COLUMNS})",
        f"INSERT INTO {schema}.commits VALUES {', '.join(rows)}",
    )


def _run_values(run: ModelRun) -> str:
    interval = ["NULL", "NULL"] if run.interval is None else [literal(moment.isoformat(" ")) for moment in run.interval]
    texts = (json.dumps(dict(run.inputs)), json.dumps(list(run.files)))
    return ", ".join([*map(literal, (run.model, run.definition, run.run)), *interval, *map(literal, texts)])


def _exists(connection: Connection, alias: str) -> bool:
    exists = "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?"
    return bool(connection.rows(exists, [alias, *TABLE.split(".")]))
