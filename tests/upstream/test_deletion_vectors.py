"""duckdb/ducklake#1072: DuckLake extends a deletion vector, and forgets since when the rows in it are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import ids, on_catalog, rows, store_of

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakeconf import Lake, Store

ROWS = [{"id": number, "v": "old"} for number in range(10)]
WRITES: dict[str, Callable[[Lake], Any]] = {
    "delete": lambda lake: lake.table("t").delete("id = 8"),
    "update": lambda lake: lake.table("t").update({"v": "new"}, where="id = 8"),
    "merge": lambda lake: lake.table("t").merge([{"id": 8, "v": "new"}], on="id"),
    "overwrite": lambda lake: lake.table("t").overwrite([{"id": 8, "v": "new"}], where="id = 8"),
    "execute": lambda lake: lake.execute("DELETE FROM t WHERE id = 8"),
}


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A lake that writes deletion vectors, with ten rows at snapshot 3 and five at snapshot 4."""
    made = store_of(tmp_path, on_catalog(request, tmp_path), data_inlining_row_limit=0)
    with made.open() as lake:
        lake.create_table("t", {"id": "BIGINT", "v": "VARCHAR"})
    with made.connect() as connection:
        connection.execute("CALL dev.set_option('write_deletion_vectors', true)")
        connection.execute("INSERT INTO dev.t SELECT i, 'old' FROM range(10) AS r(i)")
        connection.execute("DELETE FROM dev.t WHERE id < 5")
    return made


def versions(lake: Lake) -> list[int]:
    """The snapshots in which rows of the table changed."""
    return [change.snapshot_id for change in lake.table("t").history()]


def test_ducklake_forgets_the_deletes_of_older_snapshots(store: Store) -> None:
    """If this fails, a new version of DuckLake has mended it."""
    with store.connect() as connection:
        counts = "SELECT count(*) FROM dev.t AT (VERSION => {})"
        ((newest,),) = connection.execute("SELECT max(snapshot_id) FROM ducklake_snapshots('dev')").fetchall()
        assert connection.execute(counts.format(newest)).fetchall() == [(5,)]
        connection.execute("DELETE FROM dev.t WHERE id = 8")
        assert connection.execute(counts.format(newest)).fetchall() == [(10,)]


@pytest.mark.prove("on_spark-update", "on_spark-merge", "on_spark-overwrite", "on_spark-execute")
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_would_make_it_forget_is_an_error_until_the_files_are_rewritten(
    store: Store, engine: Any, write: str
) -> None:
    with store.open(engine) as lake:
        before = {version: ids(lake.at(version=version)) for version in versions(lake)}
        with pytest.raises(UnsupportedError, match="t has a deletion vector") as caught:
            WRITES[write](lake)
        assert ids(lake) == [5, 6, 7, 8, 9]
    with store.connect() as connection:  # what the hint says
        connection.execute(str(caught.value.hint).partition(": ")[2])
    with store.open(engine) as lake:
        WRITES[write](lake)
        assert ids(lake) == ([5, 6, 7, 9] if write in ("delete", "execute") else [5, 6, 7, 8, 9])
        assert {version: ids(lake.at(version=version)) for version in before} == before


def test_an_older_snapshot_whose_deletes_are_forgotten_is_an_error(store: Store, engine: Any) -> None:
    with store.open() as lake:
        first, deleted = versions(lake)[-2:]
    with store.connect() as connection:
        connection.execute("DELETE FROM dev.t WHERE id = 8")
    with store.open(engine) as lake:
        assert ids(lake) == [5, 6, 7, 9]
        assert ids(lake.at(version=first)) == list(range(10))
        assert rows(lake.at(version=first), "SELECT count(id) FROM t") == [(10,)]
        for query in (
            lambda: ids(lake.at(version=deleted)),
            lambda: rows(lake.at(version=deleted), "FROM t"),
            lambda: rows(lake, f"FROM t AT (VERSION => {deleted})"),
        ):
            with pytest.raises(UnsupportedError, match=r"forgot which rows|not known which rows"):
                query()
