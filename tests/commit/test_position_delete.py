"""Rows that executors found before the commit are exactly those that a delete at the commit would find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from commit_hooks import at_commit
from deleted_rows import COLUMNS, frame, ids
from local_stores import on_catalog, store_of
from plain_sql import run_plain

from lakeconf.commit.deletions import Outcome
from lakeconf.write.row_changes import delete, overwrite
from lakeconf.write.writes import Writing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake

OTHERS = {
    "append": "INSERT INTO {0} SELECT 100 + i, '2024-01-02', 'b', 50 FROM range(40) AS r(i)",
    "small append": "INSERT INTO {0} VALUES (100, '2024-01-02', 'b', 50), (101, '2024-01-03', NULL, 1)",
    "update": "UPDATE {0} SET x = 44 WHERE id % 4 = 0",
    "small update": "UPDATE {0} SET day = '2024-01-02' WHERE id = 3",
    "delete": "DELETE FROM {0} WHERE id % 3 = 2 AND id % 2 = 0",
    "small delete": "DELETE FROM {0} WHERE id IN (1, 88, 89)",
    "delete of all": "DELETE FROM {0}",
    "merge of files": "CALL ducklake_merge_adjacent_files('dev', '{0}')",
    "rewrite": "CALL ducklake_rewrite_data_files('dev', '{0}', delete_threshold => 0.0)",
    "flush": "CALL ducklake_flush_inlined_data('dev', table_name => '{0}')",
}
# Files of Spark and of DuckDB in each partition, deletes in files and in the catalog, rows in the catalog.
WEAR = (
    "CALL dev.set_option('data_inlining_row_limit', 10, table_name => '{0}')",
    "DELETE FROM {0} WHERE id % 7 = 0",
    "INSERT INTO {0} VALUES (200, '2024-01-02', 'a', 50), (201, '2024-01-01', 'a', NULL)",
    "INSERT INTO {0} SELECT 300 + i, '2024-01-02', 'a', i FROM range(60) AS r(i)",
    "UPDATE {0} SET kind = 'z' WHERE id BETWEEN 300 AND 330",
    "DELETE FROM {0} WHERE id IN (4, 5)",
)
WHERE = "day = '2024-01-02' OR x > 40"


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    """An empty lake on each kind of catalog."""
    with store_of(tmp_path, on_catalog(request, tmp_path)).open(spark) as lake:
        yield lake


def make_twins(lake: Lake, *names: str) -> None:
    """Creates tables with the same rows and files."""
    with lake.transaction() as tx:
        for name in names:
            tx.create_table(name, COLUMNS, partitioned_by=["day"]).append(frame(90))
    for name in names:
        run_plain(lake, *(statement.format(name) for statement in WEAR))
    lake.refresh()


def rows(lake: Lake, table: str, version: int | None = None) -> list[tuple[Any, ...]]:
    at = "" if version is None else f" AT (VERSION => {version})"
    return sorted(lake._session.writer.rows(f"SELECT rowid, * FROM dev.{table}{at}"), key=repr)


@pytest.mark.usefixtures("searching")
def test_overwrite_replaces_all_rows(empty: Lake) -> None:
    """Other writers change the table before the commit, which replaces their rows too."""
    others = {"nothing": "", **{name: OTHERS[name] for name in ("append", "flush")}}
    names = {other: f"t{number}" for number, other in enumerate(others)}
    make_twins(empty, *names.values())
    for other, name in names.items():
        empty.refresh()
        version = empty.snapshot_id
        ids_before = {row[1] for row in rows(empty, name)}
        with Writing(empty._scope) as transaction:
            overwrite(transaction, name, frame=frame(3), where=None, evolve=False)
            run_plain(empty, *filter(None, [others[other].format(name)]))
        assert sorted(row[1] for row in rows(empty, name)) == [0, 1, 2], other
        assert {row[1] for row in rows(empty, name, version)} == ids_before


@pytest.mark.usefixtures("searching")
@pytest.mark.parametrize("other", OTHERS)
def test_result_is_that_of_a_delete_at_the_commit(empty: Lake, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    """Other writers change the table after the search. `test_random_deletes` does so for staged commits, too."""
    make_twins(empty, "ours", "theirs")
    at_commit(monkeypatch, before=lambda: run_plain(empty, OTHERS[other].format("ours")))
    empty.table("ours").delete(WHERE)
    run_plain(empty, OTHERS[other].format("theirs"), f"DELETE FROM theirs WHERE {WHERE}")
    assert rows(empty, "ours") == rows(empty, "theirs")


@pytest.mark.usefixtures("searching")
def test_row_that_is_flushed_after_the_commit_began_is_deleted(empty: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog then shows the row in a file, but the transaction still sees it in the catalog."""
    empty.create_table("t", COLUMNS).append(frame(90))
    run_plain(empty, "CALL dev.set_option('data_inlining_row_limit', 10)")
    statements, flushes = Outcome.statements, [OTHERS["flush"].format("t")]

    def flushing(self: Outcome, *arguments: Any) -> Any:
        run_plain(empty, *flushes)
        flushes.clear()
        return statements(self, *arguments)

    monkeypatch.setattr(Outcome, "statements", flushing)
    with Writing(empty._scope) as transaction:
        delete(transaction, "t", where="id IN (4, 7) AND x > 2")
        assert isinstance(transaction.changes[-1].body, Outcome)
        run_plain(empty, "INSERT INTO t VALUES (4, '2024-01-01', 'new', 50)")
    assert ids(empty) == [number for number in range(90) if number != 7]


@pytest.mark.usefixtures("searching")
def test_history_and_change_feed_are_those_of_a_delete_by_duckdb(empty: Lake) -> None:
    make_twins(empty, "ours", "theirs")
    first = empty.snapshot_id
    for where in (WHERE, "id < 40", "kind IS NULL OR id = 305"):
        empty.table("ours").delete(where)
        run_plain(empty, f"DELETE FROM theirs WHERE {where}")
    last = empty.refresh()
    ours, theirs = ([rows(empty, name, version) for version in range(first, last + 1)] for name in ("ours", "theirs"))
    # Their deletes come one snapshot later.
    assert ours[::2] == theirs[::2]
    assert ours[1::2] == theirs[2::2]
    feeds = [
        empty._session.writer.rows(
            f"SELECT rowid, change_type, id, day, kind, x FROM dev.table_changes('{name}', {first + 1}, {last})"
        )
        for name in ("ours", "theirs")
    ]
    assert sorted(feeds[0], key=repr) == sorted(feeds[1], key=repr)
    for name in ("ours", "theirs"):
        run_plain(empty, f"CALL ducklake_rewrite_data_files('dev', '{name}', delete_threshold => 0.0)")
    assert rows(empty, "ours") == rows(empty, "theirs") == ours[-1]
