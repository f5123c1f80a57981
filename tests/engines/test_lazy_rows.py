"""Frames of DuckDB: `collect` without the package of the frame says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import narwhals as nw
import polars as pl
import pyarrow as pa
import pytest

from lakeconf.engines.frames import LazyRows, lazy_rows

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
