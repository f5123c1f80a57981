"""Merges and updates whose changed rows executors locate: right after other commits, refused if a row changes twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lake_parts import session_of
from local_stores import store_of
from merge_cases import committer, fetched, unknown_files
from plain_sql import run_plain

from lakeconf.commit.row_delta import RowDelta
from lakeconf.errors import CommitError
from lakeconf.write import strategy as rule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake

CREATE = (
    "CREATE TABLE t (id BIGINT, s VARCHAR)",
    "CREATE TABLE other (id BIGINT)",
    "INSERT INTO t SELECT i, 'old' FROM range(20) AS r(i)",
    "INSERT INTO t SELECT i, 'old' FROM range(20, 40) AS r(i)",
    # Files that a compaction merges.
    "INSERT INTO t SELECT i, 'old' FROM range(200, 206) AS r(i)",
    "INSERT INTO t SELECT i, 'old' FROM range(206, 212) AS r(i)",
    "DELETE FROM t WHERE id IN (3, 5, 7, 9, 11, 13)",  # a file of deletes
    "DELETE FROM t WHERE id = 31",  # a delete in the catalog
    "INSERT INTO t VALUES (100, 'old'), (101, 'old')",
)
FRAME = "SELECT id * 2 AS id, 'new' AS s FROM range(106)"
LEFT = [*(i for i in range(40) if i not in (3, 5, 7, 9, 11, 13, 31)), 100, 101, *range(200, 212)]
MERGED = sorted([*((i, "new") for i in range(0, 212, 2)), *((i, "old") for i in LEFT if i % 2)])


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setattr(rule, "MOST_FRAME_BYTES", -1)
    with store_of(tmp_path, data_inlining_row_limit=5).open(spark) as opened:
        run_plain(opened, *CREATE)
        opened.refresh()
        session_of(opened).committer = "staged"
        yield opened


def rows(lake: Lake) -> list[tuple[object, ...]]:
    return sorted(fetched(lake, "SELECT id, s FROM t"))


def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows in the catalog that each attempt of a commit finds by their ids."""
    found, inlined = list[int](), RowDelta._inlined

    def counted(self: RowDelta, *arguments: Any) -> Any:
        rows = inlined(self, *arguments)
        found.append(len(rows))
        return rows

    monkeypatch.setattr(RowDelta, "_inlined", counted)
    return found


@pytest.mark.slow
def test_duckdb_looks_for_the_rows_in_the_catalog_only(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found, before = searches(monkeypatch), fetched(lake, "SELECT id, rowid FROM t")
    lake.table("t").merge(spark.sql(FRAME), on="id")
    assert (committer(lake), rows(lake), found) == ("staged", MERGED, [1])
    ids = dict(fetched(lake, "SELECT id, rowid FROM t"))
    assert [ids[key] for key, _ in before] == [row_id for _, row_id in before]
    feed = fetched(lake, f"SELECT change_type, count(*) FROM dev.table_changes('t', {lake.snapshot_id}, "
                         f"{lake.snapshot_id}) GROUP BY ALL")  # fmt: skip
    updated = len([i for i in LEFT if i % 2 == 0])
    assert dict(feed) == {"update_preimage": updated, "update_postimage": updated, "insert": 106 - updated}
    assert unknown_files(lake, tmp_path) == []


def test_updates_keep_the_snapshots_of_earlier_deletes(lake: Lake) -> None:
    before = lake.snapshot_id
    earlier = [fetched(lake, f"SELECT id FROM t AT (VERSION => {version}) ORDER BY id") for version in range(5, before)]
    lake.table("t").update({"s": "x"}, where="id < 30")
    assert committer(lake) == "staged"
    assert rows(lake) == [(i, "x" if i < 30 else "old") for i in LEFT]
    assert earlier == [
        fetched(lake, f"SELECT id FROM t AT (VERSION => {version}) ORDER BY id") for version in range(5, before)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("twice", [4, 101], ids=["in a file", "in the catalog"])
def test_a_row_that_would_change_twice_is_refused(lake: Lake, spark: SparkSession, tmp_path: Path, twice: int) -> None:
    before = {*tmp_path.rglob("*.parquet")}
    frame = spark.sql(f"{FRAME} UNION ALL SELECT {twice}, 'a' UNION ALL SELECT {twice}, 'b'")
    with pytest.raises(CommitError, match=r"rows of the frame match one row of main\.t on id: nothing was"):
        lake.table("t").merge(frame, on="id")
    assert {*tmp_path.rglob("*.parquet")} == before
    assert [i for i, _ in rows(lake)] == LEFT
