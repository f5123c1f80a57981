"""Tables with a column that has the name of one of DuckLake's virtual columns: a change changes its own rows only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from local_stores import on_catalog, store_of

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakeconf import Lake


def frame_with(name: str) -> pa.Table:
    return pa.table({"id": pa.array(range(6), pa.int32()), name: pa.array([7] * 6, pa.int64())})


@pytest.mark.parametrize("name", ["rowid", "ROWID", "filename", "snapshot_id"])
@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgres"])
def test_rows_in_the_catalog_are_changed_alone(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, name: str
) -> None:
    """In SQLite, DuckLake would delete all rows with the same value in a column `rowid`."""
    frame = frame_with(name)
    with store_of(tmp_path, on_catalog(request, tmp_path, kind), data_inlining_row_limit=30).open() as lake:
        table = lake.create_table("t", frame)
        table.append(frame)
        if kind == "sqlite" and name.lower() == "rowid":
            check_errors(lake, frame)
            # What the hint says.
            lake.maintenance.compact()
            assert ids(lake) == list(range(6))
        table.delete("id = 1")
        assert ids(lake) == [0, 2, 3, 4, 5]
        lake.execute(f'UPDATE t SET id = 10, "{name}" = "{name}" + 1 WHERE id = 5')
        assert ids(lake) == [0, 2, 3, 4, 10]


def check_errors(lake: Lake, frame: pa.Table) -> None:
    table = lake.table("t")
    changes: list[Callable[[], object]] = [
        lambda: table.delete("id = 1"),
        lambda: table.update({"id": 50}, where="id = 1"),
        lambda: table.overwrite(frame),
        lambda: lake.execute("DELETE FROM t WHERE id = 1"),
    ]
    for change in changes:
        with pytest.raises(UnsupportedError, match="a column named rowid") as error:
            change()
        assert "lake.maintenance.compact()" in (error.value.hint or "")
        assert ids(lake) == list(range(6))


def ids(lake: Lake) -> list[int]:
    found: list[int] = lake.table("t").to_arrow()["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("name", ["rowid", "filename"])
def test_a_change_of_rows_that_its_transaction_may_have_added_names_the_column(tmp_path: Path, name: str) -> None:
    frame = frame_with(name)
    with store_of(tmp_path, data_inlining_row_limit=0).open() as lake:
        lake.create_table("t", frame).append(frame)

        def changed() -> None:
            with lake.transaction() as tx:
                tx.table("t").append(frame)
                tx.table("t").delete("id = 1")

        with pytest.raises(UnsupportedError, match="a column named rowid or filename hides which") as error:
            changed()
        assert error.value.hint == "commit before this change, or rename the column: table.evolve(rename={…: …})"
        assert ids(lake) == list(range(6))
