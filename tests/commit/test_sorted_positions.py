"""Positions that executors found are used while their data files and deletes are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.scan import plan_scan
from lakeconf.catalog.table import load_table
from lakeconf.commit.position_files import SortedPositions, found_positions, live_files
from lakeconf.engines.base import FILE_ROW_NUMBER

if TYPE_CHECKING:
    from catalog_lake import Lake

    from lakeconf.commit.position_files import LiveFiles


@pytest.fixture
def lake(usual: Lake) -> Lake:
    usual.run("CALL lake.set_option('data_inlining_row_limit', 0)")
    usual.run("CREATE TABLE lake.t AS SELECT i FROM range(20) AS r(i)", "INSERT INTO lake.t FROM range(20, 40)")
    return usual


def live(lake: Lake) -> LiveFiles:
    return live_files(lake.reader, load_table(lake.reader, "t", lake.newest), lake.newest)


def found(lake: Lake, *positions: int) -> SortedPositions | None:
    """The positions in the first file of the table."""
    files = plan_scan(lake.reader, "t", lake.newest, ()).files
    path = f"{lake.folder}/positions.parquet"
    listed = ", ".join(f"({position}::BIGINT)" for position in positions)
    lake.run(f"COPY (FROM (VALUES {listed}) AS v({FILE_ROW_NUMBER})) TO '{path}' (FORMAT parquet)")
    return found_positions(lake.connection, files, {files[0].data_file_id: path})


def test_positions_are_written_for_their_file(lake: Lake) -> None:
    positions = found(lake, 3, 5)
    assert positions is not None
    (number,) = positions.counts
    (file,) = positions.write(lake.connection, live(lake), [number], f"{lake.folder}/new/")
    assert lake.rows(f"FROM '{file.path}'") == [(positions.data_files[0].path, 3), (positions.data_files[0].path, 5)]
    assert (file.data_file_id, file.row_count, positions.counts) == (number, 2, {number: 2})
    assert positions.write(lake.connection, live(lake), [], f"{lake.folder}/new/") == []


@pytest.mark.parametrize("positions", [(3, 3), (5, 3)])
def test_repeated_or_unsorted_positions_are_refused(lake: Lake, positions: tuple[int, ...]) -> None:
    assert found(lake, *positions) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["DELETE FROM lake.t WHERE i = 30"], True),  # in the other file
        (["INSERT INTO lake.t VALUES (99)"], True),
        (["DELETE FROM lake.t WHERE i = 9"], False),
        (["CALL ducklake_merge_adjacent_files('lake')"], False),
        (["DELETE FROM lake.t"], False),
    ],
)
def test_changed_files_make_positions_outdated(lake: Lake, changes: list[str], *, expected: bool) -> None:
    positions = found(lake, 3)
    assert positions is not None
    assert positions.are_of(live(lake))
    lake.run(*changes)
    assert positions.are_of(live(lake)) == expected


def test_a_replaced_delete_file_makes_positions_outdated(lake: Lake) -> None:
    lake.run("DELETE FROM lake.t WHERE i = 9")
    positions = found(lake, 3)
    assert positions is not None
    assert positions.are_of(live(lake))
    lake.run("DELETE FROM lake.t WHERE i = 10")
    assert not positions.are_of(live(lake))
