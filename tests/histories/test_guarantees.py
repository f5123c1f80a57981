"""The table of docs/guarantees.md: the anomalies that two writers can provoke, on each catalog."""

from __future__ import annotations

import contextlib
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anomalies import find_anomalies
from anomaly_scenarios import FIRST, KEYS, SCENARIOS, SET_UP
from commit_hooks import at_commit
from history_clients import LakeClient, PlainClient, Script
from history_faults import unprotect
from local_stores import on_postgres, store_of
from strength import PROVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import duckdb
    from history_clients import Client

    from lakeconf import Lake

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
    if request.param == "postgres":
        catalog = on_postgres(request.getfixturevalue("postgres_server"))
    else:
        catalog = {"type": request.param, "uri": str(tmp_path / "catalog")}
    store = store_of(tmp_path, catalog, data_inlining_row_limit=0)
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
