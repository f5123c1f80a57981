"""The index of pandas frames, and pandas frames without rows."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakeconf import Lake, Store
from lakeconf.engines.frames import check_dtypes, is_pandas, with_index, without_types
from lakeconf.errors import SchemaError

FRAME = pd.DataFrame({"id": [1, 2, 3], "kind": ["a", "b", "c"]})
COLUMNS = {"id": "BIGINT", "kind": "VARCHAR"}


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME[FRAME["id"] > 1],
        FRAME.sort_values("id", ascending=False),
        pd.concat([FRAME, FRAME]),
        FRAME.set_index(pd.Index([5, 6, 7], dtype="uint8")),
    ],
    ids=["none", "filter", "sort", "concat", "unsigned"],
)
def test_index_of_places_is_dropped(lake: Lake, frame: pd.DataFrame) -> None:
    before = frame.copy()
    table = lake.create_table("t", frame)
    table.append(frame)
    table.append(nw.from_native(frame))
    assert table.schema == COLUMNS
    rows = [(row["id"], row["kind"]) for row in table.head(100)]
    assert sorted(rows) == sorted([*frame.itertuples(index=False, name=None)] * 2)
    pd.testing.assert_frame_equal(frame, before)


def test_named_index_is_a_column(lake: Lake) -> None:
    table = lake.create_table("t", COLUMNS)
    table.append(FRAME.set_index("id"))
    table.append(FRAME.drop(columns="id").rename_axis("id"))  # an index that pyarrow omits
    levels = FRAME.set_index(["id", "kind"]).assign(n=1)
    assert sorted(row["id"] for row in table.head()) == [0, 1, 1, 2, 2, 3]
    assert lake.create_table("u", levels).schema == {**COLUMNS, "n": "BIGINT"}


@pytest.mark.parametrize(
    "index",
    [
        ["x", "y", "z"],
        [0.5, 1.5, 2.5],
        pd.MultiIndex.from_tuples([(1, 1), (1, 2), (2, 1)]),
        pd.date_range("2026", periods=3),
    ],
    ids=["texts", "floats", "levels", "times"],
)
def test_labels_without_a_name_are_refused(lake: Lake, index: Any) -> None:
    with pytest.raises(SchemaError, match=r"the index of the frame has labels, such as .*, but no name") as refused:
        lake.create_table("t", FRAME.set_index(pd.Index(index)))
    assert refused.value.hint == 'name it: frame.rename_axis("label"); or drop it: frame.reset_index(drop=True)'
    assert lake.tables() == []


def test_index_with_the_name_of_a_column_is_refused() -> None:
    with pytest.raises(SchemaError, match="the frame has a column and an index 'id'"):
        with_index(FRAME.set_index("id", drop=False))


@pytest.mark.parametrize(
    "frame",
    [pd.DataFrame({"id": [], "kind": []}), pd.DataFrame(columns=["ID", "kind"]), FRAME.set_index("kind").iloc[:0]],
    ids=["float", "object", "named index"],
)
def test_frame_without_rows_fits_the_table(lake: Lake, frame: pd.DataFrame) -> None:
    table = lake.create_table("t", COLUMNS)
    before = lake.snapshot_id
    for write in (table.append, table.overwrite):
        write(frame)
        write(nw.from_native(frame))
    table.append(frame, evolve=True)
    assert table.schema == COLUMNS
    assert lake.snapshot_id >= before


def test_frame_without_rows_still_needs_the_columns_and_types_of_its_own(lake: Lake) -> None:
    table = lake.create_table("t", COLUMNS)
    with pytest.raises(SchemaError, match="lacks the column 'kind'"):
        table.append(pd.DataFrame({"id": []}))
    with pytest.raises(SchemaError, match="'id' is TIMESTAMP"):
        table.append(pd.DataFrame({"id": pd.to_datetime([]), "kind": []}))


def test_other_frames_stay_as_they_are() -> None:
    for frame in (FRAME, pl.DataFrame({"id": []}), pa.table({"id": []}), [{"id": 1}], None):
        assert without_types(frame, COLUMNS) is frame
    assert (is_pandas(FRAME), is_pandas(pl.DataFrame())) == (True, False)


MONTHS = pd.period_range("2026-01", periods=2, freq="M")
# For each type that Arrow or DuckDB lacks: a column of it, and its values after the cast that the hint names.
FOREIGN: dict[str, tuple[object, list[object]]] = {
    "period": (MONTHS, ["2026-01", "2026-02"]),
    "category of periods": (pd.Categorical(MONTHS), ["2026-01", "2026-02"]),
    "interval": (pd.interval_range(0, 2), ["(0, 1]", "(1, 2]"]),
    "category of intervals": (pd.cut([1, 5], [0, 3, 9]), ["(0, 3]", "(3, 9]"]),
    "complex": ([1 + 2j, 0j], ["(1+2j)", "0j"]),
    "half": (np.array([1.5, 2], dtype="float16"), [1.5, 2.0]),
    "long": (np.array([1.5, 2], dtype="longdouble"), [1.5, 2.0]),
    "sparse": (pd.arrays.SparseArray([0, 1]), [0, 1]),
    "sparse floats": (pd.arrays.SparseArray([0.5, 1]), [0.5, 1.0]),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_column_of_a_type_that_duckdb_lacks_is_refused_and_the_cast_in_the_hint_works(kind: str, store: Store) -> None:
    values, expected = FOREIGN[kind]
    frame = pd.DataFrame({"id": [1, 2], "v": pd.Series(values)})
    with store.open() as lake:
        with pytest.raises(SchemaError, match=r"column 'v' has the type .* of pandas, which DuckDB lacks") as refused:
            lake.columns_of(frame)
        cast = str(refused.value.hint).removeprefix("cast it: ")
        fixed = eval(cast, {"frame": frame})  # noqa: S307 - the text of the hint
        check_dtypes(fixed)
        lake.create_table("raw.t", fixed).append(fixed)
        rows: Any = lake.sql("SELECT v FROM raw.t ORDER BY id").to_native()
        assert [value for (value,) in rows.fetchall()] == expected
