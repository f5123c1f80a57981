"""Engines that replace Spark's Parquet reader are rejected by name; other plugins and extensions are accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark import SparkConf
from spark_rows import access_to

from lakeconf.engines.spark.classic_engine import SparkEngine
from lakeconf.engines.spark.versions import refuse_accelerators
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession

SETTINGS = {
    "RAPIDS": ("spark.plugins", "com.nvidia.spark.SQLPlugin"),
    "Gluten": ("spark.plugins", "org.apache.gluten.GlutenPlugin"),
    "Gluten before Apache": ("spark.plugins", "io.glutenproject.GlutenPlugin"),
    "Comet": ("spark.plugins", "org.apache.spark.CometPlugin"),
    "Comet by its extension": ("spark.sql.extensions", "org.apache.comet.CometSparkSessionExtensions"),
    "Blaze": ("spark.sql.extensions", "org.apache.spark.sql.blaze.BlazeSparkSessionExtension"),
    "Auron": ("spark.sql.extensions", "org.apache.spark.sql.auron.AuronSparkSessionExtension"),
    "Photon": ("spark.databricks.clusterUsageTags.runtimeEngine", "PHOTON"),
}
HARMLESS = ("io.delta.sql.DeltaSparkSessionExtension", "org.apache.sedona.sql.SedonaSqlExtensions")


def with_setting(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, key: str, value: str) -> None:
    """Sets a setting of the running application that can only be set at startup."""
    configuration = SparkConf(_jvm=spark._jvm).setAll(spark.sparkContext.getConf().getAll())
    monkeypatch.setattr(spark.sparkContext, "_conf", configuration.set(key, value))


@pytest.mark.parametrize("engine", SETTINGS)
def test_engine_that_replaces_the_parquet_reader_is_rejected(
    spark: SparkSession, engine: str, monkeypatch: pytest.MonkeyPatch, files: Lake
) -> None:
    key, value = SETTINGS[engine]
    with_setting(spark, monkeypatch, key, f"{HARMLESS[0]},{value}" if "runtime" not in key else value)
    with pytest.raises(UnsupportedError, match=f"uses {engine.split()[0]} ") as caught:
        SparkEngine(spark, files.reader, files.reader.connection, {}, access_to(files))
    assert value in str(caught.value)
    assert "read and write with DuckDB" in str(caught.value)


def test_photon_enabled_after_startup_is_rejected(spark: SparkSession) -> None:
    spark.conf.set("spark.databricks.photon.enabled", "true")
    try:
        with pytest.raises(UnsupportedError, match="Photon"):
            refuse_accelerators(spark)
        spark.conf.set("spark.databricks.photon.enabled", "false")
        refuse_accelerators(spark)
    finally:
        spark.conf.unset("spark.databricks.photon.enabled")


def test_other_extensions_are_accepted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with_setting(spark, monkeypatch, "spark.sql.extensions", ",".join(HARMLESS))
    refuse_accelerators(spark)
