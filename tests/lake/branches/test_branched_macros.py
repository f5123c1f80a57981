"""A branch has the macros of its lake, which read its own tables; those that do more than compute are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from branched_lakes import SHORT, lake_and_branch
from local_stores import rows
from whole_lakes import fill

from lakeconf.errors import BranchError

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Store

MACROS = (
    "CREATE MACRO raw.twice(a) AS a * 2",
    "CREATE MACRO raw.typed(a INTEGER, b VARCHAR := 'it''s') AS a || b",
    "CREATE MACRO raw.dated(a := DATE '2020-01-01', b := 1.25) AS a",
    "CREATE MACRO raw.either(a) AS a, (a, b) AS a + b",
    "CREATE MACRO raw.those(below := 45) AS TABLE SELECT * FROM raw.e WHERE id < below",
    "CREATE MACRO raw.counted() AS (SELECT count(*) FROM raw.e)",
    "CREATE VIEW raw.doubled AS SELECT {alias}.raw.twice(id) AS id FROM raw.f",
    "CREATE MACRO named(a) AS {alias}.raw.twice(a)",
    "CREATE MACRO raw.reads() AS TABLE SELECT * FROM read_text('/etc/hostname')",
    "CREATE VIEW raw.reading AS SELECT * FROM read_text('/etc/hostname')",
)


@pytest.fixture
def branch(tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    """The store of a branch that does not exist yet, of a lake with macros."""
    prod, branch = lake_and_branch(request, tmp_path)
    fill(prod, (*SHORT, *MACROS))
    return branch


def test_macros_work_in_a_branch_and_read_its_own_tables(branch: Store) -> None:
    for _ in range(2):  # the drop removes them
        left_out = [text.partition(": ")[0] for text in branch.create_branch().left_out]
        assert left_out == ["main.named", "raw.reading", "raw.reads"]
        with branch.open() as lake:
            query = "SELECT raw.twice(4), raw.typed(1), raw.dated()::VARCHAR, raw.either(1), raw.either(1, 2)"
            assert rows(lake, query) == [(8, "1it's", "2020-01-01", 1, 3)]
            assert rows(lake, "SELECT count(*), max(id) FROM raw.those()") == [(5, 44)]
            assert rows(lake, "SELECT count(*) FROM raw.those(below := 43)") == [(3,)]
            assert rows(lake, "SELECT sum(id) FROM raw.doubled") == [(90,)]
            assert rows(lake, "SELECT raw.counted()") == [(60,)]
            lake.table("raw.e").delete("id < 44")
            assert rows(lake, "SELECT count(*) FROM raw.those()") == [(1,)]
            assert rows(lake, "SELECT raw.counted()") == [(56,)]
        branch.drop_branch()


def test_a_lake_with_a_macro_is_not_empty(branch: Store) -> None:
    fill(branch.replace(branch_of=None), ("CREATE MACRO own() AS 1",))
    with pytest.raises(BranchError, match=r"is not empty: it has main\.own"):
        branch.create_branch()
