"""The configuration and the lakes of lakeconf 0.1.0 work with this version."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from source_tree import REPOSITORY

import lakeconf
from lakeconf.cli.app import run as command
from lakeconf.pipelines import declared_pipeline, run

if TYPE_CHECKING:
    from postgres_server import PostgresServer
    from pyspark.sql import SparkSession

RELEASE = REPOSITORY / "tests" / "data" / "release_0_1"
STORES = ("sqlite", "duckdb")
WRITTEN_AT = "/srv/acme/"
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
    # Adopted files stay where they are, so the catalog has their absolute paths.
    with duckdb.connect(str(tmp_path / "catalog.duckdb")) as catalog:
        moved = "UPDATE ducklake_data_file SET path = replace(path, ?, ?) WHERE NOT path_is_relative"
        assert catalog.execute(moved, [WRITTEN_AT, f"{tmp_path}/"]).fetchall() == [(1,)]
    return tmp_path


@pytest.fixture
def postgres_folder(
    folder: Path, postgres_server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The lakes, with the catalog in PostgreSQL from its dump."""
    values = {"HOST": postgres_server.host, "PORT": str(postgres_server.port), "USER": postgres_server.user}
    for name, value in {**values, "DATABASE": database}.items():
        monkeypatch.setenv(f"PG{name}", value)
    monkeypatch.setenv("LAKE_PG_PASSWORD", postgres_server.password)
    postgres_server.sql((folder / "catalog.sql").read_text(), database)
    return folder


def test_the_configuration_is_valid(folder: Path) -> None:
    config = lakeconf.init(folder)
    for name in ("sqlite", "duckdb", "postgres", "prod", "staging", "cloud"):
        assert config.get_store(name).preview_sql()


@pytest.mark.parametrize("name", STORES)
def test_each_snapshot_has_its_rows(name: str, folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())[name]
    with lakeconf.init(folder).get_store(name).open() as lake:
        assert make_lakes.states(lake) == expected
        assert sorted(lake.sql("FROM raw.cheap").to_native().fetchall()) == [(0,), (1,), (9,), (11,)]
    assert len(expected) > 8


def test_a_catalog_in_postgres_has_its_rows_and_is_written(postgres_folder: Path) -> None:
    expected = json.loads((postgres_folder / "expected.json").read_text())["postgres"]
    with lakeconf.init(postgres_folder).get_store("postgres").open() as lake:
        assert make_lakes.states(lake) == expected
        lake.table("raw.items").append([{"name": "cup"}])
        assert lake.table("raw.items").count() == 3


def test_what_spark_wrote_and_an_adopted_table_are_read(folder: Path) -> None:
    for name in STORES:
        with lakeconf.init(folder).get_store(name).open() as lake:
            rows = lake.sql("FROM raw.on_spark ORDER BY id").to_native().fetchall()
            assert [(number, int(price), values) for number, price, values in rows] == [
                (number, number, [number]) for number in (0, 1, 3, 4, 5)
            ]
    with lakeconf.init(folder).get_store("duckdb").open() as lake:
        assert lake.table("raw.landed").count() == 5


def test_a_branch_reads_its_lake_and_has_its_own_rows(folder: Path) -> None:
    config = lakeconf.init(folder)
    assert [pin.store for pin in config.get_store("sqlite").branches()] == ["branch"]
    with config.get_store("branch").open() as lake:
        assert lake.table("raw.on_spark").count() == 5
        assert lake.table("raw.items").count() == 3


def test_a_backup_is_restored(folder: Path) -> None:
    store = lakeconf.init(folder).get_store("sqlite")
    # The lakes are at another path, and removing files needs a confirmation that nobody uses the former one.
    command(["doctor", "--store", "sqlite", "--repair", "--yes", "--config", str(folder)])
    with store.open() as lake:
        newest, rows = lake.snapshot_id, lake.table("raw.orders").count()
        lake.table("raw.orders").delete("id >= 0")
    (state,) = store.backups(str(folder / "backups"))
    assert (state.problem, state.backup is not None) == (None, True)
    store.restore_lake(state.path)
    with store.open() as lake:
        assert (lake.snapshot_id, lake.table("raw.orders").count()) == (newest, rows)


def test_the_files_of_the_release_are_small_and_name_no_machine(folder: Path) -> None:
    assert (RELEASE / "lakes.tar.gz").stat().st_size < 300_000
    local = re.compile(rb"/(?:tmp|home|root|work|dev|Users)/[\w./-]{3,}")
    moved = folder / "catalog.duckdb"
    files = [path for path in folder.rglob("*") if path.is_file() and path != moved]
    assert {path: local.findall(path.read_bytes()) for path in files if local.search(path.read_bytes())} == {}
    assert len(files) > 40


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
