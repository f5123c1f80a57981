from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.engines.spark.connect.source import check_reading, settings_of
from lakeconf.errors import SparkError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGED = {
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "false",
    "spark.sql.parquet.enableVectorizedReader": "false",
    "spark.sql.parquet.int96AsTimestamp": "false",
    "spark.sql.parquet.int96TimestampConversion": "true",
    "spark.sql.parquet.recordLevelFilter.enabled": "true",
    "spark.sql.retainGroupColumns": "false",
    "spark.sql.sources.useV1SourceList": "orc,json",
    "spark.sql.variant.allowReadingShredded": "false",
}


def test_default_settings_are_accepted(connect: SparkSession) -> None:
    check_reading(settings_of(connect))
    check_reading({"spark.sql.parquet.enableVectorizedReader": "TRUE", "spark.sql.sources.useV1SourceList": "Parquet"})


@pytest.mark.parametrize("setting", CHANGED)
def test_setting_that_could_change_rows_is_refused(connect: SparkSession, setting: str) -> None:
    connect.conf.set(setting, CHANGED[setting])
    with pytest.raises(UnsupportedError, match=f"{setting} = {CHANGED[setting]}") as raised:
        check_reading(settings_of(connect))
    assert f"spark.conf.unset('{setting}')" in str(raised.value)


def test_server_that_does_not_answer(connect: SparkSession) -> None:
    stopped = connect.newSession()
    stopped.stop()
    with pytest.raises(SparkError, match="the Spark Connect server does not answer"):
        settings_of(stopped)
