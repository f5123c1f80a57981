"""The configuration and the lakes of lakeconf 0.1.0 work with this version."""

from __future__ import annotations

import importlib.util
import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from source_tree import REPOSITORY

import lakeconf
from lakeconf.pipelines import declared_pipeline, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELEASE = REPOSITORY / "tests" / "data" / "release_0_1"
STORES = ("sqlite", "duckdb")
_spec = importlib.util.spec_from_file_location("make_lakes", RELEASE / "make_lakes.py")
assert _spec is not None
assert _spec.loader is not None
make_lakes: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_lakes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The lakes, at another path than the one at which they were written."""
    with tarfile.open(RELEASE / "lakes.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    for name in ("lakeconf.toml", "large.sql"):
        shutil.copy(RELEASE / name, tmp_path)
    return tmp_path


def test_the_configuration_is_valid(folder: Path) -> None:
    config = lakeconf.init(folder)
    for name in ("sqlite", "duckdb", "prod", "staging", "cloud"):
        assert config.get_store(name).preview_sql()


@pytest.mark.parametrize("name", STORES)
def test_each_snapshot_has_its_rows(name: str, folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())[name]
    with lakeconf.init(folder).get_store(name).open() as lake:
        assert make_lakes.states(lake) == expected
        assert sorted(lake.sql("FROM raw.cheap").to_native().fetchall()) == [(0,), (1,), (9,), (11,)]
    assert len(expected) > 8


@pytest.mark.slow
@pytest.mark.parametrize("name", STORES)
def test_spark_reads_each_snapshot(name: str, folder: Path, spark: SparkSession) -> None:
    expected = json.loads((folder / "expected.json").read_text())[name]
    with lakeconf.init(folder).get_store(name).open(spark) as lake:
        for version, tables in expected.items():
            for table, rows in tables.items():
                read = lake.at(version=int(version)).table(table).scan().to_native().collect()
                assert sorted(str(tuple(row.asDict(recursive=True).values())) for row in read) == rows


@pytest.mark.parametrize("name", STORES)
def test_a_lake_is_written_and_its_runs_and_keys_are_known(name: str, folder: Path) -> None:
    config = lakeconf.init(folder)
    with config.get_store(name).open() as lake:
        orders = lake.table("raw.orders")
        before = orders.count()
        orders.append(lake.sql("FROM raw.orders LIMIT 1"), idempotency_key="first")  # committed by 0.1.0
        assert orders.count() == before
        orders.merge(lake.sql("SELECT * REPLACE (price + 10 AS price) FROM raw.orders WHERE id < 2"), on="id")
        assert sorted(orders.scan(["price"], "id < 2").to_native().fetchall()) == [(11,), (12,)]
        (result,) = run(declared_pipeline(config), lake)
        assert (result.error, result.rows) == (None, 6)
