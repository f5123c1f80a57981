"""Each ATTACH option works or is rejected before the lake is attached; options of maintenance, addresses of servers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from local_stores import on_postgres, on_sqlite, store_of

from lakeconf.backends.server import is_loopback
from lakeconf.backends.store_options import OPTIONS, MaintenanceLimits, option_fault
from lakeconf.errors import CatalogError, CatalogMissingError, LakeconfError, UnsafeQueryError
from lakeconf.inspection.doctor import diagnose
from lakeconf.inspection.read_only_sql import query
from lakeconf.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake

WORKING: list[dict[str, Any]] = [
    {"automatic_migration": True},
    {"create_if_not_exists": True},
    {"data_inlining_row_limit": 100},
    {"encrypted": True},
    {"metadata_catalog": "my meta"},
    {"override_data_path": True},
    {"read_only": False},
]
ELSEWHERE = {"snapshot_version", "snapshot_time"}  # tested below


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(lake: Lake) -> list[int]:
    return sorted(number for (number,) in lake.table("t").scan().collect("pyarrow").rows())


def check_all(store: Store, engine: Any = None) -> None:
    """Writes, reads, uses time travel, runs maintenance and diagnoses the store."""
    with store.open(engine) as lake:
        table = lake.create_table("t", {"id": "BIGINT"})
        first = table.append(rows(*range(10)))
        table.delete("id = 3")
        table.merge(rows(1, 50), on="id")
        found = [0, 1, 2, 4, 5, 6, 7, 8, 9, 50]
        assert (ids(lake), ids(lake.at(version=first))) == (found, list(range(10)))
        assert len(table.changes(first + 1).collect("pyarrow")) == 4  # one delete, one update, one insert
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)
        assert ids(lake) == found
    with store.open(engine, read_only=True) as lake:
        assert ids(lake) == found
    assert [step.name for step in diagnose(store) if step.status == "failed"] == []


@pytest.mark.slow
@pytest.mark.parametrize("options", WORKING, ids=lambda options: next(iter(options)))
def test_option_works_for_all_operations(tmp_path: Path, options: dict[str, Any]) -> None:
    check_all(store_of(tmp_path, **options))


def test_every_option_is_tested() -> None:
    assert {name for options in WORKING for name in options} | ELSEWHERE == OPTIONS["attach_options"].keys()


@pytest.mark.slow
def test_metadata_names_with_spaces_on_postgres(tmp_path: Path, postgres_server: Any) -> None:
    catalog = {**on_postgres(postgres_server), "metadata_schema": "my lake"}
    check_all(store_of(tmp_path, catalog, metadata_catalog="my meta"))


@pytest.mark.slow
def test_name_of_the_metadata_works_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    check_all(store_of(tmp_path, on_sqlite(tmp_path), metadata_catalog="my meta"), spark)


@pytest.mark.slow
def test_missing_lake_is_not_created_if_the_option_forbids_it(tmp_path: Path) -> None:
    with pytest.raises(CatalogMissingError, match="has no lake yet"):
        store_of(tmp_path, create_if_not_exists=False).open()
    store_of(tmp_path).connect().close()
    check_all(store_of(tmp_path, create_if_not_exists=False))


@pytest.mark.parametrize("pin", ["snapshot_version", "snapshot_time"])
def test_pinned_store_reads_its_snapshot(tmp_path: Path, pin: str) -> None:
    """Includes scans and time travel, which select a snapshot explicitly."""
    with store_of(tmp_path).open() as lake:
        version = lake.create_table("t", {"id": "BIGINT"}).append(rows(1))
        snapshot = lake.snapshots()[-1]
        lake.table("t").append(rows(2))
    options: dict[str, Any] = {pin: version if pin == "snapshot_version" else str(snapshot.time)}
    with store_of(tmp_path, **options).open() as lake:
        assert (lake.snapshot_id, ids(lake), lake.sql("FROM t").collect("pyarrow").rows()) == (version, [1], [(1,)])
        assert (ids(lake.at(version=version + 1)), lake.table("t").explain().files) == ([1, 2], 1)
        assert (lake.refresh(), ids(lake)) == (version, [1])
        with pytest.raises(LakeconfError, match="is read-only"):
            lake.table("t").append(rows(3))
    with pytest.raises(LakeconfError, match="No snapshot found"):
        store_of(tmp_path, snapshot_version=99).open()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metadata_catalog": "Memory"}, "DuckDB reserves 'Memory'"),
        ({"metadata_catalog": ""}, "metadata_catalog: must not be empty"),
        ({"metadata_catalog": "DEV"}, "metadata_catalog: 'dev' is the alias of the lake itself"),
        ({"snapshot_version": 1, "snapshot_time": "2026-01-01"}, "snapshot_time: the lake is already pinned"),
        ({"snapshot_version": 1, "read_only": False}, "read_only: a lake that is pinned at a snapshot is read-only"),
        ({"snapshot_version": -1}, "snapshot_version: must not be negative"),
        ({"data_inlining_row_limit": -1}, "data_inlining_row_limit: must not be negative"),
        ({"metadata_schema": "lk"}, "metadata_schema: unknown attach option"),
    ],
)
def test_invalid_option_is_rejected(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(LakeconfError, match=message):
        store_of(tmp_path, **options)
    plain = store_of(tmp_path)
    with pytest.raises(LakeconfError, match=message):
        Store("dev", plain.metadata_backend, plain.storage_backend, attach_options=options)


@pytest.mark.parametrize("options", [{}, {"metadata_catalog": "Taken"}])
def test_database_of_the_connection_is_not_replaced(tmp_path: Path, options: dict[str, Any]) -> None:
    """DuckLake replaces a database of the same name; a lake that used it would then write to this lake's catalog."""
    name = options.get("metadata_catalog", "__ducklake_metadata_dev").lower()
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH ':memory:' AS {name}; CREATE TABLE {name}.t AS SELECT 7 AS i")
        with pytest.raises(CatalogError, match="which ATTACH would replace"):
            store_of(tmp_path, **options).attach(connection)
        assert connection.execute(f"FROM {name}.t").fetchall() == [(7,)]


def test_queries_cannot_read_the_catalog_through_its_custom_name(tmp_path: Path) -> None:
    store = store_of(tmp_path, metadata_catalog="my meta")
    store.connect().close()
    with pytest.raises(UnsafeQueryError, match="of the catalog database"):
        query(store, 'FROM "my meta".ducklake_data_file')


def test_address_of_this_machine() -> None:
    for endpoint in ("localhost", "localhost:9000", "LOCALHOST", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:5432"):
        assert is_loopback(endpoint), endpoint
    for endpoint in (
        *("", "example.com", "10.0.0.1", "192.0.2.1", "[::2]:1", "localhost.example.com", "127.0.0.1.example.com"),
        *("::1", "[::1", "127.0.0.1@example.com", "example.com/localhost", "1270.0.1"),
    ):
        assert not is_loopback(endpoint), endpoint


def maintenance_problem(key: str, value: object) -> str | None:
    found = option_fault("maintenance", key, value)
    return None if found is None else found.message


def test_deadline_is_a_sum_of_units() -> None:
    day = {"days": 1, "hours": 2, "minutes": 3, "seconds": 4}
    found = {
        "45s": {"seconds": 45},
        "30m": {"minutes": 30},
        "2h": {"hours": 2},
        "1d2h3m4s": day,
        "90m": {"minutes": 90},
    }
    for text, parts in found.items():
        assert maintenance_problem("deadline", text) is None
        assert MaintenanceLimits.of({"deadline": text}) == MaintenanceLimits(timedelta(**parts), None), text
    for text in ("", "30", "m", "30 m", "-1m", "1.5h", "3m2h", "1h1h", "30min", "30M", "٣m", "9999999d"):
        assert maintenance_problem("deadline", text) == "is not a duration", text
    assert maintenance_problem("deadline", "0h0m") == "must be more than 0"
    assert maintenance_problem("deadline", 30) == "must be a string"
    assert option_fault("maintenance", "dead_line", "30m") == ("key", "unknown key", 'did you mean "deadline"?')


def test_memory_limit_is_a_size_that_duckdb_accepts() -> None:
    for text in ("4GB", "4 GB", "1.5GiB", "512MB", "1000000B", "700kib", "2TB"):
        assert maintenance_problem("memory_limit", text) is None, text
        with duckdb.connect() as connection:
            connection.execute("SET memory_limit = $limit", {"limit": text})
        assert MaintenanceLimits.of({"memory_limit": text}).memory_limit == text
    for text in ("", "4", "GB", "-1GB", "4GX", "80%", "4GB; DROP", "1e3GB", "٤GB"):
        assert maintenance_problem("memory_limit", text) == "is not a size", text
    assert maintenance_problem("memory_limit", "0.0GB") == "must be more than 0"
    assert maintenance_problem("memory_limit", 4) == "must be a string"
