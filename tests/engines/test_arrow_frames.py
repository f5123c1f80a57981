"""Arrow tables reach DuckDB without a loss; types that it lacks are refused by name."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from local_stores import store_of

from lakeconf.connection.connection import connect
from lakeconf.engines.frames import check_types, exact_units, frame_type, with_null_types
from lakeconf.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb.sqltypes import DuckDBPyType


ZONED, MICROS = pa.timestamp("ns", "Asia/Kolkata"), pa.timestamp("us", "Asia/Kolkata")
# For each type with a smaller unit than DuckDB's: the type with DuckDB's unit, the units in one, and a value of one.
UNITS = {
    "zoned timestamp": (ZONED, MICROS, 1000),
    "duration": (pa.duration("ns"), pa.duration("us"), 1000),
    "time": (pa.time64("ns"), pa.time64("us"), 1000),
    "date": (pa.date64(), pa.date32(), 86_400_000),
}
# For each kind of nested type: the type over another one, and a value with that value.
NESTED = {
    "list": lambda inner, value: (pa.list_(pa.field("e", inner, nullable=False)), [value]),
    "large list": lambda inner, value: (pa.large_list(pa.field("e", inner, nullable=False)), [value]),
    "fixed list": lambda inner, value: (pa.list_(pa.field("e", inner, nullable=False), 2), [value, value]),
    "struct": lambda inner, value: (
        pa.struct([pa.field("a", pa.int8()), pa.field("b", inner, nullable=False)]),
        {"a": 1, "b": value},
    ),
    "map key": lambda inner, value: (pa.map_(inner, pa.int8()), [(value, 1)]),
    "map value": lambda inner, value: (pa.map_(pa.string(), pa.field("v", inner, nullable=False)), [("k", value)]),
    "list of lists": lambda inner, value: (pa.list_(pa.large_list(inner)), [[value]]),
}


@pytest.mark.parametrize("name", UNITS)
def test_smaller_units_convert_without_a_loss_or_are_rejected(name: str) -> None:
    small, exact, factor = UNITS[name]
    table = exact_units(pa.table({"i": pa.array([1], pa.int8()), "x": pa.array([3 * factor], small)}))
    assert table.schema.types == [pa.int8(), exact]
    assert table["x"].combine_chunks() == pa.array([3], exact)
    with pytest.raises(
        SchemaError, match="the frame's column 'x' has a value that DuckDB would round: Casting"
    ) as refused:
        exact_units(pa.table({"x": pa.array([3 * factor + 1], small)}))
    assert refused.value.hint == "round times to microseconds, dates to days and decimals to 38 digits"


@pytest.mark.parametrize("kind", NESTED)
def test_smaller_units_inside_nested_types_convert_or_are_rejected(kind: str) -> None:
    expected, value = NESTED[kind](pa.duration("us"), 3)
    given, big = NESTED[kind](pa.duration("ns"), 3000)
    _, bad = NESTED[kind](pa.duration("ns"), 3001)
    table = exact_units(pa.table({"x": pa.array([big, None], given)}))
    assert table.schema.types == [expected]
    assert table["x"].combine_chunks() == pa.array([value, None], expected)
    with pytest.raises(SchemaError, match="DuckDB would round"):
        exact_units(pa.table({"x": pa.array([bad], given)}))


def test_smaller_units_of_dictionaries_convert_or_are_rejected() -> None:
    def table(value: int) -> pa.Table:
        values = pa.array([value], ZONED)
        return pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), values, ordered=True)})

    assert exact_units(table(3000)).schema.types == [pa.dictionary(pa.int8(), MICROS, ordered=True)]
    with pytest.raises(SchemaError, match="DuckDB would round"):
        exact_units(table(3001))


@pytest.mark.parametrize("kind", [pa.list_view, pa.large_list_view])
def test_smaller_units_that_arrow_cannot_convert_are_rejected(kind: type[pa.DataType]) -> None:
    with pytest.raises(SchemaError, match=r"DuckDB would round: Unsupported cast to \w*list_view.*>\n  hint"):
        exact_units(pa.table({"x": pa.array([[3000]], kind(ZONED))}))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([3000], ZONED))
    with pytest.raises(SchemaError, match="DuckDB would round: Unsupported cast"):
        exact_units(pa.table({"x": runs}))


def test_types_that_duckdb_holds_exactly_are_not_copied() -> None:
    """DuckDB has nanoseconds without a time zone."""
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([1]))
    columns = {
        "naive": pa.array([1], pa.timestamp("ns")),
        "zoned": pa.array([1], MICROS),
        "milliseconds": pa.array([1], pa.timestamp("ms", "UTC")),
        "duration": pa.array([1], pa.duration("ms")),
        "time": pa.array([1], pa.time32("ms")),
        "time64": pa.array([1], pa.time64("us")),
        "date": pa.array([1], pa.date32()),
        "view": pa.array([[1]], pa.list_view(pa.int8())),
        "large view": pa.array([[1]], pa.large_list_view(pa.int8())),
        "runs": runs,
    }
    table = pa.table(columns)
    assert exact_units(table) is table


NULLS = {
    "null": (pa.null(), '"NULL"'),
    "list": (pa.list_(pa.null()), '"NULL"[]'),
    "large list": (pa.large_list(pa.null()), '"NULL"[]'),
    "fixed list": (pa.list_(pa.null(), 2), '"NULL"[2]'),
    "view": (pa.list_view(pa.null()), '"NULL"[]'),
    "struct": (
        pa.struct({"a b": pa.null(), 'q"': pa.int8(), "l": pa.list_(pa.null())}),
        'STRUCT("a b" "NULL", "q""" TINYINT, l "NULL"[])',
    ),
    "map": (pa.map_(pa.string(), pa.null()), 'MAP(VARCHAR, "NULL")'),
    "dictionary": (pa.dictionary(pa.int8(), pa.null()), '"NULL"'),
}


def types_in_duckdb(table: pa.Table) -> tuple[list[str], list[str], list[tuple[object, ...]]]:
    """The names of the columns in DuckDB, their types and the rows."""
    with connect() as connection:
        relation = with_null_types(connection.from_arrow(table), table)
        types: list[DuckDBPyType] = relation.types
        return relation.columns, list(map(frame_type, types)), relation.fetchall()


@pytest.mark.parametrize("kind", NULLS)
def test_null_type_keeps_its_name_at_any_depth(kind: str) -> None:
    given, name = NULLS[kind]
    table = pa.table({"i": pa.array([7], pa.int16()), 'q"x': pa.nulls(1, given)})
    assert types_in_duckdb(table) == (["i", 'q"x'], ["SMALLINT", name], [(7, None)])


def test_lists_of_nulls_keep_their_length() -> None:
    columns = {
        "l": pa.array([[None, None], [], None]),
        "s": pa.array([{"a": None}, None, {"a": None}]),
        "m": pa.array([[("k", None)], [], None], pa.map_(pa.string(), pa.null())),
    }
    _, _, rows = types_in_duckdb(pa.table(columns))
    assert rows == [([None, None], {"a": None}, {"k": None}), ([], None, {}), (None, {"a": None}, None)]


def test_decimals_that_duckdb_lacks_become_those_that_it_has() -> None:
    wide = pa.table({"a": pa.array([Decimal("1.5")], pa.decimal256(50, 2)), "b": pa.array([7], pa.decimal256(20, 0))})
    assert exact_units(wide).schema.types == [pa.decimal128(38, 2), pa.decimal128(20, 0)]
    with pytest.raises(SchemaError, match="column 'a' has a value that DuckDB would round"):
        exact_units(pa.table({"a": pa.array([Decimal(10**40)], pa.decimal256(50, 2))}))


def test_dictionary_of_nested_values_does_not_reach_duckdb() -> None:
    nested = pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array([{"a": 1}]))
    with pytest.raises(SchemaError):
        exact_units(pa.table({"a": nested}))


UNION = pa.sparse_union([pa.field("a", pa.int8()), pa.field("b", pa.string())])
# `pd.cut` makes categories of intervals, for which DuckDB fails beyond recovery.
CUT = pa.Table.from_pandas(pd.DataFrame({"v": pd.cut(pd.Series([1, 5]), [0, 3, 9])})).schema.field("v").type
REFUSED = {
    "pandas": (CUT, r"has the extension type pandas\.interval"),
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
        {"u": pa.array([b"\1" * 16], pa.uuid()), "j": pa.array(['{"a":1}'], pa.json_()), "b": pa.array([1], pa.bool8())}
    )
    check_types(frame.schema)
    with store_of(tmp_path).open() as lake:
        table = lake.create_table("raw.t", frame)
        table.append(frame)
        assert table.schema == {"u": "UUID", "j": "JSON", "b": "BOOLEAN"}
        assert lake.sql("SELECT u::VARCHAR, j, b FROM raw.t").to_native().fetchall() == [
            ("01010101-0101-0101-0101-010101010101", '{"a":1}', True)
        ]
