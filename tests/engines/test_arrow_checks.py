"""Types of Arrow that DuckDB lacks are refused by name; those that it knows by their extension are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from local_stores import store_of

from lakeconf.engines.frames import check_types
from lakeconf.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

UNION = pa.sparse_union([pa.field("a", pa.int8()), pa.field("b", pa.string())])
REFUSED = {
    "float": (pa.float16(), "has floats of 16 bits"),
    "union": (UNION, "is a union"),
    "struct": (pa.struct([]), "has structs without fields"),
    "tensor": (pa.fixed_shape_tensor(pa.int8(), (2, 2)), "has the extension type arrow.fixed_shape_tensor"),
    "opaque": (pa.opaque(pa.int64(), "degrees", "me"), "has the extension type arrow.opaque"),
}
OVER: dict[str, Any] = {
    "plain": lambda inner: inner,
    "list": pa.list_,
    "struct": lambda inner: pa.struct([("s", inner)]),
    "map": lambda inner: pa.map_(pa.string(), inner),
    "dictionary": lambda inner: pa.dictionary(pa.int8(), inner),
    "runs": lambda inner: pa.run_end_encoded(pa.int32(), inner),
}


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("kind", REFUSED)
def test_type_that_duckdb_lacks_is_refused_at_any_depth(kind: str, over: str) -> None:
    inner, message = REFUSED[kind]
    with pytest.raises(SchemaError, match=f"the frame's column 'v' {message}"):
        check_types(pa.schema([("id", pa.int8()), ("v", OVER[over](inner))]))


def test_frame_with_a_type_that_duckdb_lacks_is_refused(tmp_path: Path) -> None:
    half = pl.DataFrame({"v": [1.5]}).with_columns(pl.col("v").cast(pl.Float16))
    with store_of(tmp_path).open() as lake:
        table = lake.create_table("raw.t", {"v": "FLOAT"})
        for frame in (half, half.to_arrow()):
            with pytest.raises(
                SchemaError, match="has floats of 16 bits, which DuckDB lacks\n  hint: cast them to floats"
            ):
                table.append(frame)
        table.append(half.cast(pl.Float32))
        assert table.head() == [{"v": 1.5}]


def test_known_extension_types_keep_their_meaning(tmp_path: Path) -> None:
    frame = pa.table(
        {
            "u": pa.array([b"\1" * 16], pa.uuid()),
            "j": pa.array(['{"a":1}'], pa.json_()),
            "b": pa.array([1], pa.bool8()),
        }
    )
    check_types(frame.schema)
    with store_of(tmp_path).open() as lake:
        table = lake.create_table("raw.t", frame)
        table.append(frame)
        assert table.schema == {"u": "UUID", "j": "JSON", "b": "BOOLEAN"}
        assert lake.sql("SELECT u::VARCHAR, j, b FROM raw.t").to_native().fetchall() == [
            ("01010101-0101-0101-0101-010101010101", '{"a":1}', True)
        ]


def test_lake_stays_usable_after_categories_of_intervals(tmp_path: Path) -> None:
    """DuckDB fails beyond recovery for them; `pd.cut` makes them."""
    frame = pd.DataFrame({"v": pd.cut(pd.Series([1, 5]), [0, 3, 9])})
    as_arrow = pa.Table.from_pandas(frame)
    with store_of(tmp_path).open() as lake:
        table = lake.create_table("raw.t", {"v": "VARCHAR"})
        with pytest.raises(SchemaError, match=r"frame.astype\(\{'v': 'string'\}\)"):
            table.append(frame)
        with pytest.raises(SchemaError, match=r"the extension type pandas\.interval"):
            table.append(as_arrow)
        table.append(frame.astype({"v": "string"}))
        rows = lake.sql("FROM raw.t ORDER BY v").to_native().fetchall()
        assert rows == [("(0, 3]",), ("(3, 9]",)]
