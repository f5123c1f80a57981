"""Executors sort and write the rows of data files: with their ids, exact statistics, and one range in each file."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from local_stores import store_of
from plain_sql import run_plain
from strength import some

from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.sorted_files import SortEngine
from lakeconf.engines.spark.classic_engine import SparkEngine
from lakeconf.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

VALUES = {
    "id": ("BIGINT", "i"),
    'day "of" month': ("DATE", "DATE '2026-01-01' + CAST(i % 9 AS INTEGER)"),
    "ratio": ("DOUBLE", "CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN 'nan'::DOUBLE ELSE i * 1.5 END"),
    "small": ("FLOAT", "i / 10"),
    "flag": ("BOOLEAN", "CASE WHEN i > 3 THEN i % 2 = 0 END"),
    "kind": ("VARCHAR", "CASE WHEN i % 4 > 0 THEN 'k' || (i % 4) END"),
    "long": ("VARCHAR", "repeat('z', 300) || i"),
    "amount": ("DECIMAL(10, 2)", "i * 1.25"),
    "time": ("TIMESTAMPTZ", "TIMESTAMPTZ '2026-01-01 00:00:00+00' + i * INTERVAL 1 HOUR"),
    "point": ("STRUCT(x DOUBLE, y INTEGER)", "{'x': i * 0.1, 'y': i}"),
}
CONDITIONS = (
    "id = 12", "ratio > 30", "ratio = 'nan'", "ratio IS NULL", "small = 1.5::FLOAT", "flag", "kind = 'k2'",
    "kind IS NULL", "long > repeat('z', 300) || '5'", "amount = 12.5",
    "time < '2026-01-01 05:00:00+00'", "point.y = 7", "point.x > 2",
)  # fmt: skip
NO_COPY = "DuckDB wrote the files"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_of(tmp_path)


def create(lake: Lake, partitioned_by: list[str], **more: tuple[str, str]) -> None:
    values = VALUES | more
    lake.create_table("t", {name: kind for name, (kind, _) in values.items()}, partitioned_by=partitioned_by)
    columns = ", ".join(value for _, value in values.values())
    for begin in range(0, 60, 15):
        run_plain(lake, f"INSERT INTO t SELECT {columns} FROM range({begin}, {begin + 15}) AS r(i)")
    run_plain(lake, "DELETE FROM t WHERE id IN (3, 20)", "UPDATE t SET small = NULL WHERE id % 11 = 5")
    lake.refresh()


def contents(lake: Lake) -> list[str]:
    return list(map(str, lake._session.writer.rows("SELECT rowid, COLUMNS(*)::VARCHAR FROM dev.t ORDER BY rowid")))


def check_statistics(store: Store) -> None:
    """DuckDB without lakeconf's settings finds the same rows with statistics as in the rows themselves."""
    with duckdb.connect() as plain:
        store.attach(plain)
        for condition in CONDITIONS:
            found = [
                plain.sql(f"SELECT count(*) FROM {rows} WHERE {condition}").fetchall()
                for rows in ("dev.t", "(SELECT * FROM dev.t LIMIT 1000000)")
            ]
            assert found[0] == found[1], condition
        bounds = "min(id), max(id), min(ratio), max(small), min(flag), max(flag), min(kind), max(amount), max(time)"
        bounds += ", min(long), max(long)"
        exact = "FROM (SELECT * FROM dev.t WHERE id + 0 > -1)"
        assert str(plain.sql(f"SELECT {bounds} FROM dev.t").fetchall()) == str(
            plain.sql(f"SELECT {bounds} {exact}").fetchall()
        )


def without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise AssertionError(NO_COPY)

    monkeypatch.setattr(DuckDBEngine, "stage_sorted", fails)


@pytest.mark.parametrize("partitioned_by", some([["kind"], []], 1))
def test_executors_sort_the_files(
    spark: SparkSession, store: Store, partitioned_by: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.open(spark) as lake:
        create(lake, partitioned_by)
        run_plain(lake, "CALL dev.set_option('target_file_size', '4KB')")
        table, before, version = lake.table("t"), contents(lake), lake.snapshot_id
        feed = sorted(map(str, table.changes(1).collect("pyarrow").rows()))
        with monkeypatch.context() as patch:
            without_duckdb(patch)
            done = table.rewrite(['day "of" month desc', "id"])
        assert (done.complete, done.commits) == (True, 4 if partitioned_by else 1)
        assert contents(lake) == before
        assert sorted(map(str, table.changes(1).collect("pyarrow").rows())) == feed
        assert sorted(map(str, table.scan().collect("pyarrow").rows())) == sorted(
            map(str, lake.at(version=version).table("t").scan().collect("pyarrow").rows())
        )
        ranges = []
        for file in table.files():
            rows: list[tuple[Any, ...]] = lake._session.writer.rows(
                f"""SELECT "day ""of"" month", id FROM dev.t WHERE filename = '{file.path}'"""
            )
            assert rows == sorted(rows, key=lambda row: (-row[0].toordinal(), row[1]))
            ranges.append((file.partition, rows[0], rows[-1]))
        assert len(ranges) > 2
        if partitioned_by:
            assert all(
                f"/kind={file.partition[0] or '__HIVE_DEFAULT_PARTITION__'}/" in file.path for file in table.files()
            )
        else:
            days = sorted((last[0], first[0]) for _, first, last in ranges)
            assert all(low[1] <= high[0] for low, high in itertools.pairwise(days))
        assert not any("lakeconf-" in path for path in lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True))
    check_statistics(store)
    with store.open() as lake:
        run_plain(lake, "INSERT INTO t SELECT * REPLACE (id + 1000 AS id, 99 AS ratio) FROM t WHERE id > 50")
    check_statistics(store)
    with store.open(spark) as lake:
        before = contents(lake)
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        assert contents(lake) == before
    check_statistics(store)


@pytest.mark.parametrize(
    ("kind", "value"), [("BIGINT[]", "[i]"), ("BLOB", "('b' || i)::BLOB"), ("UBIGINT", "i"), ("HUGEINT", "i")]
)
def test_duckdb_writes_what_spark_cannot(
    spark: SparkSession, store: Store, kind: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.open(spark) as lake:
        create(lake, [], more=(kind, value))
        before = contents(lake)
        with monkeypatch.context() as patch:
            without_duckdb(patch)
            with pytest.raises(AssertionError, match=NO_COPY):
                lake.table("t").rewrite("id")
        assert lake.table("t").rewrite("id").files_after == 1
        assert contents(lake) == before
        assert not any("lakeconf-" in path for path in lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True))
    check_statistics(store)


def test_job_that_fails_leaves_no_file(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    with store.open(spark) as lake:
        create(lake, ["flag"])
        run_plain(lake, "UPDATE t SET kind = '{SNAPSHOT' || '_ID}' WHERE id = 7")
        lake.refresh()
        before = {path.name for path in (tmp_path / "data").rglob("*.parquet")}
        # Partitions without this text are sorted.
        with pytest.raises(SchemaError, match="'kind' has a value with a placeholder"):
            lake.table("t").rewrite("id")
        known = {file.path.rpartition("/")[2] for file in lake.table("t").files()}
        assert {path.name for path in (tmp_path / "data").rglob("*.parquet")} <= before | known


def test_engine_of_spark_sorts() -> None:
    assert issubclass(SparkEngine, SortEngine)
