"""Plain clients of a PostgreSQL catalog that commit at once lose no row and no statistics: `RACES` in upstream.py.

They take turns until their COMMITs, which then start together. A failure here is a new entry.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from catalog_lake import lake
from strength import PROVE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from catalog_lake import AttachedLake
    from servers import PostgresServer

CLIENTS = 6
ROUNDS = 300 if PROVE else 12


def commit_at_once(clients: Sequence[AttachedLake], statements: Sequence[str]) -> None:
    """Commits one transaction of each client; raises the first error."""
    for client, statement in zip(clients, statements, strict=True):
        client.run("BEGIN", statement)
    with ThreadPoolExecutor(len(clients)) as threads:
        list(threads.map(lambda client: client.run("COMMIT"), clients))


@pytest.mark.prove
@pytest.mark.parametrize("limit", [0, 10])
def test_commits_at_once_lose_nothing(limit: int, postgres_server: PostgresServer, tmp_path: Path) -> None:
    database, options = postgres_server.create_database(), f", DATA_INLINING_ROW_LIMIT {limit}"

    def client() -> contextlib.AbstractContextManager[AttachedLake]:
        return lake("postgres", tmp_path, server=postgres_server, database=database, options=options)

    expected = [(number * 10,) for number in range(CLIENTS)]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(client()) for _ in range(CLIENTS)]
        for each in clients:
            each.run("SET ducklake_max_retry_count = 100")
        for table in (f"t{number}" for number in range(ROUNDS)):
            clients[0].run(f"CREATE TABLE lake.{table} (k INTEGER)")
            commit_at_once(clients, [f"INSERT INTO lake.{table} VALUES ({k})" for (k,) in expected])
            with client() as reader:
                assert reader.rows(f"FROM lake.{table} ORDER BY k") == expected
                assert reader.rows(f"SELECT count(*), count(DISTINCT rowid) FROM lake.{table}") == [(CLIENTS, CLIENTS)]
                for row in expected:
                    assert reader.rows(f"FROM lake.{table} WHERE k = {row[0]}") == [row]
        for _ in range(ROUNDS // 4):
            commit_at_once(clients, [f"CREATE OR REPLACE TABLE lake.of_{k} AS SELECT {k} AS k" for (k,) in expected])
            with client() as reader:
                assert [reader.rows(f"FROM lake.of_{k}") for (k,) in expected] == [[row] for row in expected]
