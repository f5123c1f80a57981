"""Whole files are dropped only if they have all rows that satisfy the condition, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from local_stores import store_of
from plain_sql import run_plain

from lakeconf.catalog.predicate.where import predicate_of
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.table import load_table
from lakeconf.commit.dropped_files import FileDrop

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


def rows_dropped(lake: Lake, where: str | None) -> list[int] | None:
    """The first row ids of the files; None if there is none to drop."""
    reader = lake._session.reader
    newest = latest(reader).snapshot_id
    columns = load_table(reader, "t", newest).columns
    drop = FileDrop('"main"."t"', None if where is None else predicate_of(where, columns))
    files = drop.files(reader, newest)
    return None if files is None else [file.row_id_start or 0 for file in files]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, [0, 10]),
        ("id >= 10", [10]),
        ("id < 10 OR s IS NULL", [0, 10]),
        ("s IS NOT NULL", [0]),
        ("id >= 9", None),  # one row of the first file too
        ("id >= 10 AND id % 2 >= 0", None),  # no statistics prove it
        ("id > 99", None),  # no file
    ],
)
def test_files_of_a_condition(lake: Lake, where: str | None, expected: list[int] | None) -> None:
    assert rows_dropped(lake, where) == expected


def test_files_with_deleted_rows_are_dropped(lake: Lake) -> None:
    run_plain(lake, "DELETE FROM t WHERE id IN (3, 12)")
    assert rows_dropped(lake, None) == [0, 10]
    assert rows_dropped(lake, "id < 10") == [0]


def test_rows_in_the_catalog_are_not_those_of_a_file(lake: Lake) -> None:
    run_plain(lake, "CALL dev.set_option('data_inlining_row_limit', 10, table_name => 't')")
    run_plain(lake, "INSERT INTO t VALUES (99, 'in the catalog')")
    assert rows_dropped(lake, None) is None
    assert rows_dropped(lake, "id < 10") is None
    run_plain(lake, "DELETE FROM t WHERE id = 99")
    assert rows_dropped(lake, "id < 10") == [0]


def test_a_file_with_deletes_in_the_catalog_is_not_dropped(lake: Lake) -> None:
    """DuckLake's change feed would return the deleted rows a second time."""
    run_plain(lake, "CALL dev.set_option('data_inlining_row_limit', 10, table_name => 't')")
    run_plain(lake, "DELETE FROM t WHERE id = 12")
    assert rows_dropped(lake, None) is None
    assert rows_dropped(lake, "id < 10") == [0]


def test_files_without_rows_are_not_dropped(lake: Lake) -> None:
    """DuckDB's DELETE makes no snapshot either."""
    run_plain(lake, "DELETE FROM t WHERE id < 9", "DELETE FROM t WHERE id = 9")
    assert rows_dropped(lake, "id < 10") is None
    assert rows_dropped(lake, "id >= 10") == [10]


def test_a_file_outside_the_data_path_is_not_dropped(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "added.parquet"
    run_plain(lake, f"COPY (SELECT 50::BIGINT AS id, 's' AS s) TO '{path}'")
    run_plain(lake, f"CALL ducklake_add_data_files('dev', 't', '{path}')")
    assert rows_dropped(lake, None) is None
    assert rows_dropped(lake, "id < 10") == [0]


def test_a_file_that_is_registered_twice_is_not_dropped(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "data" / "main" / "t" / "added.parquet"
    run_plain(lake, f"COPY (SELECT 50::BIGINT AS id, 's' AS s) TO '{path}'")
    for _ in range(2):
        run_plain(lake, f"CALL ducklake_add_data_files('dev', 't', '{path}')")
    assert rows_dropped(lake, None) is None
    assert rows_dropped(lake, "id < 10") == [0]
