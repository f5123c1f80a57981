"""A session of an untested Spark version is rejected before the store is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
import pytest
from packaging.requirements import Requirement
from pyspark.sql import SparkSession
from source_tree import project_file

import lakeconf
from lakeconf.engines.spark.versions import TESTED, check_streams, check_version
from lakeconf.errors import SparkError, SparkVersionError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

OTHERS = ["3.5.8", "4.20.0", "4.4.0", "5.0.0", "14.3.0", "3.5.8-amzn-0", "unknown", ""]
SAME = ["4.0.2-amzn-0", "4.1.4", "4.2.1", "4.3.0", "4.3.12", "4.3.1.dev0"]


@pytest.mark.parametrize("version", OTHERS)
def test_untested_spark_version_opens_no_lake(
    version: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    storage = {"type": "local", "path": str(tmp_path / "data")}
    metadata = {"type": "sqlite", "uri": str(tmp_path / "catalog.sqlite")}
    stores = {"dev": {"metadata_backend": metadata, "storage_backend": storage}}
    monkeypatch.setattr(SparkSession, "version", property(lambda _: version))
    with pytest.raises(SparkVersionError, match=r"lakeconf supports Spark 4\.0 to 4\.3") as caught:
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
    assert spark.version.startswith(tuple(f"{tested}." for tested in TESTED))


def test_streams_of_the_data_source_need_spark_4_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.2.0-amzn-1")
    check_streams()
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    with pytest.raises(UnsupportedError, match=r"need Spark 4\.2 or newer, and this is 4\.1\.4"):
        check_streams()


def test_spark_extra_installs_only_the_tested_versions() -> None:
    lines = map(Requirement, project_file()["optional-dependencies"]["spark"])
    (pyspark,) = (line for line in lines if line.name == "pyspark")
    assert pyspark.marker is None
    others = ["3.5.8", "4.4.0", "5.0.0"]
    every = [*others, *(f"{tested}.{patch}" for tested in TESTED for patch in (0, 9))]
    assert [version for version in every if version not in pyspark.specifier] == others
