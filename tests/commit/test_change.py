"""A change knows its files, and whether DuckLake writes files for it."""

from __future__ import annotations

import pytest

from lakeconf.catalog.pruning.scan_plan import ScanPlan
from lakeconf.catalog.tables import TableInfo
from lakeconf.commit.change import (
    Body,
    Change,
    Files,
    SchemaChange,
    Statements,
    is_staged_commit,
    tables_to_lock,
    written_by_ducklake,
)
from lakeconf.commit.deletions import Found, Outcome, Positions
from lakeconf.engines.engine import Staged

TABLE = TableInfo(1, "main", "t", (), "/data/")
FILES = Staged("FROM rows", files=("s3://bucket/part-0.parquet",), row_count=2)


def no_search(plan: ScanPlan) -> Positions:
    raise AssertionError(plan)


OUTCOME = Outcome(TABLE, "/data/new/", Found(1, frozenset(), Positions({}, {})), no_search, "false")
FEW = Outcome(TABLE, "/data/new/", OUTCOME.found, no_search, "false", is_few=True)
CASES: list[tuple[Body, bool]] = [
    (Statements(("DELETE",), deletes=True), True),
    (Statements(), False),
    (SchemaChange(("CREATE TABLE t (a INT)",)), False),
    (Files(TABLE, FILES), False),
    (Files(TABLE, Staged("FROM rows", files=FILES.files, rest="FROM rest")), True),
    (Files(TABLE, Staged("FROM rows")), True),
    (FEW, True),
]


@pytest.mark.parametrize(("body", "expected"), CASES)
def test_ducklake_writes_no_files_if_the_staged_files_become_files_of_the_table(body: Body, *, expected: bool) -> None:
    assert written_by_ducklake([Change("main.t", body)]) == ({"main.t"} if expected else set())


def test_deletes_of_few_rows_are_no_staged_commit() -> None:
    """DuckLake keeps few deletes in the catalog, and its change feed depends on that."""
    assert is_staged_commit([Change("main.t", OUTCOME), Change("main.t", Files(TABLE, FILES))])
    assert not is_staged_commit([Change("main.t", FEW), Change("main.t", Files(TABLE, FILES))])


def test_rows_are_those_that_were_written() -> None:
    bodies: list[Body] = [
        Files(TABLE, FILES),
        Files(TABLE, FILES, own_row_ids=True),
        Statements(("U", "D"), (3, 4)),
        OUTCOME,
    ]
    assert [Change("main.t", body).row_count for body in bodies] == [2, 0, 7, 0]


def test_only_one_commit_registers_files_at_a_time() -> None:
    registering, inserting = (Change("main.t", Files(TABLE, rows)) for rows in (FILES, Staged("FROM rows")))
    assert tables_to_lock([inserting, registering], registers_alone=True) == {"lakeconf.commits"}
    assert tables_to_lock([registering], registers_alone=False) == set()
    assert tables_to_lock([inserting], registers_alone=True) == set()
    assert tables_to_lock([registering, Change("main.t", OUTCOME)], registers_alone=True) == set()
