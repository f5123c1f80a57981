"""Frames become temporary views of a session of the same application."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.engines.spark.sessions import register
from lakeconf.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_view_has_the_rows_of_its_frame_in_the_given_session(spark: SparkSession) -> None:
    other = spark.newSession()
    register(other, {"a `b`.c": spark.range(3), "second": spark.range(5)})
    assert other.sql("SELECT count(*) FROM `a ``b``.c`").collect() == [(3,)]
    assert other.table("second").count() == 5
    assert not spark.catalog.tableExists("second")
    register(other, {"second": spark.range(7)})
    assert other.table("second").count() == 7


def test_session_of_another_application_is_rejected(spark: SparkSession) -> None:
    class Other:
        sparkContext = object()  # noqa: N815 - the name in pyspark

    for session in (Other(), object()):
        with pytest.raises(SparkError) as refused:
            register(session, {"a": spark.range(1)})  # type: ignore[arg-type]
        assert refused.value.message == (
            "the session for the views belongs to another Spark application than the session of the lake"
        )
        assert refused.value.hint == "omit the session, or open the lake with it: store.open(spark)"
