"""The table of docs/guarantees.md: the anomalies that two writers can provoke; deletes that meet maintenance."""

from __future__ import annotations

import contextlib
import re
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pytest
from anomalies import find_anomalies
from commit_hooks import at_commit
from history import Append, Transaction
from history_clients import LakeClient, PlainClient, Script
from history_faults import unprotect
from local_stores import on_catalog, on_postgres, store_of
from strength import PROVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from history_clients import Client
    from servers import PostgresServer

    from lakeconf import Lake, Store


PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
CATALOGS = ("sqlite", "duckdb", "postgres")
# Who runs the first and the second transaction: lakeconf (L), or DuckDB without it (P). A cell of the table with other
# writers is about the three last ones; the tests without LAKECONF_PROVE run the one that shows most.
MIXED = {"sqlite": "PL", "duckdb": "LP", "postgres": "LP"}
ALL_MIXED = ("LP", "PL", "PP")


class Players:
    """The clients of one catalog.

    Attributes:
        kind: The kind of the catalog.
        lakes: Two open lakes; the same one twice if only one process can have the catalog open.
        connections: Four DuckDB connections with the lake attached.
    """

    def __init__(self, kind: str, lakes: list[Lake], connections: list[duckdb.DuckDBPyConnection]) -> None:
        self.kind, self.lakes, self.connections = kind, lakes, connections

    def found(self, name: str, writers: str) -> set[str]:
        """The anomalies of a scenario; `writers` has L or P for each of the first two transactions."""
        self.connections[3].execute(SET_UP)
        clients: dict[str, Callable[[], Client]] = {
            "3": partial(PlainClient, self.connections[2]),
            "4": partial(PlainClient, self.connections[3]),
        }
        for at, writer in enumerate(writers):
            plain = partial(PlainClient, self.connections[at])
            clients[str(at + 1)] = partial(LakeClient, self.lakes[at]) if writer == "L" else plain
        history = Script(clients, KEYS).run(SCENARIOS[name].steps)
        assert "ok" in {each.status for each in history if each.number < 3}
        return find_anomalies([FIRST, *history]).found.keys() & set(SCENARIOS[name].shown)


@pytest.fixture(params=CATALOGS)
def players(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Players]:
    store = store_of(tmp_path, on_catalog(request, tmp_path), data_inlining_row_limit=0)
    with contextlib.ExitStack() as stack:
        lake = stack.enter_context(store.open())
        if request.param == "duckdb":
            other, native = lake, lake._session.writer.native
        else:
            other, native = stack.enter_context(store.open()), stack.enter_context(contextlib.closing(store.connect()))
        cursors = [stack.enter_context(contextlib.closing(native.cursor())) for _ in range(4)]
        yield Players(request.param, [lake, other], cursors)


def documented() -> dict[tuple[str, str], list[str]]:
    """For each scenario and catalog: what the page says of lakeconf alone, and with other writers."""
    exception = "possible, except on SQLite"
    lines = re.findall(r"^\| (\w.*?) \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    cells = {title: [cell.strip() for cell in row.split("|")] for title, row in lines}
    return {
        (name, kind): [
            ("prevented" if kind == "sqlite" else "possible") if cell == exception else cell
            for cell in cells[scenario.title][1:3]
        ]
        for name, scenario in SCENARIOS.items()
        for kind in CATALOGS
    }


@pytest.mark.parametrize("players", ["postgres"], indirect=True)
def test_without_locks_and_checks_two_deletes_damage_the_table(
    players: Players, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker finds the bug of DuckLake from which lakeconf protects."""
    players.connections[3].execute(SET_UP)
    one, other = (lake.table("lists_0") for lake in players.lakes)
    for lake in players.lakes:
        lake.refresh()
    unprotect(monkeypatch.setattr)
    at_commit(monkeypatch, before=lambda: other.delete("k = 3"))
    one.delete("k = 2")
    history = Script({"3": partial(PlainClient, players.connections[2])}, KEYS).run("3?x")
    assert "duplicate" in find_anomalies([FIRST, *history]).found


def test_the_table_of_guarantees(players: Players) -> None:
    said = documented()
    expected = {name: said[name, players.kind] for name in SCENARIOS}
    mixed = ALL_MIXED if PROVE else (MIXED[players.kind],)
    words = {True: "possible", False: "prevented"}
    measured = {
        name: [words[bool(players.found(name, "LL"))], words[any(players.found(name, each) for each in mixed)]]
        for name in SCENARIOS
    }
    assert measured == expected


# Three files of 40 rows; in the other form, the first one has a delete file.
THREE_FILES = (
    "CREATE OR REPLACE TABLE dev.t AS SELECT k FROM range(40) r(k)",
    "INSERT INTO dev.t FROM range(40, 80)",
    "INSERT INTO dev.t FROM range(80, 120)",
)
DELETED = "DELETE FROM dev.t WHERE k IN (10, 90)"
# DuckLake keeps a delete of so few rows in the catalog.
DELETE = "DELETE FROM dev.t WHERE k IN (1, 2)"
MERGE = "CALL ducklake_merge_adjacent_files('dev', 't')"
REWRITE = "CALL ducklake_rewrite_data_files('dev', 't', delete_threshold => 0.0)"
FLUSH = "CALL ducklake_flush_inlined_data('dev')"


@pytest.fixture
def store(postgres_server: PostgresServer, tmp_path: Path) -> Store:
    return store_of(tmp_path, on_postgres(postgres_server), data_inlining_row_limit=10)


def rows(connection: Any) -> tuple[list[int], int]:
    """The rows of the table, and their number, which DuckLake takes from its statistics."""
    keys = [key for (key,) in connection.execute("SELECT k FROM dev.t ORDER BY k").fetchall()]
    return keys, connection.execute("SELECT count(*) FROM dev.t").fetchone()[0]


def test_ducklake_alone_brings_deleted_rows_back(store: Store) -> None:
    """When this fails, DuckLake has been fixed, and docs/guarantees.md can say so."""
    with contextlib.closing(store.connect()) as one, contextlib.closing(store.connect()) as other:
        wrong = set()
        for name, maintenance, before in (
            ("merge", MERGE, ""),
            ("rewrite", REWRITE, DELETED),
            ("flush", FLUSH, DELETED),
        ):
            for statement in filter(None, (*THREE_FILES, before)):
                one.execute(statement)
            expected = [key for key in rows(one)[0] if key not in (1, 2)]
            for connection, statement in ((one, DELETE), (other, maintenance)):
                connection.execute("BEGIN")
                connection.execute(statement)
            one.execute("COMMIT")
            with contextlib.suppress(duckdb.Error):
                other.execute("COMMIT")
            found, count = rows(one)
            wrong |= {f"{name}: rows"} if found != expected else set()
            wrong |= {f"{name}: count"} if count != len(found) else set()
        assert wrong == {"merge: rows", "rewrite: rows", "flush: count"}


@pytest.mark.parametrize("maintenance", ["compact", "flush", "rewrite"])
def test_lakeconf_keeps_deletes_that_meet_maintenance(
    maintenance: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The maintenance of another open lake begins when the delete is about to commit."""
    with contextlib.closing(store.connect()) as connection:
        for statement in (*THREE_FILES, DELETED):
            connection.execute(statement)
        with store.open() as lake, store.open() as other, ThreadPoolExecutor(1) as pool:
            running: list[Future[Any]] = []
            at_commit(monkeypatch, before=lambda: running.append(pool.submit(getattr(other.maintenance, maintenance))))
            lake.table("t").delete("k IN (1, 2)")
            running[0].result()
        found, count = rows(connection)
        assert found == [key for key in range(120) if key not in (1, 2, 10, 90)]
        assert count == len(found)


# x, z and w are rows of one data file, which has a delete file; y is a row of another table. p, q and r are rows that
# transactions only append: p and r to one table, q to another one.
KEYS = {
    "x": "lists_0/1",
    "z": "lists_0/2",
    "w": "lists_0/3",
    "y": "lists_1/1",
    "p": "rows_0/1",
    "r": "rows_0/2",
    "q": "rows_1/1",
}
SET_UP = """
    BEGIN;
    CREATE OR REPLACE TABLE dev.lists_0 AS SELECT k, k::VARCHAR AS v FROM range(1, 5) r(k);
    CREATE OR REPLACE TABLE dev.lists_1 AS SELECT k, k::VARCHAR AS v FROM range(1, 5) r(k);
    CREATE OR REPLACE TABLE dev.rows_0 (k BIGINT, v BIGINT);
    CREATE OR REPLACE TABLE dev.rows_1 (k BIGINT, v BIGINT);
    COMMIT;
    DELETE FROM dev.lists_0 WHERE k = 4;
"""
# The transaction that set up the tables.
FIRST = Transaction(
    0, 0, tuple(Append(f"lists_{table}/{key}", key) for table in (0, 1) for key in range(1, 5)), "ok", -2, -1
)


class Scenario(NamedTuple):
    """One anomaly."""

    title: str  # what the documentation calls it
    steps: str  # the steps that provoke it
    shown: tuple[str, ...]  # what the checker finds if it has occurred


SKEW = ("G-single", "G-nonadjacent", "prefix")
SCENARIOS = {
    "G0": Scenario("Dirty write", "1+p 2+p 2+q 1+q 1c 2c 3?p 3?q", ("G0",)),
    "G1a": Scenario("Aborted read (dirty read)", "1?x 1+x 2?x 1a 2?y 2c 3?x", ("G1a",)),
    "G1b": Scenario("Intermediate read", "1+p 2?p 1+p 2?p 1c 2c 3?p", ("G1b", "internal")),
    "G1c": Scenario("Circular information flow", "1+p 2+q 1?q 2?p 1c 2c 3?p 3?q", ("G1c",)),
    "OTV": Scenario("Observed transaction vanishes", "1?x 1?y 1+x 1+y 2?x 2?y 2+x 2+y 1c 3?x 2c 3?y 3c 4?x 4?y", SKEW),
    "PMP": Scenario("Phantom", "1?p 2+r 2+p 2c 1?r 1?p 1c", (*SKEW, "internal")),
    "G-single": Scenario("Read skew", "1?x 2?x 2?y 2+x 2+y 2c 1?y 1c 3?x 3?y", SKEW),
    "P4": Scenario("Lost update", "1?x 2?x 1+x 2+x 1c 2c 3?x", ("lost update", "lost write")),
    "G2-item": Scenario("Write skew in one table", "1?x 1?z 2?x 2?z 1+x 2+z 1c 2c 3?x 3?z", ("G2-item",)),
    "G2-item tables": Scenario("Write skew across tables", "1?x 1?y 2?x 2?y 1+x 2+y 1c 2c 3?x 3?y", ("G2-item",)),
    "P4 append": Scenario("Append that is based on an old read", "1?p 2?p 1+p 2+p 1c 2c 3?p", ("lost update",)),
    "double delete": Scenario("Deleted rows return, rows are doubled", "1-z 2-w 1c 2c 3?x", ("duplicate",)),
}
