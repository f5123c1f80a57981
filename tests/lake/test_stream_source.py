"""`Lake.stream` reads a table of the lake as a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lakeconf
from lakeconf.errors import LakeconfError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Store


@pytest.mark.usefixtures("project")
def test_a_stream_of_one_table_fills_another_one_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = lakeconf.init().get_store()
    monkeypatch.chdir("/")  # the processes of Spark know the file by its path
    with store.open(spark) as lake:
        source = lake.create_table("raw.events", {"id": "BIGINT"})
        lake.create_table("copy", {"id": "BIGINT"})
        for _ in range(2):
            source.append([{"id": lake.snapshot_id}])
            run(lake, tmp_path, since=1)
        assert rows(lake, "copy") == rows(lake, "raw.events")
        with pytest.raises(LakeconfError, match="a stream follows the newest snapshot"):
            lake.at(version=2).stream("raw.events")


def run(lake: lakeconf.Lake, folder: Path, **options: Any) -> None:
    """Copies what is new to the table `copy`."""
    writer = lake.stream("raw.events", **options).writeStream.foreachBatch(lake.stream_sink("copy"))
    writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


def rows(lake: lakeconf.Lake, table: str) -> list[int]:
    found = lake.table(table).to_arrow().column("id").to_pylist()
    assert len(found) == 2
    return sorted(found)


@pytest.mark.usefixtures("project")
def test_a_lake_that_is_open_for_reading_has_streams(spark: SparkSession) -> None:
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
    with lakeconf.init().get_store().open(spark, read_only=True) as lake:
        assert lake.stream("t", since=1, changes=True).columns == ["snapshot_id", "rowid", "change_type", "id"]


def test_a_stream_needs_a_session(store: Store) -> None:
    with store.open() as lake, pytest.raises(UnsupportedError, match="a stream needs a Spark session"):
        lake.stream("t")


def test_a_stream_needs_a_configuration_file(store: Store, spark: SparkSession) -> None:
    with store.open(spark) as lake, pytest.raises(UnsupportedError, match="'dev' is not declared in a file"):
        lake.stream("t")
