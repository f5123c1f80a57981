"""The ids of rows are compared, and searched for repeats, in limited memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.commit import position_files
from lakeconf.commit.position_files import have_row_ids, kept_ids, repeated_id
from lakeconf.connection.connection import connect
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.base import ROW_ID

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("ids", "is_same"),
    [
        ([4, 1, 2, 3], True),
        ([1, 2, 3], False),
        ([1, 2, 3, 4, 4], False),
        ([1, 2, 3, 5], False),
        ([1, 1, 4, 4], False),  # the same count, sum of ids and bounds
    ],
)
def test_only_the_same_ids_are_equal(ids: list[int], is_same: bool, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("one.parquet", "day=2/two's.parquet")]
    (tmp_path / "day=2").mkdir()
    with connect() as connection:
        for path, part in zip(files, ([1, 2], [3, 4]), strict=True):
            listed = path.replace("'", "''")
            connection.execute(f"COPY (SELECT unnest({part}) AS {INTERNAL_ROW_ID.name}) TO '{listed}'")
        assert have_row_ids(connection, files, f"SELECT unnest({ids}) AS {ROW_ID}") is is_same


@pytest.mark.parametrize("in_memory", [2_000_000, 100])
def test_repeated_id_is_found(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_files, "IDS_IN_MEMORY", in_memory)
    ids = f"SELECT i AS {ROW_ID}, 'x' AS other FROM range(1000) AS r(i)"
    with connect() as connection:
        assert repeated_id(connection, ids, 1000) is None
        assert repeated_id(connection, f"{ids} UNION ALL SELECT unnest([517, 517]), 'y'", 1002) == (517, 3)
        assert repeated_id(connection, f"{ids} WHERE false", 0) is None
        # The lowest of several, if they are compared at once.
        twice = repeated_id(connection, f"FROM ({ids}) UNION ALL FROM ({ids})", 2000)
        assert twice == (0, 2) if in_memory > 2000 else twice is not None


def test_memory_of_the_search_does_not_grow_with_the_number_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_files, "IDS_IN_MEMORY", 200_000)
    with connect() as connection:
        connection.execute("SET max_temp_directory_size = '0KB'")
        connection.execute("SET memory_limit = '70MB'")
        ids = f"SELECT i * 7 AS {ROW_ID} FROM range(4000000) AS r(i)"
        assert repeated_id(connection, f"{ids} UNION ALL SELECT 7 * 3999999", 4_000_001) == (7 * 3_999_999, 2)


def test_local_file_of_ids_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(position_files, "IDS_IN_MEMORY", 10)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ids = f"SELECT i AS {ROW_ID} FROM range(20) AS r(i)"
    with connect() as connection:
        with kept_ids(connection, ids, 20) as kept:
            assert len(list(tmp_path.iterdir())) == 1
            assert len(connection.rows(f"FROM ({kept})")) == 20
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(ZeroDivisionError), kept_ids(connection, ids, 20):
            raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
