"""Reads other than scans: tables as narwhals frames, views for Spark SQL, `explain` and the change feed."""

from __future__ import annotations

import datetime as dt
import re
import sys
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl
import pyarrow as pa
import pytest
from lake_parts import session_of
from plain_sql import run_plain

import lakeconf
from lakeconf.engines.scan_summary import ScanSummary
from lakeconf.errors import (
    LakeconfError,
    MissingDependencyError,
    SnapshotNotFoundError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.inspection.read_only_sql import query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake, Store

NUMBERS = pa.table({"id": pa.array(range(100), pa.int64()), "text": [f"t{n}" for n in range(100)]})


@pytest.fixture
def duckdb_lake(store: Store) -> Iterator[Lake]:
    with store.open() as lake:
        lake.create_table("raw.numbers", like=NUMBERS)
        yield lake


@pytest.fixture
def lake(store: Store, engine: Any) -> Iterator[Lake]:
    with store.open(engine) as lake:
        lake.create_table("raw.numbers", like=NUMBERS)
        yield lake


def rows(frame: nw.LazyFrame[Any]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in frame.collect("pyarrow").to_native().to_pylist())


def write(lake: Lake, *statements: str) -> None:
    run_plain(lake, *statements)
    lake.refresh()


@pytest.mark.slow("on_spark")
def test_table_is_a_frame_of_narwhals(lake: Lake) -> None:
    @nw.narwhalify
    def first_id(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return frame.select(nw.col("id").min())

    table = lake.table("raw.numbers")
    table.append(NUMBERS)
    frame = nw.from_native(table)  # type: ignore[call-overload]  # not in the type annotations of narwhals
    assert isinstance(frame, nw.LazyFrame)
    assert type(frame.to_native()) is type(table.scan().to_native())
    assert rows(frame.filter(nw.col("id") < 2)) == [(0, "t0"), (1, "t1")]
    assert nw.get_native_namespace(frame) is nw.get_native_namespace(table.scan())
    native: Any = first_id(table)
    assert rows(nw.from_native(native)) == [(0,)]
    lake.create_table("raw.copy", like=table).append(table)
    assert rows(lake.table("raw.copy").scan()) == rows(table.scan())
    with pytest.raises(TableNotFoundError, match=r"raw\.numbrs"):
        nw.from_native(lake.table("raw.numbrs"))  # type: ignore[call-overload]


@pytest.mark.slow("on_spark")
def test_explain_counts_read_and_skipped_files(lake: Lake, tmp_path: Path) -> None:
    table = lake.table("raw.numbers")
    for start in (0, 50):
        table.append(NUMBERS.slice(start, 50))
    sizes = [path.stat().st_size for path in (tmp_path / "data").rglob("*.parquet")]
    write(
        lake,
        "CALL dev.set_option('data_inlining_row_limit', 0)",
        "DELETE FROM dev.raw.numbers WHERE id = 60",
        "CALL dev.set_option('data_inlining_row_limit', 10)",
        "INSERT INTO dev.raw.numbers VALUES (1000, 'a'), (1001, 'b')",
        "DELETE FROM dev.raw.numbers WHERE id IN (3, 61)",
    )
    every = table.explain()
    assert (every.files, every.files_skipped, every.bytes, every.bytes_skipped) == (len(sizes), 0, sum(sizes), 0)
    assert (every.delete_files, every.inlined_deletes, every.inlined_rows) == (1, 2, 2)
    few = table.explain(columns=["text"], where="id < 10")
    assert (few.files, few.files_skipped, few.delete_files, few.inlined_deletes) == (1, len(sizes) - 1, 0, 1)
    assert few.bytes + few.bytes_skipped == sum(sizes)
    assert few.bytes in sizes
    assert (few.engine, few.table, few.refusal) == (session_of(lake).engine.name, "raw.numbers", None)
    assert (few.snapshot_id, str(few).splitlines()[0]) == (
        lake.snapshot_id,
        f"scan of raw.numbers at snapshot {lake.snapshot_id} by {few.engine}",
    )
    assert f"1 of {len(sizes)} read" in str(few)
    assert "2 rows, 1 deletes" in str(few)


@pytest.mark.slow("on_spark")
def test_type_that_an_engine_cannot_read_is_refused_with_a_working_query(lake: Lake) -> None:
    write(
        lake,
        "CALL dev.set_option('data_inlining_row_limit', 10)",
        "CREATE TABLE dev.raw.times (t TIMETZ, n INTEGER)",
        "INSERT INTO dev.raw.times VALUES ('12:00:00+01', 1)",
    )
    found = lake.table("raw.times").explain()
    if not found.engine.startswith("spark"):
        assert found.refusal is None
        return
    assert (found.refusal or "").startswith("the column 't' holds TIMETZ in the catalog")
    assert f"  refused       {found.refusal}" in str(found)
    assert lake.table("raw.times").explain(columns=["n"]).refusal is None
    assert lake.table("raw.times").explain(columns=["n"], where="t IS NULL").refusal is not None
    with pytest.raises(UnsupportedError, match="holds TIMETZ in the catalog") as refused:
        lake.table("raw.times").changes(lake.snapshot_id)
    query_of_the_hint = re.search(r'lake\.sql\("(.*)"\)', refused.value.hint or "")
    assert query_of_the_hint
    assert len(rows(lake.sql(query_of_the_hint[1]))) == 1


def feed(lake: Lake, since: object, until: object) -> list[tuple[Any, ...]]:
    """The change feed of DuckLake."""
    return rows(lake.sql(f"FROM ducklake_table_changes('dev', 'raw', 'numbers', {since}, {until})"))


@pytest.mark.slow("on_spark")
def test_changes_match_the_feed_of_ducklake(lake: Lake) -> None:
    table = lake.table("raw.numbers")
    first = table.append(NUMBERS.slice(0, 2))
    second = table.update({"text": "new"}, where="id = 1")
    third = table.delete("id = 0")
    lake.refresh()
    changes = table.changes(first)
    assert session_of(lake).base.has_read({"raw.numbers"}) is True
    assert changes.collect_schema().names() == ["snapshot_id", "rowid", "change_type", "id", "text"]
    assert rows(changes) == feed(lake, first, third)
    assert rows(changes.select("snapshot_id", "change_type", "id", "text")) == [
        (first, "insert", 0, "t0"),
        (first, "insert", 1, "t1"),
        (second, "update_postimage", 1, "new"),
        (second, "update_preimage", 1, "t1"),
        (third, "delete", 0, "t0"),
    ]
    assert rows(table.changes(second, second)) == feed(lake, second, second)
    table.append(NUMBERS)
    assert rows(changes) == feed(lake, first, third)


@pytest.mark.slow("on_spark")
def test_filter_at_an_older_snapshot_finds_all_rows_after_a_compaction(lake: Lake, store: Store) -> None:
    """Plain DuckDB uses the bounds of the newest snapshot, which are those of four rows."""
    table = lake.table("raw.numbers")
    table.append(NUMBERS)
    before = lake.snapshot_id
    table.delete("id < 96")
    run_plain(lake, "CALL dev.set_option('rewrite_delete_threshold', 0.05)")
    assert lake.maintenance.compact().files_after == 1
    older, condition = lake.at(version=before), "id < 5"
    at = f"raw.numbers AT (VERSION => {before})"
    found = [
        older.table("raw.numbers").scan(where=condition).collect("pyarrow").to_native().num_rows,
        len(rows(older.table("raw.numbers").scan().filter(nw.col("id") < 5))),
        len(rows(older.sql(f"SELECT id FROM raw.numbers WHERE {condition}"))),
        len(rows(lake.sql(f"SELECT id FROM {at} WHERE {condition}"))),
        len(query(store, f"SELECT id FROM {at} WHERE {condition}")[1]),
        len(feed(lake, 0, before)),
    ]
    if session_of(lake).engine.name == "duckdb":
        found.append(older.table("raw.numbers").to_polars().filter(pl.col("id") < 5).height)
    assert set(found[:5] + found[6:]) == {5}
    assert found[5] == 100


@pytest.mark.slow("on_spark")
def test_filter_on_changes(lake: Lake) -> None:
    table = lake.table("raw.numbers")
    first = table.append(NUMBERS)
    write(
        lake,
        "CALL dev.set_option('data_inlining_row_limit', 0)",
        "DELETE FROM dev.raw.numbers WHERE id IN (3, 4)",
        "UPDATE dev.raw.numbers SET text = 'new' WHERE id IN (7, 8)",
        "DELETE FROM dev.raw.numbers WHERE id < 20",
    )
    changes = table.changes(first)
    every = rows(changes)
    assert len(every) == 100 + 2 + 4 + 18
    for version in range(first, lake.snapshot_id + 1):
        assert rows(changes.filter(nw.col("snapshot_id") == version)) == [row for row in every if row[0] == version]
    assert rows(changes.filter(nw.col("text") == "new")) == [row for row in every if row[4] == "new"]
    assert rows(changes.filter(nw.col("change_type") == "delete")) == [row for row in every if row[2] == "delete"]


@pytest.mark.slow("on_spark")
def test_changes_between_two_timestamps(lake: Lake) -> None:
    table = lake.table("raw.numbers")
    first = table.append(NUMBERS.slice(0, 2))
    second = table.append(NUMBERS.slice(2, 2))
    third = table.append(NUMBERS.slice(4, 2))
    times = {snapshot.snapshot_id: snapshot.time for snapshot in lake.snapshots()}
    instant = dt.timedelta(microseconds=1)
    assert rows(table.changes(times[second], times[second])) == feed(lake, second, second)
    assert rows(table.changes(times[first] + instant, times[third] - instant)) == feed(lake, second, second)
    assert rows(table.changes(times[first], times[third])) == feed(lake, first, third)
    by_ducklake = (
        f"TIMESTAMPTZ '{(times[first] + instant).isoformat()}'",
        f"TIMESTAMPTZ '{(times[third] - instant).isoformat()}'",
    )
    assert feed(lake, *by_ducklake) == feed(lake, second, second)
    with pytest.raises(LakeconfError, match="the range is empty"):
        table.changes(times[third] + instant)
    with pytest.raises(SnapshotNotFoundError, match="has no time zone"):
        table.changes(times[first].replace(tzinfo=None))
    with pytest.raises(SnapshotNotFoundError, match="no snapshot exists at 2001-"):
        table.changes(dt.datetime(2001, 1, 1, tzinfo=dt.UTC))


@pytest.mark.slow("on_spark")
def test_changes_exclude_rewritten_files(lake: Lake) -> None:
    table = lake.table("raw.numbers")
    write(lake, "INSERT INTO dev.raw.numbers SELECT i, 't' || i FROM range(100) r(i)")
    first = lake.snapshot_id
    write(lake, "DELETE FROM dev.raw.numbers WHERE id < 50")
    deleted = lake.snapshot_id
    write(lake, "CALL ducklake_rewrite_data_files('dev', delete_threshold => 0.0)")
    assert len(feed(lake, first, lake.snapshot_id)) == 100 + 50 + 50 + 50  # DuckLake reports rewritten rows as updates
    assert rows(table.changes(first)) == feed(lake, first, deleted)
    assert rows(table.changes(lake.snapshot_id)) == []


def test_changes_that_duckdb_returns_wrongly_are_rejected(duckdb_lake: Lake) -> None:
    table = duckdb_lake.table("raw.numbers")
    first = table.append(NUMBERS)
    write(
        duckdb_lake,
        "CALL dev.set_option('data_inlining_row_limit', 10)",
        "DELETE FROM dev.raw.numbers WHERE id = 3",
        "DELETE FROM dev.raw.numbers WHERE id > 50",
        "CALL ducklake_rewrite_data_files('dev', delete_threshold => 0.0)",
    )
    assert feed(duckdb_lake, first + 1, first + 1) == [(first + 1, 3, "delete", 3, "t3")]
    assert feed(duckdb_lake, first + 1, first + 3).count((first + 1, 3, "delete", 3, "t3")) == 2
    with pytest.raises(UnsupportedError, match=r"wrong changes for deletes from(.|\n)*with Spark"):
        table.changes(first)
    assert rows(table.changes(first + 1, first + 1)) == [(first + 1, 3, "delete", 3, "t3")]


@pytest.mark.slow("on_spark")
def test_changes_end_at_the_pinned_snapshot(lake: Lake) -> None:
    table = lake.table("raw.numbers")
    first = table.append(NUMBERS)
    last = table.append(NUMBERS)
    past = lake.at(version=first)
    assert rows(past.table("raw.numbers").changes(0)) == feed(lake, 0, first)
    message = f"until snapshot {last} were requested, but the lake reads snapshot {first}"
    with pytest.raises(LakeconfError, match=message):
        past.table("raw.numbers").changes(0, last)
    with pytest.raises(LakeconfError, match="the range is empty"):
        table.changes(last, first)
    odd = lake.create_table("raw.odd", like={"RowId": "BIGINT"})
    with pytest.raises(UnsupportedError, match="'RowId', which hides"):
        odd.changes(0)


@pytest.mark.slow("on_spark")
def test_changes_of_expired_snapshots_are_rejected(lake: Lake) -> None:
    table = lake.table("raw.numbers")
    first = table.append(NUMBERS)
    second = table.append(NUMBERS)
    last = table.append(NUMBERS)
    write(lake, f"CALL ducklake_expire_snapshots('dev', versions => [{second}])")
    with pytest.raises(
        SnapshotNotFoundError, match=f"of snapshot {second} are not available(.|\n)*changes from snapshot {last} on"
    ):
        table.changes(first)
    assert len(rows(table.changes(last))) == 100


def test_names_from_tables_are_valid_for_table(duckdb_lake: Lake) -> None:
    write(
        duckdb_lake,
        'CREATE SCHEMA dev."a.b"',
        'CREATE TABLE dev."a.b"."c.d" (n INTEGER)',
        'CREATE TABLE dev.raw."say ""hi""" (n INTEGER)',
        'CREATE TABLE dev.raw."with space" (n INTEGER)',
    )
    names = duckdb_lake.tables()
    assert names == ['"a.b"."c.d"', 'raw."say ""hi"""', "raw.numbers", "raw.with space"]
    for name in names:
        assert duckdb_lake.table(name).schema


def test_history_contains_a_rename(events_folder: Path) -> None:
    native = lakeconf.init().get_store().connect()
    native.execute("ALTER TABLE raw.events RENAME TO happenings; ALTER TABLE raw.happenings RENAME kind TO sort")
    native.close()
    with lakeconf.init().get_store().open() as opened:
        history = opened.table("raw.happenings").history()
    assert [(change.snapshot_id, change.changes) for change in history[-3:]] == [
        (4, ("inserted_into_table",)),
        (5, ("renamed_table",)),
        (6, ("altered_table",)),
    ]
    assert history[0].changes == ("created_table",)


ODD = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "day": pa.array([dt.date(2026, 1, 1), None]),
        "at": pa.array([dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
        "tags": [["a", None], None],
        "device": [{"os": "linux"}, None],
    }
)


@pytest.mark.slow("on_spark")
def test_rows_in_memory_are_those_of_a_scan(store: Store, engine: Any) -> None:
    with store.open(engine) as lake:
        table = lake.create_table("raw.odd", like=ODD)
        table.append(ODD)
        found = table.to_arrow()
        assert found.sort_by("id").to_pylist() == ODD.to_pylist()
        assert sorted(table.head(), key=lambda row: int(row["id"])) == ODD.to_pylist()
        assert len(table.head(1)) == 1
        assert table.to_arrow(["price"], where="id = 1").to_pylist() == [{"price": Decimal("1.50")}]
        frame = table.to_polars(["id", "tags"], where="id = 1")
        assert (type(frame).__module__.split(".")[0], frame.to_dicts()) == ("polars", [{"id": 1, "tags": ["a", None]}])
        pandas = table.to_pandas(["id"])
        assert (type(pandas).__module__.split(".")[0], sorted(pandas["id"])) == ("pandas", [1, 2])
        table.append([{"id": 3, "price": 2} | dict.fromkeys(("day", "at", "tags", "device"))])
        assert table.to_arrow(["price"], where="id = 3").to_pylist() == [{"price": Decimal(2)}]


@pytest.mark.slow
def test_count_is_that_of_a_scan(store: Store, engine: Any) -> None:
    with store.open(engine) as lake:
        table = lake.create_table("raw.odd", like=ODD)
        assert table.count() == 0
        table.append(pa.table({**dict.fromkeys(ODD.column_names, pa.nulls(90)), "id": range(90)}).cast(ODD.schema))
        for number in range(3):
            table.delete(f"id % 7 = {number}")
            table.append(ODD)
        versions = range(table.history()[0].snapshot_id, lake.snapshot_id + 1)
        counted = [lake.at(version=version).table("raw.odd").count() for version in versions]
        assert counted == [lake.at(version=version).table("raw.odd").to_arrow().num_rows for version in versions]
        assert counted[-1] == table.count() == 54


def test_rows_in_memory_need_their_library(duckdb_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names pandas, and not what pandas needs."""
    table = duckdb_lake.table("raw.numbers")
    for name in ("polars", "pandas", "numpy"):
        monkeypatch.setitem(sys.modules, name, None)
    for read, name, extra in ((table.to_polars, "polars", "'lakeconf[polars]'"), (table.to_pandas, "pandas", "pandas")):
        with pytest.raises(MissingDependencyError, match=f"needs the module '{name}'") as refused:
            read()
        assert refused.value.hint == f"run: pip install {extra}"


def test_error_while_rows_are_read_is_one_of_lakeconf(duckdb_lake: Lake, tmp_path: Path) -> None:
    table = duckdb_lake.table("raw.numbers")
    table.append(NUMBERS)
    (path,) = (tmp_path / "data").rglob("*.parquet")
    path.unlink()
    for read in (table.head, table.to_arrow, table.to_polars, table.to_pandas):
        with pytest.raises(StorageError):
            read()


def test_text_of_a_summary() -> None:
    found = ScanSummary("main.t", 7, "duckdb", 1, 2, 1024, 512, 3, 4, 5)
    explained = replace(found, writes={"merge": "spark: why", "delete": "duckdb: why"})
    assert str(explained).endswith("deletes\n  merge         spark: why\n  delete        duckdb: why")
    assert str(found) == (
        "scan of main.t at snapshot 7 by duckdb\n"
        "  data files    1 of 3 read, 1 KiB of 1.5 KiB\n"
        "  delete files  3\n"
        "  in catalog    5 rows, 4 deletes"
    )
