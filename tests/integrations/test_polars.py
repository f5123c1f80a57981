"""lakeconf.scan_polars: rows that Polars reads, filters that the scan receives, and refused types."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from doc_pages import block
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import lakeconf
from lakeconf.errors import (
    LakeconfError,
    PredicateError,
    SnapshotNotFoundError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.integrations.polars import _Translation

if TYPE_CHECKING:
    from pathlib import Path

    from server_project import Project

UTC = dt.UTC
ROWS = """
    SELECT * FROM (VALUES
        (1, 0.1::DOUBLE, 'a', DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00.000001', true),
        (2, 'nan'::DOUBLE, 'B', DATE '0001-01-01', TIMESTAMP '1969-12-31 23:59:59', false),
        (3, '-0.0'::DOUBLE, '', DATE '2024-02-29', TIMESTAMP '2024-03-31 02:30:00', NULL),
        (4, 'infinity'::DOUBLE, 'ß', DATE '9999-12-31', NULL, true),
        (NULL, NULL, NULL, NULL, TIMESTAMP '2024-01-01 00:00:00', false),
        (9223372036854775807, 1e300, 'a"''b', DATE '2024-01-01', TIMESTAMP '2024-01-01 12:00:00', NULL)
    ) AS t(i, f, s, d, t, "b "".c")
"""
BOOLEAN = 'b ".c'
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.sampled_from([1, 2, 4, 9223372036854775807, -1]),
    "small": st.sampled_from([1, 2, 300, 1.5]),
    "f": st.sampled_from([0.1, 0.0, float("nan"), float("inf"), 1e300, 1]),
    "single": st.sampled_from([0.1, 0.5, 1]),
    "s": st.sampled_from(["a", "B", "", "ß", "a\"'b", "zz"]),
    "d": st.sampled_from([dt.date(2024, 1, 1), dt.date(1, 1, 1), dt.datetime(2024, 1, 1, 5)]),
    "t": st.sampled_from([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1), dt.date(2024, 1, 1)]),
    "z": st.sampled_from([dt.datetime(2024, 1, 1, tzinfo=UTC), dt.datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
    BOOLEAN: st.booleans(),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> lakeconf.Store:
    folder = tmp_path_factory.mktemp("polars")
    config = {
        "metadata_backend": {"type": "sqlite", "uri": str(folder / "catalog.sqlite")},
        "storage_backend": {"type": "local", "path": str(folder / "data")},
    }
    made = lakeconf.init({"stores": {"dev": config}}).get_store()
    with made.connect() as con:
        con.execute(
            "CREATE TABLE kinds AS SELECT *, (i % 300)::UTINYINT AS small, f::FLOAT AS single,"
            f" t::TIMESTAMPTZ AS z FROM ({ROWS}) WHERE i < 5 OR i IS NULL"
        )
        con.execute(f"INSERT INTO kinds SELECT *, 7, 0, '2024-01-01 02:00:00+02' FROM ({ROWS}) WHERE i > 5")
    return made


@st.composite
def conditions(draw: st.DrawFn) -> pl.Expr:
    """A typical filter: comparisons of columns with values, combined by Boolean operators."""
    kind = draw(st.sampled_from(["compare", "compare", "turned", "null", "in", "between", "not", "and", "or"]))
    if kind == "not":
        return ~draw(conditions())
    if kind in ("and", "or"):
        left, right = draw(conditions()), draw(conditions())
        return left & right if kind == "and" else left | right
    name = draw(st.sampled_from(list(VALUES)))
    column, value = pl.col(name), VALUES[name]
    if kind == "null":
        return draw(st.sampled_from([column.is_null(), column.is_not_null()]))
    if kind == "in":
        return column.is_in([draw(value)])
    if kind == "between":
        return column.is_between(draw(value), draw(value), draw(st.sampled_from(["both", "left", "none"])))
    left, right = (pl.lit(draw(value)), column) if kind == "turned" else (column, pl.lit(draw(value)))
    return draw(st.sampled_from([left == right, left != right, left < right, left <= right, left > right]))


@pytest.fixture(scope="module")
def kinds(store: lakeconf.Store) -> tuple[pl.LazyFrame, pl.DataFrame]:
    lazy = lakeconf.scan_polars(store, "kinds")
    return lazy, lazy.collect()


@pytest.mark.slow
@given(conditions(), st.sampled_from([None, ["i"], ["s", "z"]]))
def test_filters_give_the_same_rows_as_in_polars(
    kinds: tuple[pl.LazyFrame, pl.DataFrame], condition: pl.Expr, columns: list[str] | None
) -> None:
    lazy, rows = kinds
    try:
        expected = rows.filter(condition).select(columns or rows.columns)
    except pl.exceptions.PolarsError:
        return  # Polars does not support this comparison
    assert_frame_equal(lazy.filter(condition).select(columns or rows.columns).collect(), expected)


def test_common_filters_are_pushed_down(store: lakeconf.Store) -> None:
    schema = lakeconf.scan_polars(store, "kinds").collect_schema()
    for condition in (
        pl.col("i") > pl.lit(2, pl.Int64),
        pl.lit("a") == pl.col("s"),
        pl.col("d").is_between(pl.lit(dt.date(2024, 1, 1)), pl.lit(dt.date(2024, 2, 1))),
        pl.col("s").is_in(["a", "b"]) & pl.col("f").is_not_null(),
        ~(pl.col(BOOLEAN) | pl.col("i").is_null()),
        pl.col("z") < dt.datetime(2024, 1, 1, tzinfo=UTC),
    ):
        tree = json.loads(condition.meta.serialize(format="json"))
        assert _Translation(schema).condition(tree) is not None  # it raises an error otherwise


@pytest.mark.slow
def test_pushed_down_filters_skip_files(project: Path) -> None:
    store = lakeconf.init().get_store()
    with store.connect() as con:
        con.execute("CREATE TABLE t (i BIGINT, s VARCHAR); INSERT INTO t VALUES (1, 'x')")
        ((first, *_),) = con.execute("FROM ducklake_list_files('dev', 't')").fetchall()
        con.execute("INSERT INTO t VALUES (2, 'x')")
    (project / first).unlink()
    lazy = lakeconf.scan_polars("dev", "t")
    assert lazy.filter(pl.col("i") == 2).collect().rows() == [(2, "x")]
    assert lazy.filter(pl.col("s") == "x", pl.col("i") > 1).select("s").collect().rows() == [("x",)]
    assert lakeconf.scan_polars(None, "t", where="i = 2").collect().rows() == [(2, "x")]
    with pytest.raises(StorageError, match="No such file"):
        lazy.collect()


@pytest.mark.slow
def test_slices_and_the_order_of_filter_and_head(store: lakeconf.Store) -> None:
    lazy = lakeconf.scan_polars(store, "kinds").sort("i", nulls_last=True).select("i")
    assert lazy.head(2).collect()["i"].to_list() == [1, 2]
    assert lazy.filter(pl.col("i") > 1).head(1).collect()["i"].to_list() == [2]
    every = lakeconf.scan_polars(store, "kinds")
    assert every.head(3).filter(pl.col("i") > 2).collect().height <= 1
    assert every.filter(pl.col("i") > 2).head(3).collect().height == 3
    assert every.filter(pl.col("s") == "none").collect().schema == every.collect_schema()
    assert every.select(pl.len()).collect().item() == 6
    lazy = every.filter(pl.col("i") > 1)
    assert lazy.sort("i").head(1).select("i").collect(engine="streaming").item() == 2
    assert lazy.top_k(1, by="i").select("i").collect().item() == 9223372036854775807


@pytest.mark.slow
def test_frame_reads_the_snapshot_of_its_creation(project: Path) -> None:
    store = lakeconf.init().get_store()
    with store.open() as lake:
        first = lake.create_table("raw.events", like={"id": "BIGINT"}).append(pl.DataFrame({"id": [1]}))
        pinned = lakeconf.scan_polars("dev", "raw.events")
        lake.table("raw.events").append(pl.DataFrame({"id": [2]}))
    assert pinned.collect()["id"].to_list() == [1]
    assert lakeconf.scan_polars("dev", "raw.events").collect()["id"].sort().to_list() == [1, 2]
    assert lakeconf.scan_polars("dev", "raw.events", version=first).collect()["id"].to_list() == [1]


def test_errors_are_raised_when_the_frame_is_created(store: lakeconf.Store) -> None:
    with pytest.raises(TableNotFoundError):
        lakeconf.scan_polars(store, "nowhere")
    with pytest.raises(SnapshotNotFoundError):
        lakeconf.scan_polars(store, "kinds", version=99)
    with pytest.raises(PredicateError):
        lakeconf.scan_polars(store, "kinds", where="i + 1 = now()")


@pytest.mark.slow
def test_huge_integers_are_decimals_and_what_polars_lacks_is_refused(project: Path) -> None:
    store = lakeconf.init().get_store()
    with store.connect() as con:
        con.execute("CREATE TABLE t AS SELECT sum(range) AS total, 'x' AS s FROM range(10)")
        con.execute("CREATE TABLE u AS SELECT 340282366920938463463374607431768211455::UHUGEINT AS total")
        values = ("INTERVAL 1 MONTH", "'10:00:00+02'::TIMETZ", "[1::HUGEINT]")
        for number, value in enumerate(values):
            con.execute(f"CREATE TABLE odd{number} AS SELECT {value} AS odd")
    assert lakeconf.scan_polars(store, "t").filter(pl.col("total") > 44).collect().rows() == [(45, "x")]
    with pytest.raises(LakeconfError, match="UHUGEINT"):
        lakeconf.scan_polars(store, "u").collect()
    for number in range(len(values)):
        with pytest.raises(UnsupportedError, match=r"Polars does not support the type .*\.odd"):
            lakeconf.scan_polars(store, f"odd{number}")


@pytest.mark.slow
def test_example_of_the_page(server_project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    server_project.rows(
        "CREATE SCHEMA raw; CREATE TABLE raw.events AS SELECT * FROM (VALUES"
        " ('purchase', TIMESTAMP '2024-01-01 10:00:00', 1.5::DECIMAL(10,2)),"
        " ('login', TIMESTAMP '2024-01-02 10:00:00', NULL), ('purchase', TIMESTAMP '2024-01-02 11:00:00', 2)"
        ") t(event_type, event_timestamp, revenue)"
    )
    exec(block("integrations/polars.md", "python", "scan_polars"), {})  # noqa: S102 - that is what is tested
    assert "2.00" in capsys.readouterr().out
    plan = lakeconf.scan_polars("prod", "raw.events").explain()
    server_project.assert_no_secret(text=plan)
