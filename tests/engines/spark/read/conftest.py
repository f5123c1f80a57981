from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.engines.spark.session import private_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def private(spark: SparkSession) -> SparkSession:
    return private_session(spark)
