"""Frames of pandas and tables of Arrow, and casts that fail for values that they would change."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from local_stores import store_of

from lakeconf import Lake, Store
from lakeconf.connection.connection import connect
from lakeconf.engines.frames import (
    check_types,
    exact_units,
    frame_type,
    is_pandas,
    with_index,
    with_null_types,
    without_types,
)
from lakeconf.engines.lossless import exact_casts, placeholder_message, rounded_columns
from lakeconf.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb.sqltypes import DuckDBPyType

FRAME = pd.DataFrame({"id": [1, 2, 3], "kind": ["a", "b", "c"]})
COLUMNS = {"id": "BIGINT", "kind": "VARCHAR"}


@pytest.mark.prove("on_spark-concat", "on_spark-sort", "on_spark-unsigned")
@pytest.mark.slow
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


@pytest.mark.slow("on_spark")
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


@pytest.mark.slow("on_spark")
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


@pytest.mark.slow("on_spark")
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
# A column of each type that Arrow or DuckDB lacks.
FOREIGN: dict[str, object] = {
    "period": MONTHS,
    "category of periods": pd.Categorical(MONTHS),
    "interval": pd.interval_range(0, 2),
    "category of intervals": pd.cut([1, 5], [0, 3, 9]),
    "complex": [1 + 2j, 0j],
    "half": np.array([1.5, 2], dtype="float16"),
    "long": np.array([1.5, 2], dtype="longdouble"),
    "sparse": pd.arrays.SparseArray([0, 1]),
    "sparse floats": pd.arrays.SparseArray([0.5, 1]),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_column_of_a_type_that_duckdb_lacks_is_an_error_that_names_it(kind: str, store: Store) -> None:
    frame = pd.DataFrame({"id": [1, 2], "v": pd.Series(FOREIGN[kind])})
    with store.open() as lake, pytest.raises(SchemaError, match="column 'v'") as caught:
        lake.columns_of(frame)
    assert "cast" in str(caught.value.hint) or "astype" in str(caught.value.hint)


ZONED = time(1, 3, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize("is_category", [False, True])
@pytest.mark.parametrize("values", [[ZONED], [date(2020, 1, 1), datetime(2020, 1, 2, 3, 4)], [b"a", "b"]])
def test_objects_that_arrow_would_change_are_refused(values: list[object], store: Store, *, is_category: bool) -> None:
    found: Any = pd.Series(values, dtype=object)
    if is_category:
        codes = range(len(values))
        found = pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(values, dtype=object)))
    with store.open() as lake, pytest.raises(SchemaError, match="values of the column 'v' do not have one type"):
        lake.columns_of(pd.DataFrame({"v": found}))


# The source type, the target type, values that the target holds, and values that it would round.
ROUNDED = [
    ("DECIMAL(9,2)", "UBIGINT", ["2.00", "0.00"], ["2.01", "0.99"]),
    ("DECIMAL(9,2)", "HUGEINT", ["-2.00"], ["-2.50"]),
    ("DECIMAL(38,1)", "UHUGEINT", ["2.0"], ["2.1"]),
    ("DECIMAL(21,1)", "DOUBLE", ["1.5", "-0.1", "9007199254740992.0"], ["90071992547409931.5", "12345678901234567.1"]),
    ("DECIMAL(38,0)", "DOUBLE", ["0"], ["99999999999999999999999999999999999999"]),
    ("HUGEINT", "HUGEINT", ["9007199254740992", "-1267650600228229401496703205376"], ["9007199254740993"]),
    ("UBIGINT", "UHUGEINT", ["7"], ["9007199254740993"]),
    ("TIMESTAMP", "TIMESTAMP_S", ["'2024-01-01 00:00:01'"], ["'2024-01-01 00:00:01.5'"]),
    ("TIMESTAMP", "TIMESTAMP_MS", ["'2024-01-01 00:00:01.001'"], ["'2024-01-01 00:00:01.0015'"]),
    (
        "VARCHAR",
        "TIME",
        ["'12:00:00.123456'", "'12:00:00.1234560'"],
        ["'12:00:00.1234567'", "'12:00:00+02'", "'12:00:00.5Z'"],
    ),
    (
        "VARCHAR",
        "TIME WITH TIME ZONE",
        ["'12:00:00.123456+00'"],
        ["'12:00:00.1234567+00'", "'12:00:00+01'", "'24:00:00'"],
    ),
    (
        "VARCHAR",
        "INTERVAL",
        ["'00:00:01.5'"],
        ["'00:00:01.0000005'", "'00:00:01.000001'", "'9 microseconds'", "'50 days 1193 hours'"],
    ),
    (
        "INTERVAL",
        "INTERVAL",
        ["'1 month 00:00:01.123'", "'1192 hours'"],
        ["'00:00:00.0015'", "'1 month 00:00:01.123001'", "'1193:03:00'", "'1 day 99999:00:00'"],
    ),
]
NESTED = {
    "list": ("{}[]", "[{}]"),
    "array": ("{}[1]", "[{}]"),
    "struct": ('STRUCT("A b" {}, n INTEGER)', "{{'A b': {}, 'n': 1}}"),
    "map key": ("MAP({}, INTEGER)", "MAP {{{}: 1}}"),
    "map value": ("MAP(INTEGER, {})", "MAP {{1: {}}}"),
}


def cast(value: str, given: str, wanted: str) -> object:
    """The value after the cast."""
    casts = exact_casts({'"X': given}, {'"x': wanted})
    with duckdb.default_connection().cursor() as con:
        row = con.execute(f"SELECT {casts} FROM (SELECT CAST({value} AS {given}) AS {quoted('X')})").fetchone()
        plain = con.execute(f"SELECT CAST(CAST({value} AS {given}) AS {wanted})").fetchone()
    assert row is not None
    assert row == plain
    return row[0]


def quoted(name: str) -> str:
    return f'"""{name}"'


@pytest.mark.parametrize(("given", "wanted", "good", "bad"), ROUNDED)
@pytest.mark.parametrize("kind", [None, *NESTED])
def test_values_that_a_cast_would_round_are_rejected(
    given: str, wanted: str, good: list[str], bad: list[str], kind: str | None
) -> None:
    in_type, in_value = NESTED[kind] if kind else ("{}", "{}")
    source, target = in_type.format(given), in_type.format(wanted)
    for value in good:
        cast(in_value.format(f"CAST({value} AS {given})"), source, target)
    for value in bad:
        with pytest.raises(duckdb.InvalidInputException) as refused:
            cast(in_value.format(f"CAST({value} AS {given})"), source, target)
        refusal = f"LAKECONF_REFUSED the column '\"x' has values that its type {target} would round"
        assert str(refused.value).endswith(refusal)
    assert cast("NULL", source, target) is None
    assert rounded_columns({"A": "INTEGER", "B": source}, {"a": "INTEGER", "b": target}) == ["b"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("DECIMAL(9,2)", "DECIMAL(11,2)"),
        ("TIMESTAMP_S", "TIMESTAMP_MS"),
        ("TIMESTAMP", "TIMESTAMP_NS"),
        ("VARCHAR", "VARCHAR"),
        ("TIME", "TIME"),
        ("STRUCT(a VARCHAR, b TIME)", "STRUCT(b TIME, a VARCHAR)"),
        ("MAP(VARCHAR, TIME)", "MAP(VARCHAR, TIME)"),
        ("INTEGER", "HUGEINT"),
    ],
)
def test_casts_that_keep_every_value_are_not_checked(given: str, wanted: str) -> None:
    assert rounded_columns({"a": given}, {"A": wanted}) == []
    if not any(text in given for text in ("VARCHAR", "BLOB")):
        assert exact_casts({"a": given}, {"A": wanted}) == f'CAST("a" AS {wanted}) AS "A"'


POISON = "a{SNAPSHOT_ID}"
TEXTS = [
    ("VARCHAR", "VARCHAR", "'{}'"),
    ("BLOB", "BLOB", "'{}'::BLOB"),
    ("JSON", "JSON", "'\"{}\"'"),
    ("VARCHAR", "VARIANT", "'{}'"),
    ("VARCHAR[]", "VARCHAR[]", "[NULL, '{}']"),
    ("STRUCT(a INTEGER, b VARCHAR[])", "STRUCT(a INTEGER, b VARCHAR[])", "{{'a': 1, 'b': ['{}']}}"),
    ("MAP(VARCHAR, INTEGER)", "MAP(VARCHAR, INTEGER)", "MAP {{'{}': 1}}"),
    ("MAP(INTEGER, VARCHAR)", "MAP(INTEGER, VARCHAR)", "MAP {{1: '{}'}}"),
]


@pytest.mark.parametrize(("given", "wanted", "value"), TEXTS)
def test_texts_with_a_placeholder_of_ducklake_are_rejected(given: str, wanted: str, value: str) -> None:
    for harmless in ("b", "{b}", "{SNAPSHOT_ID", "{snapshot_id}", "SNAPSHOT_ID}"):
        cast(value.format(harmless), given, wanted)
    assert cast("NULL", given, wanted) is None
    with pytest.raises(duckdb.InvalidInputException) as refused:
        cast(value.format(POISON), given, wanted)
    assert placeholder_message('"x') in str(refused.value)
    assert placeholder_message('"x') == (
        "LAKECONF_REFUSED the column '\"x' has a value with a placeholder that DuckLake would replace in its "
        "statistics, such as SNAPSHOT_ID"
    )


def test_rounding_and_placeholders_are_both_checked() -> None:
    given, wanted = "STRUCT(d DECIMAL(9,2), t VARCHAR)", "STRUCT(d UBIGINT, t VARCHAR)"
    assert rounded_columns({"s": given}, {"s": "STRUCT(T VARCHAR, D UBIGINT)"}) == ["s"], "fields have names"
    cast("{'d': 1.00, 't': 'x'}", given, wanted)
    with pytest.raises(duckdb.InvalidInputException, match="would round"):
        cast("{'d': 1.50, 't': 'x'}", given, wanted)
    with pytest.raises(duckdb.InvalidInputException, match="placeholder"):
        cast(f"{{'d': 1.00, 't': '{POISON}'}}", given, wanted)


ZONED_NS, MICROS = pa.timestamp("ns", "Asia/Kolkata"), pa.timestamp("us", "Asia/Kolkata")
# For each type with a smaller unit than DuckDB's: the type with DuckDB's unit, the units in one, and a value of one.
UNITS = {
    "zoned timestamp": (ZONED_NS, MICROS, 1000),
    "duration": (pa.duration("ns"), pa.duration("us"), 1000),
    "time": (pa.time64("ns"), pa.time64("us"), 1000),
    "date": (pa.date64(), pa.date32(), 86_400_000),
}
# For each kind of nested type: the type over another one, and a value with that value.
NESTED_ARROW = {
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


@pytest.mark.parametrize("kind", NESTED_ARROW)
def test_smaller_units_inside_nested_types_convert_or_are_rejected(kind: str) -> None:
    expected, value = NESTED_ARROW[kind](pa.duration("us"), 3)
    given, big = NESTED_ARROW[kind](pa.duration("ns"), 3000)
    _, bad = NESTED_ARROW[kind](pa.duration("ns"), 3001)
    table = exact_units(pa.table({"x": pa.array([big, None], given)}))
    assert table.schema.types == [expected]
    assert table["x"].combine_chunks() == pa.array([value, None], expected)
    with pytest.raises(SchemaError, match="DuckDB would round"):
        exact_units(pa.table({"x": pa.array([bad], given)}))


def test_smaller_units_of_dictionaries_convert_or_are_rejected() -> None:
    def table(value: int) -> pa.Table:
        values = pa.array([value], ZONED_NS)
        return pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), values, ordered=True)})

    assert exact_units(table(3000)).schema.types == [pa.dictionary(pa.int8(), MICROS, ordered=True)]
    with pytest.raises(SchemaError, match="DuckDB would round"):
        exact_units(table(3001))


@pytest.mark.parametrize("kind", [pa.list_view, pa.large_list_view])
def test_smaller_units_that_arrow_cannot_convert_are_rejected(kind: type[pa.DataType]) -> None:
    with pytest.raises(SchemaError, match=r"DuckDB would round: Unsupported cast to \w*list_view.*>\n  hint"):
        exact_units(pa.table({"x": pa.array([[3000]], kind(ZONED_NS))}))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([3000], ZONED_NS))
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
