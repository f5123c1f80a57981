"""Small files are merged in transactions of a limited size, and a compaction that stops can be continued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

from lakeconf.commit.maintenance_commit import run_step
from lakeconf.lake import merging

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake, Store

READ = 10


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake with 120 files of one row in `large`, 6 partitions of 3 files in `parts`, and 2 files in `little`."""
    monkeypatch.setattr(merging, "FILES_READ", READ)
    with store_of(tmp_path).open() as opened:
        for name in ("little", "large", "parts"):
            keys = ["part"] if name == "parts" else []
            opened.create_table(name, {"id": "INTEGER", "part": "INTEGER"}, partitioned_by=keys)
        for name, count in (("little", 2), ("large", 120), ("parts", 3)):
            for number in range(count):
                values = "i, i FROM range(6) AS r(i)" if name == "parts" else f"{number}, 0"
                opened._session.writer.execute(f"INSERT INTO dev.{name} SELECT {values}")
        opened.refresh()
        yield opened


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """The table, and the numbers of files read and written, of each transaction that has merged files."""
    done: list[tuple[str, int, int]] = []

    def spied(*given: Any) -> list[tuple[Any, ...]]:
        rows = run_step(*given)
        done.extend((table, read, written) for _, table, read, written in rows)
        return rows

    monkeypatch.setattr(merging, "run_step", spied)
    return done


def rows(lake: Lake, version: int | None = None) -> list[tuple[Any, ...]]:
    at = "" if version is None else f" AT (VERSION => {version})"
    parts = (f"SELECT '{name}', rowid, * FROM {name}{at}" for name in ("little", "large", "parts"))
    native: Any = lake.sql(" UNION ALL ".join(parts), engine="duckdb").to_native()
    return sorted(native.fetchall())


def files(lake: Lake) -> dict[str, int]:
    return {name: len(lake.table(name).files()) for name in ("little", "large", "parts")}


def test_transactions_are_limited_and_the_table_with_most_files_comes_first(
    lake: Lake, steps: list[tuple[str, int, int]]
) -> None:
    before, version = rows(lake), lake.snapshot_id
    assert lake.maintenance.compact().complete
    assert files(lake) == {"little": 1, "large": 1, "parts": 6}
    assert [table for table, *_ in steps[:12]] == ["large"] * 12
    assert list(dict.fromkeys(table for table, *_ in steps)) == ["large", "parts", "little"]
    # Files differ by some bytes.
    assert max(read for _, read, _ in steps) <= 1.5 * READ
    assert rows(lake) == rows(lake, version) == before


def test_interrupted_merge_keeps_what_it_has_committed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before, left = rows(lake), [5]

    def interrupted(*given: Any) -> list[tuple[Any, ...]]:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return run_step(*given)

    with monkeypatch.context() as patch:
        patch.setattr(merging, "run_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lake.maintenance.compact()
    lake.refresh()
    assert 60 < files(lake)["large"] < 80
    assert rows(lake) == before
    assert lake._session.writer.rows("SELECT system.main.current_setting('ducklake_target_file_size')") == [(None,)]
    lake.maintenance.compact()
    assert files(lake) == {"little": 1, "large": 1, "parts": 6}
    assert rows(lake) == before


def test_ducklake_gives_updated_rows_new_ids(store: Store) -> None:
    """docs/guarantees.md says so. If this fails, DuckLake keeps the ids, and the page should say that."""
    with store.open() as lake:
        table = lake.create_table("t", {"id": "BIGINT", "v": "VARCHAR"})
        table.append(lake.sql("SELECT range AS id, 'a' AS v FROM range(1000)", engine="duckdb"))
        table.update({"v": "b"}, where="id < 300")
        table.update({"v": "c"}, where="id >= 300 AND id < 600")
        last, ids = lake.snapshot_id, "SELECT id, rowid, v FROM t ORDER BY id"
        before = lake.sql(ids, engine="duckdb").to_native().fetchall()
        lake.maintenance.compact()
        after = lake.sql(ids, engine="duckdb").to_native().fetchall()
        assert [(one[0], one[2]) for one in before] == [(one[0], one[2]) for one in after]
        assert sum(one[1] != other[1] for one, other in zip(before, after, strict=True)) == 600
        kinds = lake.sql(
            f"SELECT DISTINCT change_type FROM dev.table_changes('t', {last - 1}, {last}) ORDER BY ALL", engine="duckdb"
        )
        assert kinds.to_native().fetchall() == [("delete",), ("insert",)]
