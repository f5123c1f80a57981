"""Scenarios that provoke one anomaly each, in the manner of Hermitage, as steps of `history_clients.Script`."""

from __future__ import annotations

from typing import NamedTuple

from history import Append, Transaction

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
