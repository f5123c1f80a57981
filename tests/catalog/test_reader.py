from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from catalog_lake import METADATA, Lake, lake

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.scan import plan_scan
from lakeconf.catalog.snapshot import latest
from lakeconf.connection.connection import connect, load_extension
from lakeconf.errors import CatalogError

if TYPE_CHECKING:
    from pathlib import Path

    from servers import PostgresServer


@pytest.mark.parametrize(
    ("version", "advice"), [("0.3", "open a copy"), ("1.1-dev.1", "upgrade"), ("", "check that it is the catalog")]
)
def test_unsupported_catalog_version_is_rejected_with_a_hint(local: Lake, version: str, advice: str) -> None:
    local.run(f"UPDATE {METADATA}.ducklake_metadata SET value = '{version}' WHERE key = 'version'")
    with pytest.raises(CatalogError, match=rf"version {version}.*, but lakeconf supports 1\.0: {advice}"):
        latest(local.reader)


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])  # SQLite blocks writers during a read transaction
def test_reader_transaction_is_isolated_from_concurrent_writes(
    kind: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    with lake(kind, tmp_path, server=postgres_server) as source:
        source.run("CREATE TABLE lake.t (a INTEGER)")
        with source.reader.transaction() as transaction:
            before = transaction.rows("SELECT max(snapshot_id) FROM ducklake_snapshot")
            source.run("INSERT INTO lake.t SELECT * FROM range(100)")
            assert transaction.rows("SELECT max(snapshot_id) FROM ducklake_snapshot") == before
            assert transaction.rows("SELECT count(*) FROM ducklake_data_file") == [(0,)]
        assert latest(source.reader).snapshot_id == before[0][0] + 1


def test_uncommitted_changes_are_not_visible(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER)", "BEGIN", "INSERT INTO lake.t VALUES (1)")
    assert plan_scan(local.reader, "t", 1).files == ()
    local.run("COMMIT")
    assert len(plan_scan(local.reader, "t", 2).files) == 1


@pytest.mark.parametrize("given", ["in ATTACH", "to the reader"])
def test_metadata_in_a_custom_schema(tmp_path: Path, given: str) -> None:
    with lake("duckdb", tmp_path, options=", METADATA_SCHEMA 'my \"schema'") as attached:
        attached.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
        schema = None if given == "in ATTACH" else 'my "schema'
        reader = CatalogReader(attached.connection, "lake", schema)
        assert plan_scan(reader, "t", 2).inlined_row_count == 1


def test_metadata_schema_from_a_secret_must_be_passed_explicitly(tmp_path: Path) -> None:
    with connect() as connection:
        load_extension(connection, "ducklake")
        options = f"METADATA_PATH '{tmp_path}/c.duckdb', DATA_PATH '{tmp_path}/data', METADATA_SCHEMA 'lk'"
        connection.execute(f"CREATE SECRET s (TYPE ducklake, {options}); ATTACH 'ducklake:s' AS lake")
        with pytest.raises(CatalogError, match="pass metadata_schema"):
            latest(CatalogReader(connection, "lake"))
        assert latest(CatalogReader(connection, "lake", "lk")).snapshot_id == 0
        with pytest.raises(CatalogError, match="does not contain the metadata"):
            latest(CatalogReader(connection, "lake", "elsewhere"))


def test_metadata_catalog_with_a_custom_name_is_found(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path, options=", METADATA_CATALOG 'my meta'") as attached:
        assert latest(attached.reader).snapshot_id == 0


def test_database_that_is_not_a_lake_is_rejected() -> None:
    with connect() as connection:
        connection.execute("ATTACH ':memory:' AS lake")
        with pytest.raises(CatalogError, match="no DuckLake is attached as 'lake'"):
            latest(CatalogReader(connection, "lake"))


def test_file_paths_are_absolute_and_use_an_overridden_data_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with lake("duckdb", tmp_path, options=", DATA_INLINING_ROW_LIMIT 0") as attached:
        attached.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    os.rename(tmp_path / "data", tmp_path / "moved")
    with connect() as connection:
        load_extension(connection, "ducklake")
        options = "DATA_PATH 'moved', OVERRIDE_DATA_PATH true"
        connection.execute(f"ATTACH 'ducklake:{tmp_path}/catalog.duckdb' AS lake ({options})")
        (file,) = plan_scan(CatalogReader(connection, "lake"), "t", 2).files
        assert file.path.startswith(f"{tmp_path}/moved/main/t/")
        assert connection.rows(f"SELECT * FROM read_parquet('{file.path}')") == [(1,)]


def test_reader_reports_encryption(tmp_path: Path) -> None:
    for encrypted in (False, True):
        with lake("duckdb", tmp_path / str(encrypted), options=f", ENCRYPTED {encrypted}") as attached:
            assert attached.reader.encrypted is encrypted
