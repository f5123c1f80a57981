"""The rows that a staged commit deletes: found by their ids in batches of files, each once, or nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.table import load_table
from lakeconf.commit import deleted_rows, position_delete, row_ids
from lakeconf.commit.deleted_rows import delete_rows
from lakeconf.engines.base import ROW_ID
from lakeconf.errors import CommitConflictError

if TYPE_CHECKING:
    from catalog_lake import Lake

    from lakeconf.commit.position_files import DeletedPositions


def batches_of(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Divides the files of a table if more rows than these are deleted."""
    monkeypatch.setattr(position_delete, "ROWS_PER_STATEMENT", rows)
    for module in (deleted_rows, row_ids):
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


@pytest.mark.parametrize("rows", [2_000_000, 90])
def test_rows_that_do_not_exist_are_a_conflict(usual: Lake, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    mixed(usual)
    batches_of(monkeypatch, rows)
    ((count,),) = usual.rows(f"SELECT count(*) FROM ({IDS})")
    with pytest.raises(CommitConflictError, match=f"expected to change {count + 1} rows .* but found {count}:"):
        deleted(usual, f"{IDS} UNION ALL SELECT 107", count + 1)


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
