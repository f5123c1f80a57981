"""A session of an untested Spark version is rejected before the store is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from pyspark.sql import SparkSession
from source_tree import project_file

import lakeconf
from lakeconf.engines.spark.start import TESTED, check_version
from lakeconf.errors import SparkError, SparkVersionError

if TYPE_CHECKING:
    from pathlib import Path

OTHERS = ["3.5.8", "4.0.1", "4.2.1", "4.20.0", "4.4.0", "5.0.0", "14.3.0", "4.2.1-amzn-0", "unknown", ""]
SAME = ["4.3.0", "4.3.1", "4.3.12", "4.3.0-amzn-1", "4.3.1.dev0"]


@pytest.mark.parametrize("version", OTHERS)
def test_untested_spark_version_opens_no_lake(
    version: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    storage = {"type": "local", "path": str(tmp_path / "data")}
    metadata = {"type": "sqlite", "uri": str(tmp_path / "catalog.sqlite")}
    stores = {"dev": {"metadata_backend": metadata, "storage_backend": storage}}
    monkeypatch.setattr(SparkSession, "version", property(lambda _: version))
    with pytest.raises(SparkVersionError, match=r"lakeconf supports Spark 4\.3") as caught:
        lakeconf.init({"stores": stores}).get_store().open(spark)
    assert isinstance(caught.value, SparkError)
    assert repr(version) in caught.value.message
    assert "pip install 'lakeconf[spark]'" in str(caught.value)
    assert "store.open()" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", SAME)
def test_tested_spark_version_is_accepted(version: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "version", property(lambda _: version))
    check_version(spark)


def test_test_session_has_the_tested_version(spark: SparkSession) -> None:
    check_version(spark)
    assert spark.version.startswith(f"{TESTED}.")


def test_spark_extra_installs_only_the_tested_version() -> None:
    lines = map(Requirement, project_file()["optional-dependencies"]["spark"])
    (pyspark,) = (line for line in lines if line.name == "pyspark")
    assert pyspark.marker is None
    assert {version for version in ("4.2.1", "4.3.0", "4.3.9", "4.4.0", "5.0.0") if version in pyspark.specifier} == {
        f"{TESTED}.0",
        f"{TESTED}.9",
    }
