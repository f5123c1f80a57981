"""Structured Streaming writes each batch to a lake exactly once, and reads a table as a stream."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_parts import scope_of, session_of
from local_stores import config_of
from pyspark.errors import StreamingQueryException
from strength import in_prove
from writing_process import start

import lakeconf
from lakeconf.errors import LakeconfError, TableNotFoundError, UnsupportedError
from lakeconf.lake.stream_target import StreamSink
from lakeconf.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return config_of(tmp_path)


@pytest.fixture
def lake(config: dict[str, Any], spark: SparkSession) -> Iterator[Lake]:
    with lakeconf.init(config).get_store("dev").open(spark) as lake:
        lake.create_table("events", {"id": "BIGINT"})
        yield lake


def land(tmp_path: Path, number: int) -> None:
    """Writes a source file; each file becomes one batch."""
    (tmp_path / "source").mkdir(exist_ok=True)
    pq.write_table(
        pa.table({"id": pa.array([2 * number, 2 * number + 1], pa.int64())}), tmp_path / f"source/{number}.parquet"
    )


def drain(spark: SparkSession, tmp_path: Path, sink: Callable[..., None]) -> None:
    """Runs the query until all source files are processed."""
    stream = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "source"))
    writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def ids(lake: Lake) -> list[int]:
    lake.refresh()
    return sorted(lake.sql("SELECT id FROM events").collect("pyarrow").to_native()["id"].to_pylist())


@pytest.mark.slow
def test_each_batch_creates_one_snapshot(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    before = lake.snapshot_id
    land(tmp_path, 0)
    land(tmp_path, 1)
    drain(spark, tmp_path, lake.stream_sink("events"))
    assert lake.snapshot_id == before + 2
    land(tmp_path, 2)
    drain(spark, tmp_path, lake.stream_sink("events"))
    assert ids(lake) == list(range(6))
    assert lake.snapshot_id == before + 3


@pytest.mark.slow
@pytest.mark.parametrize("step", ["before the append", "in the append", "after the commit"])
def test_failed_query_resumes_from_its_checkpoint(
    lake: Lake, spark: SparkSession, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path, 0)
    land(tmp_path, 1)
    failed: list[str] = []
    sink = lake.stream_sink("events")

    def once(moment: str) -> None:
        if moment == step and len(failed) == 0:
            failed.append(moment)
            raise RuntimeError("the power went out")

    def failing(batch: Any, batch_id: int) -> None:
        once("before the append")
        sink(batch, batch_id)
        once("after the commit")

    staged = type(session_of(lake).engine).stage

    def staging(*arguments: Any) -> Any:
        found = staged(*arguments)
        once("in the append")
        return found

    monkeypatch.setattr(type(session_of(lake).engine), "stage", staging)
    with pytest.raises(Exception, match="the power went out"):
        drain(spark, tmp_path, failing)
    assert failed == [step]
    drain(spark, tmp_path, failing)
    assert ids(lake) == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["resolve", *in_prove(["in the statements"])])
def test_killed_query_resumes_from_its_checkpoint(
    lake: Lake, spark: SparkSession, tmp_path: Path, config: dict[str, Any], point: str
) -> None:
    land(tmp_path, 0)
    land(tmp_path, 1)
    writer = start(
        config,
        {"spark.master": "local[2]", "spark.ui.enabled": "false"},
        operation="stream",
        number=0,
        point=point,
        folder=str(tmp_path),
    )
    writer.communicate()
    assert writer.returncode == -9
    # The modification times decide which file is the first batch.
    assert ids(lake) in ([[0, 1], [2, 3]] if point == "resolve" else [[]])
    drain(spark, tmp_path, lake.stream_sink("events"))
    assert ids(lake) == [0, 1, 2, 3]
    keys = lake.sql("SELECT idempotency_key FROM lakeconf.commits ORDER BY 1").collect("pyarrow").to_native()
    query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    assert keys["idempotency_key"].to_pylist() == [f"stream {query} batch {number}" for number in (0, 1)]


@pytest.mark.slow
def test_named_query_with_a_different_checkpoint_is_rejected(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    """Spark restarts batch numbers at 0, so equal numbers of two checkpoints mean different rows."""
    for number in (0, 1):
        land(tmp_path, number)
        drain(spark, tmp_path, lake.stream_sink("events", query="mine"))
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.rmtree(tmp_path / "source")
    land(tmp_path, 2)
    before = lake.refresh()
    with pytest.raises(StreamingQueryException, match="from another checkpoint"):
        drain(spark, tmp_path, lake.stream_sink("events", query="mine"))
    assert (lake.refresh(), ids(lake)) == (before, [0, 1, 2, 3])
    drain(spark, tmp_path, lake.stream_sink("events", query="mine-2"))
    assert ids(lake) == [0, 1, 2, 3, 4, 5]


def test_batch_outside_a_query_needs_a_query_name(lake: Lake, spark: SparkSession) -> None:
    batch = spark.createDataFrame([(1,)], "id LONG")
    with pytest.raises(LakeconfError, match="does not belong to a streaming query"):
        lake.stream_sink("events")(batch, 0)
    for _ in range(2):
        StreamSink(Table(scope_of(lake), "events"), query="mine")(batch, 0)
    assert ids(lake) == [1]


def test_sink_of_a_missing_table_is_refused_at_once(two_tables: Lake) -> None:
    with pytest.raises(TableNotFoundError, match="none"):
        two_tables.stream_sink("main.none")


@pytest.mark.slow
@pytest.mark.needs_spark("4.2")
@pytest.mark.usefixtures("project")
def test_a_lake_that_is_open_for_reading_has_streams(spark: SparkSession) -> None:
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
    with lakeconf.init().get_store().open(spark, read_only=True) as lake:
        with pytest.raises(LakeconfError, match="a stream follows the newest snapshot"):
            lake.at(version=1).stream("t")
        assert lake.stream("t", since=1, changes=True).columns == ["snapshot_id", "rowid", "change_type", "id"]


def test_a_stream_needs_a_session_and_a_configuration_file(store: Store, spark: SparkSession) -> None:
    with store.open() as lake, pytest.raises(UnsupportedError, match="a stream needs a classic Spark session"):
        lake.stream("t")
    with store.open(spark) as lake, pytest.raises(UnsupportedError, match="'dev' is not declared in a file"):
        lake.stream("t")
