"""Invalid frames, on both engines: each raises one clear error, and nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import store_of

from lakeconf.errors import LakeconfError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake

GOOD = pa.table({"id": [1], "name": ["a"], "amount": pa.array([1.5], pa.float64())})
OPERATIONS = ("append", "overwrite", "merge")


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
    native: Any = lake.sql(f"SELECT file FROM glob('{lake._session.reader.data_path}**')").to_native()
    return {path for (path,) in native.fetchall()}


def check_rejected(lake: Lake, operation: str, frame: pa.Table, message: str, hint: str | None) -> None:
    before, there = lake.snapshot_id, files(lake)
    with pytest.raises(SchemaError, match=message) as caught:
        write(lake, operation, frame)
    assert hint is None or hint in str(caught.value.hint)
    assert lake.refresh() == before
    assert files(lake) == there


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("frame", "message", "hint"),
    [
        (GOOD.append_column("more", pa.array([1])), r"has a column 'more' that is not in raw.t", None),
        (GOOD.rename_columns(["id", "nmae", "amount"]), r"has a column 'nmae' that is not in raw.t", "name"),
        (
            GOOD.set_column(2, "amount", pa.array(["much"])),
            r"column 'amount' is VARCHAR, but in raw.t it is DOUBLE",
            "cast",
        ),
        (pa.table({"id": pa.array([None], pa.int64()), "name": ["a"], "amount": [1.0]}), "'id'.* NOT NULL", "replace"),
    ],
    ids=["extra", "misspelt", "of another type", "null"],
)
def test_frame_with_a_wrong_schema_is_rejected(
    lake: Lake, operation: str, frame: pa.Table, message: str, hint: str | None
) -> None:
    check_rejected(lake, operation, frame, message, hint)


# A merge keeps the values of columns that the frame lacks.
@pytest.mark.parametrize("operation", ["append", "overwrite"])
def test_frame_that_lacks_a_column_is_rejected(lake: Lake, operation: str) -> None:
    message = r"the frame lacks the column 'name' \(VARCHAR\) of raw.t"
    check_rejected(lake, operation, GOOD.drop_columns(["name"]), message, "add it")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_object_that_is_not_a_frame_is_rejected(lake: Lake, operation: str) -> None:
    with pytest.raises(SchemaError, match="dict is not a frame"):
        write(lake, operation, {"id": [1]})


def test_empty_frame_creates_no_snapshot(lake: Lake) -> None:
    before, there = lake.snapshot_id, files(lake)
    assert write(lake, "append", GOOD.slice(0, 0)) == before
    assert write(lake, "merge", GOOD.slice(0, 0)) == before
    assert there
    assert (lake.refresh(), files(lake)) == (before, there)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_pinned_lake_rejects_writes(lake: Lake, operation: str) -> None:
    before, there = lake.snapshot_id, files(lake)
    with pytest.raises(LakeconfError, match="nothing can be written: the lake is pinned"):
        write(lake.at(version=before), operation, GOOD)
    assert (lake.refresh(), files(lake)) == (before, there)
