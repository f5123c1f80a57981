"""Files with deleted rows are rewritten in transactions of a limited size; what cannot be replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of
from plain_sql import run_plain

from lakeconf.lake import maintenance, rewriting
from lakeconf.lake.compaction import rewritten_files
from lakeconf.lake.limits import TimeLimit
from lakeconf.lake.rewriting import newest, replacement_refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


ROWS, FILES = 30, 8


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake with eight files in `s.large`, with 3 to 24 of 30 rows deleted, and one in `small`, with 15 deleted."""
    with store_of(tmp_path).open() as opened:
        writer = opened._session.writer
        opened.create_table("s.large", {"id": "INTEGER"})
        opened.create_table("small", {"id": "INTEGER"})
        for number in range(FILES):
            writer.execute(f"INSERT INTO dev.s.large FROM range({number * ROWS}, {(number + 1) * ROWS})")
        writer.execute(f"INSERT INTO dev.small FROM range({ROWS})")
        writer.execute(f"DELETE FROM dev.s.large WHERE id % {ROWS} < 3 * (id // {ROWS} + 1)")
        writer.execute(f"DELETE FROM dev.small WHERE id < {ROWS // 2}")
        writer.execute("CALL dev.set_option('rewrite_delete_threshold', 0.15)")
        opened.refresh()
        yield opened


def ids(lake: Lake, version: int | None = None) -> list[list[int]]:
    at = "" if version is None else f" AT (VERSION => {version})"
    queries = (f"SELECT rowid, id FROM {table}{at} ORDER BY ALL" for table in ("s.large", "small"))
    return [[tuple(map(int, row)) for row in lake.sql(query).collect("pyarrow").rows()] for query in queries]  # type: ignore[misc]


def deleted_shares(lake: Lake) -> list[int]:
    """The numbers of deleted rows of the files of the large table that a rewrite would change."""
    found = [table for table in rewritten_files(lake._session.reader) if table.name == "large"]
    return [round(share * ROWS) for table in found for share, _ in table.files]


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (rewriting.FILES_READ, [[("large", 7), ("small", 1)]]),
        (3, [[("large", 3)], [("large", 3)], [("large", 1)], [("small", 1)], []]),
    ],
)
def test_parts_have_a_limited_number_of_files(
    lake: Lake,
    steps: list[list[tuple[str, int]]],
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    expected: list[list[tuple[str, int]]],
) -> None:
    """Files that are not above the lake's threshold are left."""
    monkeypatch.setattr(rewriting, "FILES_READ", most)
    before, version = ids(lake), lake.snapshot_id
    assert lake.maintenance.rewrite().complete
    assert [sorted(step) for step in steps] == expected
    assert ids(lake) == ids(lake, version) == before
    assert rewritten_files(lake._session.reader) == []


def test_parts_have_a_limited_size(
    lake: Lake, steps: list[list[tuple[str, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = max(size for table in rewritten_files(lake._session.reader) for _, size in table.files)
    monkeypatch.setattr(rewriting, "BYTES_READ", 2.5 * largest)
    lake.maintenance.rewrite()
    assert [step for step in steps if step and step[0][0] == "large"] == [[("large", 2)]] * 3 + [[("large", 1)]]


def test_files_with_most_deleted_rows_come_first_and_the_rest_is_continued(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "FILES_READ", 2)
    before = ids(lake)
    assert deleted_shares(lake) == [24, 21, 18, 15, 12, 9, 6]
    times = iter([0, 0, 1])
    rewriting.rewrite_files(lake._session, TimeLimit(1, lambda: next(times, 1)))
    assert deleted_shares(lake) == [12, 9, 6]
    assert lake.maintenance.rewrite().complete
    assert deleted_shares(lake) == []
    assert ids(lake) == before


def test_files_with_the_same_share_are_in_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "FILES_READ", 2)
    files = [(0.9, 1), (0.5, 1), (0.5, 1), (0.5, 1), (0.2, 1), (0.1, 1), (0.05, 1)]
    assert list(rewriting._parts(files)) == [0.5, 0.1, 0.05]
    assert list(rewriting._parts([])) == []


def test_shares_are_not_rounded(
    lake: Lake, steps: list[list[tuple[str, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share such as 4/11 has no exact decimal number."""
    monkeypatch.setattr(rewriting, "FILES_READ", 0)
    writer = lake._session.writer
    writer.execute("CREATE TABLE dev.parts (id INTEGER)")
    for rows, deleted in ((11, 4), (11, 10), (13, 2), (13, 6)):
        writer.execute(f"INSERT INTO dev.parts FROM range({rows})")
        writer.execute(f"DELETE FROM dev.parts WHERE id < {deleted}")
        lake.refresh()
        steps.clear()
        lake.maintenance.rewrite()
        assert steps.index([("parts", 1)]) < len(steps) - 1, "the last step would rewrite it, too"
        assert rewritten_files(lake._session.reader) == []


def refusal(lake: Lake, name: str = "t", *, encrypted: bool = False) -> str | None:
    session = lake._session
    return replacement_refusal(session, newest(session, name), session.snapshot_id, encrypted=encrypted)


def test_tables_whose_ids_cannot_be_kept_are_refused(two_tables: Lake) -> None:
    lake = two_tables
    assert refusal(lake) is None
    assert refusal(lake, encrypted=True) == "the files are encrypted"
    run_plain(lake, "CREATE TABLE hides (rowid BIGINT)")
    assert refusal(lake, "hides") == "a column hides the row ids"
    lake._session.committer = "staged"
    assert refusal(lake) is None
    lake._session.committer = "public"
    assert refusal(lake) == "the store's committer is public, which cannot register row ids"


def versions(lake: Lake) -> list[list[int]]:
    newest = lake.refresh()
    queries = (f"SELECT id FROM dev.t AT (VERSION => {version}) ORDER BY id" for version in range(2, newest + 1))
    return [[row[0] for row in lake._session.writer.rows(query)] for query in queries]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("step", ["rewrite", "merge"])
def test_deletes_in_the_catalog_do_not_outlive_their_file(
    tmp_path: Path, step: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush would write them as deletes of a file that is gone: older snapshots had other rows, and the feed none."""
    with store_of(tmp_path, data_inlining_row_limit=8).open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
        inserts = [f"INSERT INTO t SELECT i FROM range({start}, {start + 20}) AS r(i)" for start in (0, 20)]
        run_plain(lake, *inserts)
        last = 19 if step == "rewrite" else 8
        deletes = [f"DELETE FROM t WHERE id BETWEEN {start} AND {min(start + 6, last)}" for start in range(5, last, 7)]

        def late(session: Any, limit: Any) -> None:
            flush(session, limit)
            run_plain(lake, *deletes)

        flush = rewriting.flush_lake
        run_plain(lake, "DELETE FROM t WHERE id < 5" if step == "rewrite" else "DELETE FROM t WHERE id < 0")
        if when == "before":
            run_plain(lake, *deletes)
        else:
            monkeypatch.setattr(maintenance, "flush_lake", late)
        before = versions(lake) if when == "before" else None
        compact = lake.maintenance.rewrite if step == "rewrite" else lake.maintenance.compact
        compact()
        monkeypatch.undo()
        before = versions(lake) if before is None else before
        run_plain(lake, "DELETE FROM t WHERE id = 39")
        lake.refresh()
        lake.maintenance.compact()
        assert versions(lake)[: len(before)] == before
        lake.table("t").changes(2).collect("pyarrow")
