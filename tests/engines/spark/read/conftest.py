from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.engines.spark.internals import active_session_kept
from lakeconf.engines.spark.read import scan_source
from lakeconf.engines.spark.sessions import private_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture
def private(spark: SparkSession) -> Iterator[SparkSession]:
    """A session like that of a scan; the shared session is the active one again after the test."""
    with active_session_kept(spark):
        yield private_session(spark)


@pytest.fixture(params=["bits", "a join", "a join with many delete files"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The method that filters out deleted rows; a join is used for large numbers of them."""
    if request.param != "bits":
        monkeypatch.setattr(scan_source, "_MOST_POSITIONS", -1)
    if request.param == "a join with many delete files":
        monkeypatch.setattr(scan_source, "_FEW_FILES", 0)
    return str(request.param)
