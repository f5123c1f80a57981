"""Engine protocols: both engines scan and write, and only the Spark engine has the Spark operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import catalog_lake
import pytest
from spark_rows import access_to

from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.engine import SparkOperations, spark_operations
from lakeconf.engines.spark.classic_engine import SparkEngine
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_lake import Lake
    from pyspark.sql import SparkSession

    from lakeconf.engines.engine import Engine


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with catalog_lake.lake("duckdb", tmp_path) as attached:
        yield attached


def test_only_the_spark_engine_has_spark_operations(lake: Lake, spark: SparkSession) -> None:
    connection = lake.reader.connection
    on_duckdb: Engine = DuckDBEngine(lake.reader, connection)
    on_spark: Engine = SparkEngine(spark, lake.reader, connection, {}, access_to(lake))
    assert isinstance(spark_operations(on_spark, "a test"), SparkEngine)
    assert not isinstance(on_duckdb, SparkOperations)
    with pytest.raises(UnsupportedError) as caught:
        spark_operations(on_duckdb, "registering views")
    assert (
        caught.value.message == "registering views needs a classic Spark session, and this lake was opened without one"
    )
    assert caught.value.hint == "open the lake with a session: store.open(spark)"
