"""Frames of DuckDB: those of another connection, and packages that `collect` needs."""

from __future__ import annotations

import datetime as dt
import importlib.util
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakeconf
from lakeconf.engines.frames import LazyRows, arrow_table, lazy_rows, native_frame
from lakeconf.errors import SchemaError

ROWS = 300_000


@pytest.mark.parametrize("has_pyarrow", [True, False])
def test_frame_of_another_lake_can_be_read_twice(
    has_pyarrow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = {
        name: {
            "metadata_backend": {"type": "sqlite", "uri": str(tmp_path / f"{name}.sqlite")},
            "storage_backend": {"type": "local", "path": str(tmp_path / name)},
        }
        for name in ("one", "other")
    }
    config = lakeconf.init({"stores": declared})
    with config.get_store("one").open() as one, config.get_store("other").open() as other:
        if not has_pyarrow:
            find = importlib.util.find_spec
            monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name))
        frame = other.sql(f"SELECT i, (i % 7)::VARCHAR AS s FROM range({ROWS}) t(i)")
        for query, expected in (
            ("SELECT count(*) FROM (FROM f EXCEPT ALL FROM f)", 0),
            ("SELECT count(*) FROM f a JOIN f b USING (i, s)", ROWS),
            ("SELECT count(*) FROM (FROM f UNION ALL FROM f)", 2 * ROWS),
        ):
            assert one.query(query, {"f": frame}).to_native().fetchall() == [(expected,)], query
        table = one.create_table("raw.t", {"i": "BIGINT", "s": "VARCHAR"})
        table.merge(frame, on="i")
        table.merge(frame, on="i")
        assert one.sql("SELECT count(*) FROM raw.t").to_native().fetchall() == [(ROWS,)]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"v": [dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 5)]}),
        pd.DataFrame({"v": pd.Series([dt.datetime(2026, 1, 1), pd.Timestamp(0, tz="UTC")], dtype=object)}),
        pd.DataFrame({"v": [1, "a"]}),
        pd.DataFrame({"v": [2**70]}),
        pd.DataFrame({"v": [Decimal(1), 1.5]}),
        pd.DataFrame([[1, 2]], columns=["v", "v"]),
        pd.DataFrame([[1, 2]], columns=["v", "V"]),
        pl.DataFrame({"v": pl.Series([object()], dtype=pl.Object)}),
        pl.LazyFrame({"v": pl.Series([object()], dtype=pl.Object)}),
        pl.DataFrame({"v": pl.Series([2**100], dtype=pl.Int128)}),
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
        lake.sql("FROM t"), lake.query("FROM rows", {{"rows": scan}}), lake.table("t").changes(1),
        nw.concat([scan, scan]),
    ]
    for frame in frames:
        try:
            frame.collect({backend!r})
        except lakeconf.errors.MissingDependencyError as error:
            print(error.message, error.hint)
    print(len(frames))
"""


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
    assert told == [f"this frame needs the package '{package}', which is not installed run: {hint}"] * int(count)


def test_frame_is_one_of_narwhals() -> None:
    frame = lazy_rows(duckdb.sql("SELECT 1 AS id"))
    assert isinstance(frame, LazyRows)
    assert isinstance(frame.with_columns(x=nw.lit(1)), LazyRows)
    assert nw.from_native(frame) is frame
    assert frame.collect().to_native() == pa.table({"id": pa.array([1], pa.int32())})
    assert frame.collect("polars").to_native().equals(pl.DataFrame({"id": [1]}, {"id": pl.Int32}))
    assert frame.collect(backend=nw.Implementation.PANDAS).to_native()["id"].tolist() == [1]
    with pytest.raises(ValueError, match="Unsupported `backend`"):
        frame.collect("dask")
