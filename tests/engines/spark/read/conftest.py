from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.engines.spark.internals import active_session_kept
from lakeconf.engines.spark.sessions import private_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture
def private(spark: SparkSession) -> Iterator[SparkSession]:
    """A session like that of a scan; the shared session is the active one again after the test."""
    with active_session_kept(spark):
        yield private_session(spark)
