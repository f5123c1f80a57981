"""The table of docs/guarantees.md; deletes that meet maintenance; the checker of histories finds each anomaly."""

from __future__ import annotations

import contextlib
import random
import re
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pytest
from anomalies import ALLOWED_BY_PREFIX_CONSISTENCY, ALLOWED_BY_SNAPSHOT_ISOLATION, MEANINGS, REALTIME, find_anomalies
from commit_hooks import at_commit
from history import INDETERMINATE, NEVER, Append, Journal, Operation, Read, Status, Transaction, load
from history_clients import LakeClient, PlainClient, Script
from history_faults import unprotect
from lake_parts import session_of
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
            other, native = lake, session_of(lake).writer.native
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


@pytest.mark.slow
@pytest.mark.prove("sqlite", "postgres")
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


@pytest.mark.slow
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


@pytest.mark.slow
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


# `+x1` appends 1 to x, `x:12` reads x as [1, 2], and `x:` reads it as empty. `@1-2` is when a transaction began and
# ended; without it, it is concurrent with all others.
PLANTED = {
    "duplicate": ["+x1", "+x2", "x:121"],
    "unknown value": ["+x1", "x:13"],
    "incompatible order": ["+x1", "+x2", "x:12", "x:21"],
    "internal": ["+x1", "x:1 +x2 x:1"],
    "G1a": ["fail +x1", "x:1"],
    "dirty update": ["fail +x1", "+x2", "x:12"],
    "G1b": ["+x1 +x2", "x:1"],
    "lost write": ["+x1 @1-2", "x: @3-4"],
    "lost update": ["+x1", "x:1 +x2", "x:1 +x3", "x:123"],
    "G0": ["+x1 +y2", "+x2 +y1", "x:12", "y:12"],
    "G1c": ["+x1 y:1", "x:1 +y1"],
    # The second one has seen the first one's x but not its y.
    "G-single": ["+x1 +y1", "x:1 y:", "y:1"],
    # Two transactions that see the writes of one of two writers each, in different orders.
    "G-nonadjacent": ["+x1", "+y1", "x:1 y:", "x: y:1", "x:1 y:1"],
    "G2-item": ["x: y: +x1", "x: y: +y1", "x:1 y:1"],
    # The third one has seen the second append, but not the first, which a writer made before it.
    "prefix": ["+x1 +y1", "+y2 +z2", "z:2 x:", "y:12 x:1"],
    "G0-realtime": ["+x1 @3-4", "+x2 @1-2", "x:12 @5-6"],
    "G1c-realtime": ["x:1 @1-2", "+x1 @3-4"],
    "G-single-realtime": ["+x1 @1-2", "x: @3-4", "x:1 @5-6"],
    "G-nonadjacent-realtime": ["+x1 @0-9", "+y1 @1-2", "x:1 y: @0-9", "x: @3-8", "x:1 y:1 @10-11"],
}


def transactions(texts: list[str]) -> list[Transaction]:
    return [transaction(number, text) for number, text in enumerate(texts, start=1)]


def transaction(number: int, text: str) -> Transaction:
    status: Status = "ok"
    invoked, completed = 0, NEVER - 1
    operations: list[Operation] = []
    for word in text.split():
        if word in ("fail", "info"):
            status = "fail" if word == "fail" else INDETERMINATE
        elif word.startswith("@"):
            invoked, completed = (int(part) for part in word[1:].split("-"))
        elif word.startswith("+"):
            operations.append(Append(word[1], int(word[2:])))
        else:
            operations.append(Read(word[0], tuple(map(int, word[2:]))))
    return Transaction(number, number, tuple(operations), status, invoked, completed)


# What else is found beside some anomalies; the worst one is reported under its own name.
ALSO = {"G2-item": "", "G1a": "", "G1b": "", "lost write": "", "G0": "prefix", "G1c": "prefix", "G-single": "prefix"}
ALSO |= {"lost update": "G-single"}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_anomaly_is_found_and_told_apart(name: str) -> None:
    """Alone, and among transactions that have nothing to do with it, in any order."""
    report = find_anomalies(transactions(PLANTED[name]))
    assert name in report.found, str(report)
    assert MEANINGS[name.removesuffix(REALTIME)] in str(report)
    if name in ALSO:
        assert {each.removesuffix(REALTIME) for each in report.found} <= {name, ALSO[name]}, str(report)
    if name != "lost write":
        chance = random.Random(name)  # noqa: S311
        history = serial(chance, 200)
        first, last = history[0].invoked, NEVER - 1
        for each in transactions(PLANTED[name]):
            ended = each.completed + first if each.completed < last else last
            moved = replace(each, number=each.number + 1000, invoked=each.invoked + first, completed=ended)
            history.append(moved)
        chance.shuffle(history)
        assert name in find_anomalies(history).found


def test_serializable_histories_have_no_anomaly() -> None:
    for seed in range(20):
        assert find_anomalies(serial(random.Random(seed), 200)).found == {}  # noqa: S311


def serial(chance: random.Random, count: int) -> list[Transaction]:
    """A history of transactions that ran one after the other, on keys of their own; replies come late."""
    lists: dict[str, list[int]] = {key: [] for key in "abcdefgh"}
    history = []
    for number in range(count):
        reads = [Read(key, tuple(lists[key])) for key in chance.sample(sorted(lists), 3)]
        appends = [Append(key, number * 10 + at) for at, key in enumerate(chance.sample(sorted(lists), 2))]
        status: Status = chance.choices(["ok", "fail", INDETERMINATE], [8, 1, 1])[0]
        if status == "ok" or (status == INDETERMINATE and chance.random() < 0.5):
            for append in appends:
                lists[append.key].append(append.value)
        operations: tuple[Operation, ...] = (*reads, *appends) if status == "ok" else tuple(appends)
        completed = NEVER if status == INDETERMINATE else number * 10 + chance.randrange(1, 40)
        history.append(Transaction(number, number % 5, operations, status, number * 10 - 30, completed))
    return history


def test_snapshot_isolation_allows_write_skew_and_prefix_consistency_lost_updates() -> None:
    reports = {name: find_anomalies(transactions(texts)) for name, texts in PLANTED.items()}
    for level, allowed in (
        (ALLOWED_BY_SNAPSHOT_ISOLATION, {"G2-item"}),
        (ALLOWED_BY_PREFIX_CONSISTENCY, {"G2-item", "lost update"}),
    ):
        assert {name for name, report in reports.items() if not report.forbidden(level)} == allowed


def test_transactions_without_a_reply_count_if_a_read_saw_them() -> None:
    assert find_anomalies(transactions(["info +x1", "x:"])).found == {}
    assert find_anomalies(transactions(["info +x1 +y1", "x:1 y:1"])).found == {}
    assert "G-single" in find_anomalies(transactions(["info +x1 +y1", "x:1 y:", "y:1"])).found


def test_a_value_that_occurs_twice_cannot_be_checked() -> None:
    with pytest.raises(ValueError, match="occurs twice"):
        find_anomalies(transactions(["+x1", "+x1"]))


def test_a_process_that_dies_leaves_an_indeterminate_transaction(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "1", process=1)
    journal.invoke(7, "merge", [Append("x", 1), Append("y", 2)])
    journal.complete(7, "ok", [Read("x", ()), Read("y", (5, 6))])
    journal.invoke(9, "append", [Append("x", 3)])
    first, second = load([tmp_path / "1"])
    assert first.operations == (Read("x", ()), Read("y", (5, 6)), Append("x", 1), Append("y", 2))
    assert (first.status, second.status, second.completed) == ("ok", INDETERMINATE, NEVER)
    assert first.invoked < first.completed < second.invoked
    assert str(second) == "T9 [indeterminate, append]: append(x, 3)"
