"""Files that models load, and inputs of other stores: both engines read the same rows from files of any schema."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from local_stores import config_of, in_bucket
from promotions import stores

import lakeconf
from lakeconf.engines.spark.read.native_scan import read_files
from lakeconf.pipelines import Append, Model, Pipeline, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import S3Server

    from lakeconf import Lake

# SHARED: types that Spark and DuckDB read in the same way. OWN: types that Spark lacks or reads differently.
SHARED: dict[str, pa.Array] = {
    "i": pa.array([1, None, 3], pa.int64()),
    "d": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(10, 2)),
    "t": pa.array(["a", "", None]),
    "day": pa.array([date(1, 1, 1), date(2024, 2, 29), None]),
    "at": pa.array([datetime(1900, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 1), None], pa.timestamp("us")),
    "utc": pa.array([datetime(2024, 1, 1, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
    "f": pa.array([float("nan"), -0.0, None]),
    "l": pa.array([[1, None], [], None], pa.list_(pa.int32())),
    "s": pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int16())])),
    "Mixed Name": pa.array([True, False, None]),
}
OWN: dict[str, pa.Array] = {
    "u": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "nanos": pa.array([1000, None, 2000], pa.timestamp("ns")),
    "id": pa.array([UUID(int=1).bytes, None, UUID(int=2).bytes], pa.uuid()),
}


@pytest.fixture
def lake(tmp_path: Path, engine: Any) -> Iterator[Lake]:
    """The lake of the store `raw`, which also contains a schema named `raw`."""
    with stores(tmp_path, "raw")["raw"].open(engine) as lake:
        yield lake


def rows(lake: Lake, table: str) -> list[Any]:
    native: Any = lake.sql(f"FROM {table}").to_native()
    return sorted(map(repr, native.fetchall()))


def written(folder: Path, name: str, columns: dict[str, pa.Array]) -> str:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return str(folder / f"{name}.parquet")


@pytest.mark.parametrize("columns", [SHARED, SHARED | OWN], ids=["shared", "own"])
def test_loaded_rows_equal_those_that_duckdb_reads(columns: dict[str, pa.Array], lake: Lake, tmp_path: Path) -> None:
    landing = tmp_path / "landing %20"
    written(landing, "one", columns)
    # The columns in another order, and one of them missing.
    written(landing, "two", dict(reversed(list(columns.items())[1:])))
    loaded = Model("raw.files", Append(files="landing %20/*.parquet"), folder=tmp_path)
    (result,) = run(Pipeline([loaded]), lake)
    assert result.status == "done", result.error
    listed = ", ".join(f"'{path}'" for path in sorted(landing.glob("*")))
    # Compared as text: Spark returns a UBIGINT as a DECIMAL and a UUID as a string.
    found, expected = "raw.raw.files", f"read_parquet([{listed}], union_by_name = true)"
    assert rows(lake, f"(SELECT COLUMNS(*)::VARCHAR FROM {found})") == rows(
        lake, f"(SELECT COLUMNS(*)::VARCHAR FROM {expected})"
    )


@pytest.mark.parametrize("engine", ["on_spark"], indirect=True)
def test_nanoseconds_that_spark_cannot_store_are_loaded_by_duckdb(lake: Lake, tmp_path: Path) -> None:
    written(tmp_path, "one", {"nanos": pa.array([1001], pa.timestamp("ns"))})
    (result,) = run(Pipeline([Model("raw.files", Append(files="one.parquet"), folder=tmp_path)]), lake)
    assert result.status == "done"
    assert rows(lake, "(SELECT epoch_ns(nanos) FROM raw.raw.files)") == ["(1001,)"]


def test_values_that_a_type_would_round_are_refused_on_both_engines(lake: Lake, tmp_path: Path) -> None:
    loaded = Model("raw.files", Append(files="*.csv", columns={"id": "BIGINT"}), folder=tmp_path)
    (tmp_path / "1.csv").write_text("id\n1\n")
    assert run(Pipeline([loaded]), lake)[0].status == "done"
    (tmp_path / "2.csv").write_text("id\n2.7\n")
    (failed,) = run(Pipeline([loaded]), lake)
    assert "which its type BIGINT would change" in str(failed.error)
    assert rows(lake, "raw.raw.files") == ["(1,)"]


def test_executors_read_only_types_that_equal_those_of_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    shared, own = written(tmp_path, "shared", SHARED), written(tmp_path, "own", OWN)

    def types(path: str) -> dict[str, str]:
        relation = duckdb.sql(f"FROM '{path}'")
        return dict(zip(relation.columns, map(str, relation.types), strict=True))

    found = read_files(spark, [shared], types(shared))
    assert found is not None
    assert found.count() == 3
    assert read_files(spark, [own], types(own)) is None
    # Hadoop would read the braces as a pattern. For a missing file, DuckDB reports the error.
    assert read_files(spark, [shared.replace("shared", "{shared}")], types(shared)) is None
    assert read_files(spark, [shared + "x"], types(shared)) is None


@pytest.mark.hadoop_aws
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_landing_zone_in_the_bucket(
    engine: str, s3_server: S3Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bucket = s3_server.create_bucket()
    store = lakeconf.init(config_of(tmp_path, storage=in_bucket(s3_server, bucket))).get_store("dev")
    landed = Model("raw.numbers", Append(files=f"s3://{bucket}/landing/*.parquet"))
    session = None
    if engine == "spark":
        request.getfixturevalue("spark")
        session = lakeconf.spark_session(store)
    with store.connect() as native, store.open(session) as lake:
        for number in range(2):
            native.sql(f"SELECT {number} AS i").write_parquet(f"s3://{bucket}/landing/{number}.parquet")
            (result,) = run(Pipeline([landed]), lake)
            assert (result.status, result.reason) == ("done", "1 new file"), result.error
        (skipped,) = run(Pipeline([landed]), lake)
        assert (skipped.status, rows(lake, "raw.numbers")) == ("skipped", ["(0,)", "(1,)"])
