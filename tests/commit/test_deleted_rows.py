"""The rows that a staged commit deletes: found by their ids in batches of files, each once, or nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.catalog.scan import plan_scan
from lakeconf.catalog.table import load_table
from lakeconf.commit import deletions, position_files
from lakeconf.commit.deletions import delete_rows
from lakeconf.commit.position_files import SortedPositions, found_positions, live_files
from lakeconf.engines.base import FILE_ID, FILE_ROW_NUMBER, ROW_ID
from lakeconf.errors import CommitConflictError

if TYPE_CHECKING:
    from catalog_lake import Lake

    from lakeconf.commit.position_files import DeletedPositions


def batches_of(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Divides the files of a table if more rows than these are deleted."""
    monkeypatch.setattr(deletions, "ROWS_PER_STATEMENT", rows)
    for module in (deletions, position_files):
        monkeypatch.setattr(module, "IDS_IN_MEMORY", rows)


def deleted(lake: Lake, ids: str, count: int, folder: str = "new") -> DeletedPositions:
    info = load_table(lake.reader, "t", lake.newest)
    arguments = (f"SELECT x AS {ROW_ID} FROM ({ids})", count, lake.newest, f"{lake.folder}/{folder}/")
    return delete_rows(lake.reader, lake.connection, info, *arguments)


def positions(lake: Lake, found: DeletedPositions) -> set[tuple[object, ...]]:
    rows: set[tuple[object, ...]] = set(found.inlined)
    for file in found.files:
        here = lake.rows(f"SELECT * FROM '{file.path}'")
        assert len(here) == file.row_count
        rows |= {(*row, file.data_file_id, file.earlier) for row in here}
    return rows


def mixed(lake: Lake) -> None:
    """Five files, one with earlier deletes, one with row ids of its own, and rows in the catalog."""
    lake.run("CREATE TABLE lake.t (i BIGINT)")
    for start in range(0, 500, 100):
        lake.run(f"INSERT INTO lake.t SELECT * FROM range({start}, {start + 100})")
    lake.run("DELETE FROM lake.t WHERE i IN (107, 108)", "UPDATE lake.t SET i = i + 1000 WHERE i BETWEEN 200 AND 260")
    lake.run("INSERT INTO lake.t VALUES (501), (502)")


IDS = "SELECT rowid AS x FROM lake.t WHERE rowid % 3 = 0"


def test_batches_find_the_rows_that_one_search_finds(usual: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed(usual)
    ((count,),) = usual.rows(f"SELECT count(*) FROM ({IDS})")
    expected = positions(usual, deleted(usual, IDS, count))
    assert len(expected) > count
    batches_of(monkeypatch, 90)
    assert positions(usual, deleted(usual, IDS, count, "batches")) == expected


def found_by_executors(lake: Lake, ids: str) -> SortedPositions:
    """The positions of the rows that are in files."""
    rows = f"SELECT filename, file_row_number AS {FILE_ROW_NUMBER} FROM lake.t WHERE rowid IN ({ids}) ORDER BY ALL"
    files = plan_scan(lake.reader, "t", lake.newest, ()).files
    paths = {}
    for file in files:
        paths[file.data_file_id] = f"{lake.folder}/found{file.data_file_id}.parquet"
        of_file = f"SELECT {FILE_ROW_NUMBER} FROM ({rows}) WHERE filename = '{file.path}'"
        lake.run(f"COPY ({of_file}) TO '{paths[file.data_file_id]}' (FORMAT parquet)")
    found = found_positions(lake.connection, files, paths)
    assert found is not None
    counts = {number: count for number, count in found.counts.items() if count}
    return SortedPositions(files, paths, counts)


def with_files(lake: Lake, ids: str) -> str:
    """The ids as an outcome has them; the rows of files have the id of some file."""
    of_file = f"CASE WHEN filename NOT LIKE 'ducklake_inlined%' THEN 0 END AS {FILE_ID}"
    return f"SELECT rowid AS {ROW_ID}, {of_file} FROM lake.t WHERE rowid IN ({ids})"


@pytest.mark.parametrize("where", ["true", "i < 1000 AND i NOT IN (501, 502)", "i IN (501, 502)"])
@pytest.mark.parametrize("compacted", [False, True])
def test_positions_of_executors_stand_for_the_rows_in_files(
    usual: Lake, monkeypatch: pytest.MonkeyPatch, where: str, *, compacted: bool
) -> None:
    mixed(usual)
    ids = f"SELECT rowid FROM lake.t WHERE rowid % 3 = 0 AND ({where})"
    ((count,),) = usual.rows(f"SELECT count(*) FROM ({ids})")
    found = found_by_executors(usual, ids)
    searched, written = list[int](), deletions._written

    def counted(*arguments: Any) -> DeletedPositions:
        searched.append(arguments[4])
        return written(*arguments)

    if compacted:
        usual.run("CALL ducklake_merge_adjacent_files('lake')")
    listed = usual.rows(ids)
    expected = positions(usual, deleted(usual, f"SELECT unnest({[row_id for (row_id,) in listed]}) AS x", count, "ids"))
    monkeypatch.setattr(deletions, "_written", counted)
    info = load_table(usual.reader, "t", usual.newest)
    arguments = (with_files(usual, ids), count, usual.newest, f"{usual.folder}/new/", found)
    assert positions(usual, delete_rows(usual.reader, usual.connection, info, *arguments)) == expected
    outdated = compacted and not found.are_of(live_files(usual.reader, info, usual.newest))
    left = count - sum(found.counts.values())
    assert searched == ([count] if outdated else [left] if left else [])


def test_rows_of_another_schema_are_found(usual: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    usual.run("CREATE TABLE lake.t (i BIGINT)", "CREATE SCHEMA lake.s")
    usual.run("CREATE TABLE lake.s.t AS SELECT i FROM range(30) AS r(i)", "INSERT INTO lake.s.t VALUES (30), (31)")
    batches_of(monkeypatch, 3)
    info = load_table(usual.reader, "s.t", usual.newest)
    ids = f"SELECT x AS {ROW_ID} FROM (VALUES (1), (2), (5), (7), (30), (31)) AS v(x)"
    found = delete_rows(usual.reader, usual.connection, info, ids, 6, usual.newest, f"{usual.folder}/new/")
    assert [file.row_count for file in found.files] == [4]
    assert [row_id for _, row_id in found.inlined] == [30, 31]


@pytest.mark.parametrize("rows", [2_000_000, 90])
def test_rows_that_do_not_exist_are_a_conflict(usual: Lake, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    mixed(usual)
    batches_of(monkeypatch, rows)
    ((count,),) = usual.rows(f"SELECT count(*) FROM ({IDS})")
    with pytest.raises(
        CommitConflictError, match=f"expected to change {count + 1} rows .* but found {count}:"
    ) as raised:
        deleted(usual, f"{IDS} UNION ALL SELECT 107", count + 1)
    assert raised.value.hint == "call lake.refresh() and try again"


@pytest.mark.parametrize("rows", [2_000_000, 90])
def test_row_in_two_files_does_not_stand_for_a_missing_one(
    usual: Lake, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """The catalog gives two files the same row ids: the number of the rows that are found is the expected one."""
    mixed(usual)
    batches_of(monkeypatch, rows)
    usual.metadata("UPDATE ducklake_data_file SET row_id_start = 0 WHERE row_id_start = 300")
    ids = "SELECT * FROM range(100) AS r(x) UNION ALL SELECT * FROM range(300, 400)"
    with pytest.raises(CommitConflictError, match="expected to change 200 rows"):
        deleted(usual, ids, 200)


def test_memory_does_not_grow_with_the_number_of_deleted_rows(usual: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    usual.run("CREATE TABLE lake.t (i BIGINT)")
    for start in range(0, 3_000_000, 100_000):
        usual.run(f"INSERT INTO lake.t SELECT * FROM range({start}, {start + 100_000})")
    batches_of(monkeypatch, 100_000)
    usual.run("SET max_temp_directory_size = '0KB'", "SET memory_limit = '80MB'")
    found = deleted(usual, "SELECT * FROM range(3000000) AS r(x)", 3_000_000)
    usual.run("RESET memory_limit")
    assert [file.row_count for file in found.files] == [100_000] * 30
