"""A delete drops only files of which it deletes every row, and searches the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from local_stores import store_of
from plain_sql import run_plain

from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.table import load_table
from lakeconf.catalog.where import predicate_of
from lakeconf.commit.deletions import divided_files, plan_delete

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake with the table `t`: a file of the ids 0 to 9, and one of the ids 10 to 19."""
    with store_of(tmp_path, data_inlining_row_limit=0).open() as opened:
        run_plain(
            opened,
            "CREATE TABLE t (id BIGINT, s VARCHAR)",
            "INSERT INTO t SELECT i, 's' FROM range(10) AS r(i)",
            "INSERT INTO t SELECT i, NULL FROM range(10, 20) AS r(i)",
        )
        opened.refresh()
        yield opened


def divided(lake: Lake, where: str | None) -> tuple[list[int], list[int]] | None:
    """The first row ids of the dropped and of the searched files."""
    reader = lake._session.reader
    newest = latest(reader).snapshot_id
    predicate = None if where is None else predicate_of(where, load_table(reader, "t", newest).columns)
    plan, known = plan_delete(reader, '"main"."t"', predicate, newest)
    files = divided_files(plan, known.covered, reader.data_path)
    if files is None:
        return None
    dropped, searched = ([file.row_id_start or 0 for file in part] for part in files)
    return dropped, searched


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, ([0, 10], [])),
        ("id >= 10", ([10], [])),
        ("id < 10 OR s IS NULL", ([0, 10], [])),
        ("s IS NOT NULL", ([0], [])),
        ("id >= 9", ([10], [0])),  # one row of the first file too
        ("id >= 10 AND id % 2 >= 0", ([], [10])),  # no statistics prove it
        ("id > 99", ([], [])),  # no file
    ],
)
def test_files_of_a_condition(lake: Lake, where: str | None, expected: tuple[list[int], list[int]]) -> None:
    assert divided(lake, where) == expected


def test_files_with_deleted_rows_are_dropped(lake: Lake) -> None:
    run_plain(lake, "DELETE FROM t WHERE id IN (3, 12)")
    assert divided(lake, None) == ([0, 10], [])
    assert divided(lake, "id < 10") == ([0], [])


def test_a_file_with_deletes_in_the_catalog_is_not_dropped(lake: Lake) -> None:
    """DuckLake's change feed would return the deleted rows a second time."""
    run_plain(lake, "CALL dev.set_option('data_inlining_row_limit', 10, table_name => 't')")
    run_plain(lake, "DELETE FROM t WHERE id = 12")
    assert divided(lake, None) is None
    assert divided(lake, "id < 10") == ([0], [])
    assert divided(lake, "id < 11") == ([0], [10])


def test_files_without_rows_are_not_dropped(lake: Lake) -> None:
    """DuckDB's DELETE makes no snapshot either."""
    run_plain(lake, "DELETE FROM t WHERE id < 9", "DELETE FROM t WHERE id = 9")
    assert divided(lake, "id < 10") == ([], [])
    assert divided(lake, "id >= 10") == ([10], [])
    assert divided(lake, None) == ([10], [])


def test_a_file_outside_the_data_path_is_not_dropped(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "added.parquet"
    run_plain(lake, f"COPY (SELECT 50::BIGINT AS id, 's' AS s) TO '{path}'")
    run_plain(lake, f"CALL ducklake_add_data_files('dev', 't', '{path}')")
    assert divided(lake, None) == ([0, 10], [20])


def test_a_file_that_is_registered_twice_is_left_to_statements(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "data" / "main" / "t" / "added.parquet"
    run_plain(lake, f"COPY (SELECT 50::BIGINT AS id, 's' AS s) TO '{path}'")
    for _ in range(2):
        run_plain(lake, f"CALL ducklake_add_data_files('dev', 't', '{path}')")
    assert divided(lake, None) is None
    assert divided(lake, "id < 10") == ([0], [])


def test_files_with_rows_of_later_snapshots_are_left_to_statements(lake: Lake) -> None:
    before = lake.snapshot_id
    run_plain(lake, "CALL ducklake_merge_adjacent_files('dev', 't')")
    plan, known = plan_delete(lake._session.reader, '"main"."t"', None, before - 1)
    assert [file.snapshot_filter for file in plan.files] == [before - 1]
    assert divided_files(plan, known.covered, lake._session.reader.data_path) is None


def test_deletes_that_a_file_of_positions_cannot_contain_are_left_to_statements(lake: Lake) -> None:
    run_plain(lake, "DELETE FROM t WHERE id = 3")
    plan, known = plan_delete(lake._session.reader, '"main"."t"', None)
    (deleted, other), data_path = plan.files, lake._session.reader.data_path
    assert deleted.delete_file is not None
    vectors = replace(deleted, inlined_deletes=(1,), delete_file=replace(deleted.delete_file, format="puffin"))
    for file in (vectors, replace(other, inlined_deletes=(1,), encryption_key="c2VjcmV0")):
        assert divided_files(replace(plan, files=(file,)), known.covered, data_path) is None
