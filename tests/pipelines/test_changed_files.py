"""Files that models load: both engines read the same rows, and files that change afterwards are a warning."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from local_stores import config_of, in_bucket, store_of
from promotions import stores

import lakeconf
from lakeconf.catalog.file_footers import name_classes
from lakeconf.connection.connection import Connection
from lakeconf.engines.spark.read.native_scan import read_files
from lakeconf.pipelines import Append, Full, Merge, Model, Pipeline, Query, Seed, plan, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import S3Server

    from lakeconf import Lake
    from lakeconf.pipelines.models.kinds import Kind


WARNING = (
    "{} changed after the table was loaded from it: run with --rebuild to load all files of the pattern again, "
    "or write new rows to new files"
)


@pytest.fixture
def loaded(lake: Lake, tmp_path: Path) -> tuple[Lake, Pipeline, Path]:
    """A lake that has loaded `in/1.csv`, the pipeline, and the folder of the files."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("id\n1\n")
    pipeline = Pipeline([Model("raw.events", Append(files="in/*.csv"), folder=tmp_path)])
    assert run(pipeline, lake)[0].status == "done"
    return lake, pipeline, folder


def warnings(loaded: tuple[Lake, Pipeline, Path]) -> list[str]:
    (step,) = plan(loaded[1], loaded[0])
    return list(step.warnings)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["id\n1\n2\n", "id\n2\n"], ids=["longer", "same size"])
def test_changed_file_is_a_warning_until_it_is_loaded_again(text: str, loaded: tuple[Lake, Pipeline, Path]) -> None:
    lake, pipeline, folder = loaded
    (folder / "1.csv").write_text(text)
    assert warnings(loaded) == [WARNING.format("in/1.csv")]
    (skipped,) = run(pipeline, lake)
    assert (skipped.status, skipped.warnings) == ("skipped", [WARNING.format("in/1.csv")])
    # The warning does not keep new files away.
    (folder / "2.csv").write_text("id\n3\n")
    (done,) = run(pipeline, lake)
    assert (done.status, done.reason, done.warnings) == ("done", "1 new file", [WARNING.format("in/1.csv")])
    assert run(pipeline, lake, rebuild=True)[0].warnings == []
    expected = [int(line) for line in (text + "3").split() if line != "id"]
    assert lake.sql("SELECT id FROM raw.events ORDER BY id").collect().to_dict(as_series=False) == {"id": expected}
    assert warnings(loaded) == []


def test_file_that_is_gone_is_no_warning_and_leaves_its_rows(loaded: tuple[Lake, Pipeline, Path]) -> None:
    lake, pipeline, folder = loaded
    (step,) = plan(pipeline, lake, rebuild=True)
    assert (step.reason, step.replaces) == ("requested: replaces all rows by those of in/1.csv", True)
    (folder / "1.csv").unlink()
    assert warnings(loaded) == []
    (skipped,) = run(pipeline, lake, rebuild=True)
    assert (skipped.status, skipped.reason) == ("skipped", "no file of in/*.csv exists, so the table keeps its rows")
    assert lake.table("raw.events").count() == 1


def test_warning_names_three_files_and_counts_the_others(lake: Lake, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text("id\n1\n")
    pipeline = Pipeline([Model("raw.events", Append(files="*.csv"), folder=tmp_path)])
    assert run(pipeline, lake)[0].status == "done"
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text("id\n2\n")
    assert plan(pipeline, lake)[0].warnings == [WARNING.format("0.csv, 1.csv, 2.csv and 2 more")]


@pytest.mark.slow
def test_changed_object_of_a_bucket_is_a_warning(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.create_bucket()
    store = lakeconf.init(config_of(tmp_path, storage=in_bucket(s3_server, bucket))).get_store("dev")
    pipeline = Pipeline([Model("raw.numbers", Append(files=f"s3://{bucket}/landing/*.csv"))])
    url = f"s3://{bucket}/landing/1.csv"
    with store.connect() as native, store.open() as lake:
        native.sql("SELECT 1 AS i").write_csv(url)
        assert run(pipeline, lake)[0].status == "done"
        assert plan(pipeline, lake)[0].warnings == []
        native.sql("SELECT 10 AS i").write_csv(url)
        assert plan(pipeline, lake)[0].warnings == [WARNING.format(url)]


@pytest.mark.slow
def test_file_that_is_absent_while_all_files_are_loaded_again_is_loaded_when_it_returns(
    loaded: tuple[Lake, Pipeline, Path], tmp_path: Path
) -> None:
    lake, pipeline, folder = loaded
    (folder / "2.csv").write_text("id\n2\n")
    assert run(pipeline, lake)[0].reason == "1 new file"
    (folder / "2.csv").rename(tmp_path / "2.csv")
    run(pipeline, lake, rebuild=True)
    assert lake.table("raw.events").count() == 1
    (tmp_path / "2.csv").rename(folder / "2.csv")
    (done,) = run(pipeline, lake)
    assert (done.reason, done.warnings) == ("1 new file", [])
    assert sorted(lake.table("raw.events").to_arrow()["id"].to_pylist()) == [1, 2]
    assert run(pipeline, lake)[0].status == "skipped"


def test_files_of_another_pattern_or_folder_are_the_same(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("id\n1\n")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    absolute = str(tmp_path / "in" / "*.csv")
    statuses = []
    for pattern, folder in (
        (absolute, tmp_path), (absolute, tmp_path / "deep" / "er"), ("in/../in/*.csv", tmp_path),
        ("in/*.csv", type(tmp_path)()), (absolute, type(tmp_path)()),
    ):  # fmt: skip
        (result,) = run(Pipeline([Model("raw.events", Append(files=pattern), folder=folder)]), lake)
        statuses.append(result.status)
    assert statuses == ["done", "skipped", "skipped", "skipped", "skipped"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Seed("1.csv"), Full(), Merge(["id"]), Append()], ids=lambda kind: kind.name)
def test_files_are_not_added_to_the_rows_of_another_kind(kind: Kind, lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id\n1\n")
    rows = lake.sql("SELECT 1::BIGINT AS id")
    lake.create_table("raw.source", rows).append(rows)
    body = None if isinstance(kind, Seed) else Query("SELECT id FROM raw.source")
    (first,) = run(Pipeline([Model("raw.t", kind, body, folder=tmp_path)]), lake)
    assert first.status == "done", first.error
    files = Pipeline([Model("raw.t", Append(files="*.csv"), folder=tmp_path)])
    (refused,) = run(files, lake)
    assert "the run would replace all rows of raw.t: its definition has changed; needs --rebuild" in str(refused.error)
    (done,) = run(files, lake, rebuild=True)
    assert (done.status, lake.table("raw.t").count()) == ("done", 1)
    assert [step.runs for step in plan(files, lake)] == [False]


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
def on_engine(tmp_path: Path, engine: Any) -> Iterator[Lake]:
    """The lake of the store `raw`, which also contains a schema named `raw`."""
    with stores(tmp_path, "raw")["raw"].open(engine) as on_engine:
        yield on_engine


def rows(on_engine: Lake, table: str) -> list[Any]:
    native: Any = on_engine.sql(f"FROM {table}").to_native()
    return sorted(map(repr, native.fetchall()))


def written(folder: Path, name: str, columns: dict[str, pa.Array]) -> str:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return str(folder / f"{name}.parquet")


@pytest.mark.slow("on_spark")
@pytest.mark.parametrize("columns", [SHARED, SHARED | OWN], ids=["shared", "own"])
def test_loaded_rows_equal_those_that_duckdb_reads(
    columns: dict[str, pa.Array], on_engine: Lake, tmp_path: Path
) -> None:
    landing = tmp_path / "landing %20"
    written(landing, "one", columns)
    # The columns in another order, and one of them missing.
    written(landing, "two", dict(reversed(list(columns.items())[1:])))
    loaded = Model("raw.files", Append(files="landing %20/*.parquet"), folder=tmp_path)
    (result,) = run(Pipeline([loaded]), on_engine)
    assert result.status == "done", result.error
    listed = ", ".join(f"'{path}'" for path in sorted(landing.glob("*")))
    # Compared as text: Spark returns a UBIGINT as a DECIMAL and a UUID as a string.
    found, expected = "raw.raw.files", f"read_parquet([{listed}], union_by_name = true)"
    assert rows(on_engine, f"(SELECT COLUMNS(*)::VARCHAR FROM {found})") == rows(
        on_engine, f"(SELECT COLUMNS(*)::VARCHAR FROM {expected})"
    )


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["on_spark"], indirect=True)
def test_nanoseconds_that_spark_cannot_store_are_loaded_by_duckdb(on_engine: Lake, tmp_path: Path) -> None:
    written(tmp_path, "one", {"nanos": pa.array([1001], pa.timestamp("ns"))})
    (result,) = run(Pipeline([Model("raw.files", Append(files="one.parquet"), folder=tmp_path)]), on_engine)
    assert result.status == "done"
    assert rows(on_engine, "(SELECT epoch_ns(nanos) FROM raw.raw.files)") == ["(1001,)"]


@pytest.mark.slow
def test_values_that_a_type_would_round_are_refused_on_both_engines(on_engine: Lake, tmp_path: Path) -> None:
    loaded = Model("raw.files", Append(files="*.csv", columns={"id": "BIGINT"}), folder=tmp_path)
    (tmp_path / "1.csv").write_text("id\n1\n")
    assert run(Pipeline([loaded]), on_engine)[0].status == "done"
    (tmp_path / "2.csv").write_text("id\n2.7\n")
    (failed,) = run(Pipeline([loaded]), on_engine)
    assert "which its type BIGINT would change" in str(failed.error)
    assert rows(on_engine, "raw.raw.files") == ["(1,)"]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pyClass", "class"])
def test_classes_that_a_file_names_as_types_are_not_imported(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """Spark keeps the types of columns in the file, and PySpark imports the module of a user-defined type."""
    (tmp_path / "planted_types.py").write_text("raise SystemExit('this code must not run')")
    kind = {"type": "udt", name: "planted_types.T", "serializedClass": "", "sqlType": "long"}
    field = {"name": "id", "type": kind, "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [field]})
    for number, text in enumerate((schema, schema.replace("udt", "\\u0075dt"))):
        table = pa.table({"id": [1, 2]}).replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": text})
        path = str(tmp_path / f"{number}.parquet")
        pq.write_table(table, path)
        assert name_classes(Connection(duckdb.connect()), [path])
        sys.path.insert(0, str(tmp_path))
        try:
            # Spark leaves out the types if it knows no such class.
            assert read_files(spark, [path], {"id": "BIGINT"}) is None or name == "class"
            with store_of(tmp_path).open(spark) as lake:
                assert len(lake.read_parquet([path]).collect()) == 2
        finally:
            sys.path.remove(str(tmp_path))
    assert not name_classes(Connection(duckdb.connect()), [written(tmp_path, "shared", SHARED)])


@pytest.mark.slow
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
    with store.connect() as native, store.open(session) as on_engine:
        for number in range(2):
            native.sql(f"SELECT {number} AS i").write_parquet(f"s3://{bucket}/landing/{number}.parquet")
            (result,) = run(Pipeline([landed]), on_engine)
            assert (result.status, result.reason) == ("done", "1 new file"), result.error
        (skipped,) = run(Pipeline([landed]), on_engine)
        assert (skipped.status, rows(on_engine, "raw.numbers")) == ("skipped", ["(0,)", "(1,)"])
