"""`lakeconf.commits`: the table in the lake itself that remembers what must outlive `expire_snapshots`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakeconf.connection import Connection
from lakeconf.sql import identifier, literal

INTERNAL_SCHEMA = "lakeconf"
TABLE = f"{INTERNAL_SCHEMA}.commits"


class CommitKey(NamedTuple):
    """What a write may be done once for.

    Attributes:
        table: The table's full name.
        key: The caller's idempotency key.
    """

    table: str
    key: str


def find(connection: Connection, alias: str, keys: Sequence[CommitKey]) -> dict[CommitKey, int]:
    """The keys that have been committed, each with its snapshot.

    Args:
        connection: A connection that the lake is attached to; inside a transaction it answers for that.
        alias: The lake.
        keys: The keys that are looked for.
    """
    exists = "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?"
    if not keys or not connection.rows(exists, [alias, *TABLE.split(".")]):
        return {}
    wanted = ", ".join(f"({literal(table)}, {literal(key)})" for table, key in keys)
    rows = connection.rows(
        f"SELECT table_name, idempotency_key, min(snapshot_id) FROM {identifier(alias)}.{TABLE} "
        f"WHERE (table_name, idempotency_key) IN ({wanted}) GROUP BY ALL"
    )
    return {CommitKey(table, key): snapshot_id for table, key, snapshot_id in rows}


def statements(alias: str, token: str, keys: Sequence[CommitKey]) -> tuple[str, ...]:
    """The SQL that remembers keys, inside the transaction that they are for.

    The table is only ever appended to: an update would conflict with every other writer's append.
    """
    if not keys:
        return ()
    schema = f"{identifier(alias)}.{INTERNAL_SCHEMA}"
    rows = ", ".join(f"({literal(token)}, {literal(table)}, {literal(key)}, now())" for table, key in keys)
    return (
        f"CREATE SCHEMA IF NOT EXISTS {schema}",
        f"CREATE TABLE IF NOT EXISTS {schema}.commits "
        "(token VARCHAR, table_name VARCHAR, idempotency_key VARCHAR, committed_at TIMESTAMPTZ)",
        f"INSERT INTO {schema}.commits VALUES {rows}",
    )
