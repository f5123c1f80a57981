"""Frames of DuckDB and of other packages, rows as dictionaries, types that a column accepts, and fingerprints."""

from __future__ import annotations

import datetime as dt
import importlib.util
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from local_stores import store_of
from promotions import stores

from lakeconf.connection.connection import connect
from lakeconf.engines.fingerprints import fingerprint_sql, fingerprints
from lakeconf.engines.frames import LazyRows, arrow_table, lazy_rows, native_frame
from lakeconf.engines.python_rows import arrow_rows, check_values
from lakeconf.engines.schema_check import check_distinct, check_fit, fits
from lakeconf.errors import LakeconfError, QueryError, SchemaError
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from lakeconf import Store, Table

ROWS = 300_000


@pytest.mark.slow
@pytest.mark.parametrize("has_pyarrow", [True, False])
def test_frame_of_another_lake_can_be_read_twice(
    has_pyarrow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = stores(tmp_path, "one", "other")
    with both["one"].open() as one, both["other"].open() as other:
        if not has_pyarrow:
            find = importlib.util.find_spec
            monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name))
        frame = other.sql(f"SELECT i, (i % 7)::VARCHAR AS s FROM range({ROWS}) t(i)")
        for query, expected in (
            ("SELECT count(*) FROM (FROM f EXCEPT ALL FROM f)", 0),
            ("SELECT count(*) FROM f a JOIN f b USING (i, s)", ROWS),
            ("SELECT count(*) FROM (FROM f UNION ALL FROM f)", 2 * ROWS),
        ):
            assert one.sql(query, f=frame).to_native().fetchall() == [(expected,)], query
        table = one.create_table("raw.t", {"i": "BIGINT", "s": "VARCHAR"})
        table.merge(frame, on="i")
        table.merge(frame, on="i")
        assert one.sql("SELECT count(*) FROM raw.t").to_native().fetchall() == [(ROWS,)]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"v": [dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 5)]}),
        pd.DataFrame({"v": pd.Series([dt.datetime(2026, 1, 1), pd.Timestamp(0, tz="UTC")], dtype=object)}),
        pd.DataFrame({"v": [2**70]}),
        pd.DataFrame({"v": [Decimal(1), 1.5]}),
        pd.DataFrame([[1, 2]], columns=["v", "v"]),
        pd.DataFrame([[1, 2]], columns=["v", "V"]),
        pl.DataFrame({"v": pl.Series([object()], dtype=pl.Object)}),
        pl.LazyFrame({"v": pl.Series([object()], dtype=pl.Object)}),
        pa.table([pa.array([1]), pa.array([2])], names=["v", "V"]),
    ],
)
def test_frame_that_arrow_or_duckdb_would_change_is_refused(frame: object) -> None:
    with pytest.raises(SchemaError):
        arrow_table(native_frame(frame))


def test_objects_of_one_type_are_kept() -> None:
    frame = pd.DataFrame({"d": [dt.date(2026, 1, 1), None], "b": [b"\xff", None], "l": [[1], None]})
    assert arrow_table(native_frame(frame)).to_pylist() == [
        {"d": dt.date(2026, 1, 1), "b": b"\xff", "l": [1]},
        {"d": None, "b": None, "l": None},
    ]


@pytest.mark.parametrize(
    ("frame", "message", "fixed"),
    [
        (
            pd.DataFrame({"id": [1], "v": [pd.Period("2026-01")]}, dtype=object),
            "Could not convert Period",
            lambda frame: frame.astype({"v": "string"}),
        ),
        (pd.DataFrame({"id": [1, 2], "v": [1, "a"]}), "Could not convert 'a'", lambda f: f.astype({"v": "string"})),
        (pl.DataFrame({"v": pl.Series([2**100], dtype=pl.Int128)}), "_pli128", lambda f: f.cast({"v": pl.String})),
    ],
    ids=["period", "mixed", "int128"],
)
def test_column_without_an_arrow_type_is_named_and_the_hint_works(frame: Any, message: str, fixed: Any) -> None:
    with pytest.raises(SchemaError, match=f"the frame's column 'v' cannot be converted to Arrow: .*{message}") as error:
        arrow_table(native_frame(frame))
    assert ".astype({'v': 'string'})" in str(error.value.hint) or ".cast({'v': pl.String})" in str(error.value.hint)
    assert arrow_table(native_frame(fixed(frame))).schema.field("v").type in (pa.string(), pa.large_string())


JOB = """
import sys
sys.modules["{package}"] = None
import lakeconf.errors, narwhals as nw
with lakeconf.init().get_store().open() as lake:
    lake.create_table("t", {{"id": "BIGINT"}})
    scan = lake.table("t").scan()
    frames = [
        scan, scan.filter(nw.col("id") > 1).head(2), scan.group_by("id").agg(nw.len()), scan.join(scan, on="id"),
        lake.sql("FROM t"), lake.sql("FROM rows", rows=scan), lake.table("t").changes(1),
        nw.concat([scan, scan]),
    ]
    for frame in frames:
        try:
            frame.collect({backend!r})
        except lakeconf.errors.MissingDependencyError as error:
            print(error.message, error.hint)
    print(len(frames))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "backend", "hint"),
    [
        ("pyarrow", None, "pip install 'lakeconf[arrow]'"),
        ("pyarrow", "pyarrow", "pip install 'lakeconf[arrow]'"),
        ("polars", "polars", "pip install 'lakeconf[polars]'"),
        ("pandas", "pandas", "pip install pandas"),
    ],
)
def test_collect_without_the_package_names_what_to_install(
    package: str, backend: str | None, hint: str, project: Path
) -> None:
    (project / "job.py").write_text(JOB.format(package=package, backend=backend))
    result = subprocess.run([sys.executable, "job.py"], capture_output=True, text=True, check=False)
    *told, count = result.stdout.splitlines()
    assert result.returncode == 0, result.stderr
    assert told == [f"this frame needs the module '{package}', which is not installed run: {hint}"] * int(count)


def test_frame_is_one_of_narwhals() -> None:
    connection = connect()
    frame = lazy_rows(connection.relation("SELECT 1 AS id"), connection)
    assert isinstance(frame, LazyRows)
    assert isinstance(frame.with_columns(x=nw.lit(1)), LazyRows)
    assert nw.from_native(frame) is frame
    assert frame.collect().to_native() == pa.table({"id": pa.array([1], pa.int32())})
    assert frame.collect("polars").to_native().equals(pl.DataFrame({"id": [1]}, {"id": pl.Int32}))
    assert frame.collect(backend=nw.Implementation.PANDAS).to_native()["id"].tolist() == [1]
    with pytest.raises(ValueError, match="Unsupported `backend`"):
        frame.collect("dask")
    with pytest.raises(QueryError, match="two columns with one name"):
        lazy_rows(connection.relation("SELECT 1 AS a, 2 AS a"), connection).collect()


def test_errors_of_lazy_frames_hide_the_secrets_of_the_store(tmp_path: Path) -> None:
    messages = pa.table({"a": ["hunter2hunter2"]})
    with store_of(tmp_path).replace(hidden=(Secret("hunter2hunter2"),)).open() as lake:
        frames = lake.sql("SELECT error('hunter2hunter2') AS a"), lake.sql("SELECT error(a) AS a FROM f", f=messages)
        for frame in (*frames, frames[1].filter(nw.col("a").is_null())):
            with pytest.raises(LakeconfError, match=r"\*\*\*") as caught:
                frame.collect()
            assert "hunter2" not in str(caught.value)


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


def test_names_keep_their_first_spelling_and_order() -> None:
    rows = [{"b": 1, "Id": 1}, {"iD": 2, "c": 3, "B": 4}]
    assert arrow_rows([{"a": 1}, {"b": "x", "a": None}]).to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    assert arrow_rows(rows).column_names == ["b", "Id", "c"]
    assert arrow_rows(rows).to_pylist() == [{"b": 1, "Id": 1, "c": None}, {"b": 4, "Id": 2, "c": 3}]


def test_values_take_the_types_of_the_table_if_nothing_is_lost() -> None:
    wanted = {
        "i": pa.int8(),
        "d": pa.decimal128(10, 2),
        "f": pa.float32(),
        "l": pa.list_(pa.int16()),
        "s": pa.struct([("a", pa.int32()), ("b", pa.string())]),
        "n": pa.date32(),
        "x": pa.float64(),
    }
    row: dict[str, Any] = {
        "I": 127, "d": Decimal("1.5"), "f": 0.5, "l": [1, None], "s": {"a": 7}, "n": None, "x": 3,
    }  # fmt: skip
    found = arrow_rows([row], wanted)
    assert dict(zip(found.column_names, found.schema.types, strict=True)) == {"I": pa.int8()} | {
        name: wanted[name] for name in "dflsnx"
    }
    assert found.to_pylist() == [row | {"s": {"a": 7, "b": None}, "x": 3.0}]


NUMPY = np.uint64(2**64 - 1)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (128, pa.int8()),
        (2**53 + 1, pa.float64()),
        (Decimal("1.005"), pa.decimal128(10, 2)),
        ([1, 300], pa.list_(pa.int8())),
        ({"a": 300}, pa.struct([("a", pa.int8())])),
        (2**64, pa.int64()),
        (1e300, pa.float32()),
        ([0.5, -1e300], pa.list_(pa.float32())),
        ({"a": [1e300]}, pa.struct([("a", pa.list_(pa.float32()))])),
        ([NUMPY, 0.5], None),
        ([NUMPY, None, float("nan")], None),
    ],
)
def test_value_that_would_change_is_refused(value: object, wanted: pa.DataType | None) -> None:
    with pytest.raises(SchemaError, match="the values of the column 'a' do not have one type that fits") as refused:
        arrow_rows([{"a": value}], {"a": wanted} if wanted else {})
    assert refused.value.hint == ("use one type for each column" if wanted else "convert it: int(value)")
    message = "too large" if "e+300" in str(value) else f"would make {NUMPY} negative" if wanted is None else ""
    assert message in refused.value.message


def test_numbers_that_arrow_has_are_kept_and_those_of_several_rows_are_one_column() -> None:
    assert arrow_rows([{"v": float("inf")}], {"v": pa.float32()}).to_pylist() == [{"v": float("inf")}]
    with pytest.raises(SchemaError, match=f"would make {NUMPY} negative"):
        arrow_rows([{"x": value} for value in (NUMPY, None, 0.5)])


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (dt.datetime(2026, 1, 1, 12), pa.date32()),
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), pa.timestamp("us")),
        (1.5, pa.int64()),
        (True, pa.int64()),
        (1, pa.bool_()),
        (1, pa.string()),
        ({"a": 1, "b": 2}, pa.struct([("a", pa.int8())])),
    ],
)
def test_other_types_stay_so_that_the_table_refuses_them(value: object, wanted: pa.DataType) -> None:
    assert arrow_rows([{"a": value}], {"a": wanted}).schema.field("a").type == pa.array([value]).type


@pytest.mark.parametrize(
    "rows", [[{"a": 1}, {"a": "x"}], [{"a": object()}], [{1: "x"}], [{"a": 1, "A": 1}], [{"a": "a"}, {"a": b"\xff"}]]
)
def test_rows_without_one_type_are_refused(rows: Any) -> None:
    with pytest.raises(SchemaError):
        arrow_rows(rows)


FITS = [
    *(("TINYINT", "BIGINT"), ("UINTEGER", "BIGINT"), ("BIGINT", "HUGEINT"), ("UTINYINT", "USMALLINT")),
    *(("INTEGER", "DOUBLE"), ("UINTEGER", "DOUBLE"), ("FLOAT", "DOUBLE"), ("SMALLINT", "FLOAT")),
    *(("DATE", "TIMESTAMP"), ("TIMESTAMP_S", "TIMESTAMP_MS"), ("UUID", "VARCHAR"), ("JSON", "VARCHAR")),
    *(("DECIMAL(9, 2)", "DECIMAL(10, 2)"), ("DECIMAL(9, 2)", "DECIMAL(11, 4)"), ("INTEGER", "DECIMAL(10, 0)")),
    *(
        ("INTEGER[]", "BIGINT[]"),
        ("STRUCT(a INTEGER)", "STRUCT(a BIGINT)"),
        ("MAP(DATE, DATE)", "MAP(DATE, TIMESTAMP)"),
    ),
    # A value that does not fit raises an error when it is written.
    *(
        ("DECIMAL(38, 2)", "DECIMAL(9, 2)"),
        ("HUGEINT", "BIGINT"),
        ("DECIMAL(38, 0)", "HUGEINT"),
        ("VARCHAR", "TIME"),
        ('"NULL"', "DATE"),
    ),
]
LOSE = [
    # The first lost value is the first integer that the target type cannot represent.
    *(("BIGINT", "DOUBLE"), ("UBIGINT", "DOUBLE"), ("INTEGER", "FLOAT"), ("UINTEGER", "FLOAT"), ("DOUBLE", "FLOAT")),
    *(("BIGINT", "INTEGER"), ("UBIGINT", "BIGINT"), ("UINTEGER", "INTEGER"), ("INTEGER", "UINTEGER")),
    *(("TINYINT", "UBIGINT"), ("HUGEINT", "UHUGEINT"), ("DOUBLE", "BIGINT"), ("BOOLEAN", "INTEGER")),
    *(("DECIMAL(9, 3)", "DECIMAL(10, 2)"), ("DECIMAL(9, 2)", "DECIMAL(10, 4)")),
    *(
        ("INTEGER", "DECIMAL(9, 0)"),
        ("INTEGER", "DECIMAL(10, 1)"),
        ("UINTEGER", "DECIMAL(9, 0)"),
        ("DOUBLE", "DECIMAL(38, 2)"),
    ),
    *(("TIMESTAMP", "DATE"), ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"), ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP")),
    *(
        ("TIMESTAMP_NS", "TIMESTAMP"),
        ("TIME_NS", "TIME"),
        ("VARCHAR", "BLOB"),
        ("INTEGER", "VARCHAR"),
        ("VARCHAR", "DATE"),
    ),
    *(("BIGINT[]", "INTEGER[]"), ("INTEGER", "INTEGER[]"), ("STRUCT(a BIGINT)", "STRUCT(a INTEGER)")),
    *(("STRUCT(a INTEGER, b INTEGER)", "STRUCT(a INTEGER)"), ("STRUCT(a INTEGER)", "STRUCT(a INTEGER, b INTEGER)")),
    *(("STRUCT(b INTEGER)", "STRUCT(a INTEGER)"), ("MAP(BIGINT, DATE)", "MAP(INTEGER, DATE)")),
    ("MAP(DATE, TIMESTAMP)", "MAP(DATE, DATE)"),
]


@pytest.mark.parametrize(("given", "wanted"), FITS + LOSE)
def test_fits_accepts_types_without_silent_loss(given: str, wanted: str) -> None:
    assert fits(duckdb.sqltype(given), duckdb.sqltype(wanted)) is ((given, wanted) in FITS)


@pytest.mark.parametrize("names", [["id", "n", "id"], ["id", "ID"]])
def test_columns_with_the_same_name_are_refused(names: list[str]) -> None:
    with pytest.raises(SchemaError, match="the frame has two columns") as caught:
        check_distinct(names)
    assert caught.value.hint == "rename one of them"
    check_distinct(names[:1])


def test_no_rows_are_written_to_a_column_that_files_cannot_store() -> None:
    with pytest.raises(SchemaError, match="files cannot store the column 'at' of the type TIME_NS"):
        check_fit("raw.t", {"at": "TIME_NS"}, {"at": "TIME_NS"})


ROWS_SQL = "(SELECT * FROM (VALUES (1, 'ab'), (2, 'b'), (3, NULL)) AS v (c0, c1))"


def row_of(source: str, columns: int = 2) -> tuple[int, ...]:
    with duckdb.default_connection().cursor() as con:
        found = con.execute(fingerprint_sql(columns, source)).fetchall()
    (row,) = found
    return tuple(row)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("SELECT * FROM rows ORDER BY c0 DESC", True),
        ("SELECT c0 + 1 AS c0, c1 FROM rows", False),
        ("SELECT c0, CASE WHEN c1 <> 'b' THEN c1 END AS c1 FROM rows", False),
        ("SELECT c0, coalesce(c1, '') AS c1 FROM rows", False),
        ("SELECT c0, reverse(c1) AS c1 FROM rows", False),
        ("FROM rows UNION ALL FROM rows", False),
    ],
)
def test_fingerprint_depends_on_values_and_not_on_their_order(change: str, same: bool) -> None:
    changed = row_of(f"(WITH rows AS (FROM {ROWS_SQL}) {change})")
    assert (fingerprints(changed) == fingerprints(row_of(ROWS_SQL))) is same


def test_fingerprints_of_parts_add_up_to_that_of_the_whole() -> None:
    parts = [row_of(f"(FROM {ROWS_SQL} WHERE c0 % 2 = {rest})") for rest in (0, 1)]
    assert fingerprints([sum(values) for values in zip(*parts, strict=True)]) == fingerprints(row_of(ROWS_SQL))


def test_fingerprint_holds_sums_above_64_bits() -> None:
    count, (numbers,) = fingerprints(row_of("(SELECT i AS c0 FROM range(1000) r(i))", columns=1))
    assert (count, numbers.values) == (1000, 1000)
    assert numbers.hash > 1 << 64


ARRAYS = pa.table(
    {"id": pa.array([1, 2, 3], pa.int32()), "e": pa.array([[1.0, 2.0], [3.0, None], None], pa.list_(pa.float32(), 2))}
)


@pytest.mark.slow("on_spark")
@pytest.mark.parametrize("kind", ["pyarrow", "polars", "duckdb"])
def test_arrays_with_a_fixed_length_are_written_as_lists(
    store: Store, engine: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Embeddings are such arrays."""
    frame = {"pyarrow": ARRAYS, "polars": pl.from_arrow(ARRAYS), "duckdb": duckdb.from_arrow(ARRAYS)}[kind]
    wanted = ARRAYS.to_pylist()

    def rows(table: Table) -> list[dict[str, object]]:
        return sorted(table.to_arrow().to_pylist(), key=lambda row: str(row["id"]))

    with store.open(engine) as lake:
        table = lake.create_table("t", {"id": "INTEGER", "e": "FLOAT[]"})
        table.append(frame)
        table.merge(frame, on="id")
        assert rows(table) == wanted
        made = lake.create_table("made", frame)
        assert made.schema == {"id": "INTEGER", "e": "FLOAT[]"}
        assert "the column e of the type FLOAT[2] becomes a list: FLOAT[]" in caplog.text or engine is not None
        made.append(frame)
        assert rows(made) == wanted
        evolved = lake.create_table("evolved", {"id": "INTEGER"})
        evolved.append(frame, evolve=True)
        assert rows(evolved) == wanted
        with pytest.raises(SchemaError, match="use a list, such as FLOAT"):
            lake.create_table("declared", {"e": "FLOAT[2]"})
        nested = duckdb.sql("SELECT {'e[2]': [[1, 2], [3, 4]]::INTEGER[2][2]} AS s")
        if engine is None:
            assert lake.create_table("n", nested).append(nested)
            assert lake.table("n").to_arrow().to_pylist() == [{"s": {"e[2]": [[1, 2], [3, 4]]}}]
