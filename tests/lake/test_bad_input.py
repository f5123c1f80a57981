"""Invalid frames, on both engines: each raises one clear error, and nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lake_parts import data_path_of
from local_stores import store_of

from lakeconf.errors import LakeconfError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake

GOOD = pa.table({"id": [1], "name": ["a"], "amount": pa.array([1.5], pa.float64())})
OPERATIONS = ("append", "overwrite", "merge")
FRAMES: list[tuple[pa.Table, str, str]] = [
    (GOOD.append_column("more", pa.array([1])), r"has a column 'more' that is not in raw.t", ""),
    (GOOD.rename_columns(["id", "nmae", "amount"]), r"has a column 'nmae' that is not in raw.t", "name"),
    (
        GOOD.set_column(2, "amount", pa.array(["much"])),
        r"column 'amount' is VARCHAR, but in raw.t it is DOUBLE",
        "cast",
    ),
    (pa.table({"id": pa.array([None], pa.int64()), "name": ["a"], "amount": [1.0]}), "'id'.* NOT NULL", "replace"),
    (GOOD.drop_columns(["name"]), r"the frame lacks the column 'name' \(VARCHAR\) of raw.t", "add it"),
]


@pytest.fixture(scope="module", params=["on_duckdb", "on_spark"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("bad_input")
    store = store_of(folder)
    with store.open(request.getfixturevalue("spark") if request.param == "on_spark" else None) as lake:
        lake.create_table("raw.t", {"id": "BIGINT NOT NULL", "name": "VARCHAR", "amount": "DOUBLE"})
        lake.table("raw.t").append(GOOD)
        yield lake


def write(lake: Lake, operation: str, frame: object) -> int:
    table = lake.table("raw.t")
    if operation == "merge":
        return table.merge(frame, on="id")
    return int(getattr(table, operation)(frame))


def files(lake: Lake) -> set[str]:
    native: Any = lake.sql(f"SELECT file FROM glob('{data_path_of(lake)}**')").to_native()
    return {path for (path,) in native.fetchall()}


@pytest.mark.slow("on_spark")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_invalid_frames_are_rejected_and_nothing_is_written(lake: Lake, operation: str) -> None:
    before, there = lake.snapshot_id, files(lake)
    # A merge keeps the values of columns that the frame lacks.
    for frame, message, hint in FRAMES[:4] if operation == "merge" else FRAMES:
        with pytest.raises(SchemaError, match=message) as caught:
            write(lake, operation, frame)
        assert hint in str(caught.value.hint)
        assert (lake.refresh(), files(lake)) == (before, there)
    for odd in ({"id": [1]}, [1, 2, 3], "a text"):
        with pytest.raises(SchemaError, match="is not a frame"):
            write(lake, operation, odd)
    with pytest.raises(LakeconfError, match="nothing can be written: the lake is pinned"):
        write(lake.at(version=before), operation, GOOD)
    assert (lake.refresh(), files(lake)) == (before, there)
