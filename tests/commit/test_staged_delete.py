"""A staged delete finds exactly the rows that satisfy its condition at a snapshot, wherever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.scan import plan_scan
from lakeconf.catalog.table import load_table
from lakeconf.catalog.where import predicate_of
from lakeconf.commit import deletions
from lakeconf.commit.deletions import StagedDelete, StatementsNeeded
from lakeconf.commit.position_files import SortedPositions
from lakeconf.engines.base import FILE_ROW_NUMBER

if TYPE_CHECKING:
    from catalog_lake import Lake


@pytest.fixture
def lake(usual: Lake) -> Lake:
    """A table of three files with 20 rows each, with deletes in a file and in the catalog, and rows in the catalog."""
    usual.run("CREATE TABLE lake.t (i BIGINT)")
    for start in range(0, 60, 20):
        usual.run(f"INSERT INTO lake.t SELECT * FROM range({start}, {start + 20})")
    usual.run("CALL lake.set_option('data_inlining_row_limit', 0)", "DELETE FROM lake.t WHERE i IN (21, 22)")
    usual.run("CALL lake.set_option('data_inlining_row_limit', 10)", "DELETE FROM lake.t WHERE i IN (41, 42)")
    usual.run("INSERT INTO lake.t VALUES (101), (102), (103)")
    return usual


def deletion(lake: Lake, where: str | None, **attributes: object) -> StagedDelete:
    info = load_table(lake.reader, "t", lake.newest)
    predicate = None if where is None else predicate_of(where, info.columns)
    values: dict[str, object] = {"folder": f"{lake.folder}/new/", **attributes}
    return StagedDelete(info, predicate, where or "true", **values)  # type: ignore[arg-type]


def deleted(lake: Lake, where: str | None, **attributes: object) -> list[int]:
    """The values of the rows that the delete finds, sorted; those of dropped files too."""
    files, others = deletion(lake, where, **attributes).rows(lake.reader, lake.connection, lake.newest)
    listed = [f"filename = '{file.path}'" for file in files]
    for file in others.files:
        rows = lake.rows(f"SELECT pos FROM '{file.path}'")
        assert len(rows) == file.row_count
        listed.append(
            f"filename = '{file.data_file}' AND file_row_number IN ({', '.join(str(row[0]) for row in rows)})"
        )
    listed += [f"filename = '{name}' AND rowid = {row_id}" for name, row_id in others.inlined]
    return [value for (value,) in lake.rows(f"SELECT i FROM lake.t WHERE {' OR '.join(listed)} ORDER BY i")]


CONDITIONS = ["i % 3 = 0", "i < 45 AND i % 2 >= 0", "i < 25 OR i = 102", "i > 100", "i IN (40, 43)", "i < 20"]


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("most", [500_000, 5, 25])
def test_rows_of_a_condition(lake: Lake, monkeypatch: pytest.MonkeyPatch, where: str | None, most: int) -> None:
    monkeypatch.setattr(deletions, "SORTED_IN_MEMORY", most)
    expected = lake.rows(f"SELECT i FROM lake.t WHERE {where or 'true'} ORDER BY i")
    assert deleted(lake, where) == [value for (value,) in expected]


@pytest.mark.parametrize("most", [500_000, 15])
def test_tables_of_another_schema(lake: Lake, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(deletions, "SORTED_IN_MEMORY", most)
    lake.run("CREATE SCHEMA lake.s", "CREATE TABLE lake.s.t (i BIGINT)", "INSERT INTO lake.s.t FROM range(100, 120)")
    info = load_table(lake.reader, "s.t", lake.newest)
    delete = StagedDelete(info, predicate_of("i % 5 = 0", info.columns), "i % 5 = 0", f"{lake.folder}/new/")
    dropped, found = delete.rows(lake.reader, lake.connection, lake.newest)
    assert (dropped, found.inlined) == ((), ())
    assert [lake.rows(f"SELECT pos FROM '{file.path}'") for file in found.files] == [[(0,), (5,), (10,), (15,)]]


def test_positions_of_executors_are_used_for_unchanged_files(lake: Lake) -> None:
    files = plan_scan(lake.reader, "t", lake.newest, ()).files
    path = f"{lake.folder}/positions.parquet"
    lake.run(f"COPY (SELECT 3::BIGINT AS {FILE_ROW_NUMBER}) TO '{path}' (FORMAT parquet)")
    first = files[0].data_file_id
    # Not the rows that satisfy the condition, so that the test shows who has found them.
    found = SortedPositions(files[:2], {first: path}, {first: 1})
    assert deleted(lake, "i % 7 = 0", found=found) == [3, 49, 56]
    lake.run("CALL lake.set_option('data_inlining_row_limit', 0)", "DELETE FROM lake.t WHERE i = 14")
    assert deleted(lake, "i % 7 = 0", found=found) == [0, 7, 49, 56]


@pytest.mark.parametrize("where", ["i = 5", "i > 100", "i % 2 = 0"])
def test_other_rows_than_those_of_whole_files_need_a_folder(lake: Lake, where: str) -> None:
    with pytest.raises(StatementsNeeded):
        deleted(lake, where, folder="")
    lake.run("DELETE FROM lake.t WHERE i > 100")
    assert deleted(lake, "i < 20", folder="") == list(range(20))


@pytest.mark.parametrize("where", [None, "i >= 40"])
def test_all_rows_of_a_file_with_deletes_in_the_catalog_need_statements(lake: Lake, where: str | None) -> None:
    """DuckLake's change feed would be wrong for them."""
    with pytest.raises(StatementsNeeded):
        deleted(lake, where)


def test_without_rows_there_is_nothing_to_commit(lake: Lake) -> None:
    with pytest.raises(StatementsNeeded):
        deleted(lake, "i = 21")
    with pytest.raises(StatementsNeeded):
        deleted(lake, "i > 999")
