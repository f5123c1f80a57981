"""Two processes or lakes on one SQLite catalog: flushes and registered files lose no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from commit_hooks import during
from local_stores import ids, on_sqlite, store_of
from plain_sql import run_plain
from registering_process import run

from lakeconf.errors import CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[list[Lake]]:
    """Two open lakes of one store; the table `t` has three rows in the catalog and none in files."""
    store = store_of(tmp_path, on_sqlite(tmp_path), data_inlining_row_limit=10)
    with store.open() as one, store.open() as other:
        run_plain(one, "CREATE TABLE t (id BIGINT)", "INSERT INTO t VALUES (1), (2), (3)")
        for lake in (one, other):
            lake.refresh()
        yield [one, other]


def test_a_flush_conflicts_with_a_write_that_depends_on_rows(lakes: list[Lake]) -> None:
    one, other = lakes
    assert ids(one) == [1, 2, 3]
    other.maintenance.flush()
    with pytest.raises(CommitConflictError, match=r"main\.t was read at snapshot"):
        one.table("t").merge(ROWS, on="id")
    one.refresh()
    one.table("t").merge(ROWS, on="id")
    assert ids(one) == [1, 2, 3]


def test_it_does_not_where_duckdb_reads_a_catalog_in_one_transaction(tmp_path: Path) -> None:
    store = store_of(tmp_path, {"type": "duckdb", "uri": str(tmp_path / "catalog")}, data_inlining_row_limit=10)
    with store.open() as lake:
        run_plain(lake, "CREATE TABLE t (id BIGINT)", "INSERT INTO t VALUES (1), (2), (3)")
        lake.refresh()
        with lake.transaction() as tx:
            assert ids(tx) == [1, 2, 3]
            run_plain(lake, "CALL ducklake_flush_inlined_data('dev')")
            tx.table("t").merge(ROWS, on="id")
        assert ids(lake) == [1, 2, 3]


def test_a_lake_can_write_after_its_own_flush(lakes: list[Lake]) -> None:
    one, _ = lakes
    assert ids(one) == [1, 2, 3]
    one.maintenance.flush()
    one.table("t").delete("id = 1")
    assert ids(one) == [2, 3]


def test_a_delete_that_finds_no_row_is_repeated_if_another_process_commits(
    lakes: list[Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = lakes
    found: list[bool] = []

    def flush_once() -> None:
        found.append(True)
        if len(found) == 1:
            other.maintenance.flush()

    during(one, monkeypatch, 'DELETE FROM "dev"', flush_once)
    one.table("t").delete("id = 99")
    assert len(found) == 2, "it looked for the row again, in a state in which nothing was being flushed"
    assert ids(one) == [1, 2, 3]


def test_two_lakes_that_register_files_at_the_same_time_end_with_all_rows(project: Path) -> None:
    """DuckLake would load the mapping of the other file twice, and crash or hang."""
    done = run(project / "lakeconf.toml")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [f"{name} 1" for name in ("one", "two", *(f"later_{at}" for at in range(4)))]
