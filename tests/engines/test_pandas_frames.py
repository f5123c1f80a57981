"""Frames of pandas, and casts that fail for values that they would change."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakeconf import Lake, Store
from lakeconf.engines.frames import is_pandas, with_index, without_types
from lakeconf.engines.schema_check import exact_casts, placeholder_message, rounded_columns
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
