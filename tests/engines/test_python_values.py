"""Python values that pyarrow would change are refused, at any depth; missing values are NULL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from local_stores import store_of

from lakeconf.engines.python_rows import check_values, is_null
from lakeconf.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

UTC = dt.UTC
CHANGED: list[tuple[list[object], str]] = [
    ([Decimal("1.5"), Decimal("NaN")], "NaN is no number"),
    ([Decimal("-Infinity")], "-Infinity is no number"),
    ([Decimal("sNaN")], "sNaN is no number"),
    ([pd.Timestamp("2026-01-01T00:00:00.000000001")], "would round Timestamp"),
    ([dt.datetime(2026, 1, 1), pd.Timestamp("2026-01-01T00:00:00.000000001")], "would round Timestamp"),
    ([pd.Timedelta(1001, "ns")], "would round Timedelta"),
    ([dt.date(2026, 1, 1), dt.datetime(2026, 1, 1)], "dates and times without a time zone"),
    (["a", b"a"], "bytes and texts"),
    ([dt.time(1, tzinfo=UTC)], "time zones of times of day"),
]


@pytest.mark.parametrize(("values", "message"), CHANGED, ids=[message for _, message in CHANGED])
@pytest.mark.parametrize("nested", ["plain", "dict", "list", "tuple", "array"])
def test_value_that_pyarrow_would_change_is_refused(values: list[object], message: str, nested: str) -> None:
    given: dict[str, Any] = {
        "plain": values,
        "dict": [{"a": value} for value in values],
        "list": [values],
        "tuple": [tuple(values)],
        "array": [np.array(values, dtype=object)],
    }
    with pytest.raises(SchemaError, match="the values of the column 'v' do not have one type that fits: ") as refused:
        check_values("v", given[nested])
    assert message in refused.value.message


def test_other_values_are_kept() -> None:
    check_values("v", [1, 2.5, None, float("nan"), pd.NA, pd.NaT, Decimal("1.5"), True, object()])
    check_values("v", [np.array([1, 2]), np.array([[1.5]]), [1], None])
    check_values("v", [pd.Timestamp("2026-01-01T00:00:00.000001"), dt.datetime(2026, 1, 1), pd.NaT])
    check_values("v", [pd.Timedelta(1000, "ns"), dt.timedelta(1)])


def test_missing_values_of_pandas_are_null() -> None:
    assert all(map(is_null, (None, pd.NA, pd.NaT)))
    assert not any(map(is_null, (float("nan"), 0, "", Decimal("NaN"), pd.Timestamp(0), np.array([]))))


def test_records_of_pandas_are_rows(tmp_path: Path) -> None:
    """`to_dict("records")` returns NA and NaT, and a frame from Parquet has arrays in place of lists."""
    frame = pd.DataFrame(
        {
            "n": pd.Series([1, None], dtype="Int64"),
            "t": pd.Series([pd.Timestamp("2026-01-01"), pd.NaT]),
            "l": pd.Series([np.array([1, 2]), None], dtype=object),
        }
    )
    columns = {"n": "BIGINT", "t": "TIMESTAMP", "l": "BIGINT[]"}
    expected = [(1, dt.datetime(2026, 1, 1), [1, 2]), (None, None, None)]
    with store_of(tmp_path).open() as lake:
        table = lake.create_table("raw.t", columns)
        table.append(frame.to_dict("records"))
        table.append(frame.astype({"t": "datetime64[us]"}))
        assert lake.sql("FROM raw.t ORDER BY n").to_native().fetchall() == [expected[0]] * 2 + [expected[1]] * 2
