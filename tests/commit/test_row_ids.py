"""The ids of rows are compared, and searched for repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.commit.deletions import have_row_ids, repeated_id
from lakeconf.connection.connection import connect
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.engine import ROW_ID

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


def test_repeated_id_is_found() -> None:
    ids = f"SELECT i AS {ROW_ID}, 'x' AS other FROM range(1000) AS r(i)"
    with connect() as connection:
        assert repeated_id(connection, ids) is None
        assert repeated_id(connection, f"{ids} UNION ALL SELECT unnest([517, 517]), 'y'") == (517, 3)
        assert repeated_id(connection, f"{ids} WHERE false") is None
        assert repeated_id(connection, f"FROM ({ids}) UNION ALL FROM ({ids})") == (0, 2)  # the lowest of several
