"""Lake operations on both engines; results are compared with those of plain DuckDB on the same lake."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import polars as pl
import pyarrow as pa
import pytest
from plain_sql import run_plain

import lakeconf
from lakeconf.errors import (
    CommitConflictError,
    LakeconfError,
    MissingDependencyError,
    PredicateError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake, Store

EVENTS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "kind": ["view", "purchase", None],
        "at": pa.array([dt.datetime(2024, 1, day, 12) for day in (1, 2, 3)], pa.timestamp("us")),
        "revenue": pa.array([None, Decimal("29.99"), None], pa.decimal128(10, 2)),
        "tags": [["a", "b"], [], None],
        "device": pa.array(
            [{"os": "linux", "cores": 8}, None, {"os": None, "cores": 2}],
            pa.struct({"os": pa.string(), "cores": pa.int64()}),  # older versions infer them in another order
        ),
    }
)


# The conformance tests cover the other metadata backends.
@pytest.fixture
def lake(store: Store, engine: Any) -> Iterator[Lake]:
    with store.open(engine) as lake:
        lake.create_table("raw.events", like=EVENTS)
        yield lake


def rows(frame: nw.LazyFrame[Any]) -> list[tuple[Any, ...]]:
    """The sorted rows of a frame, with nested values as DuckDB converts them to Python."""
    table = frame.collect("pyarrow").to_native()
    with duckdb.connect() as con:
        return sorted(con.from_arrow(table).fetchall(), key=repr)


def oracle(store: Store, query: str) -> list[tuple[Any, ...]]:
    """The result of the query in a separate DuckDB instance."""
    with store.connect() as con:
        return sorted(con.execute(query).fetchall(), key=repr)


def files(tmp_path: Path) -> set[str]:
    found = {path.name for path in (tmp_path / "data").rglob("*") if path.is_file()}
    return found - {"_lakeconf.json"}


@pytest.mark.slow("on_spark")
def test_appended_rows_are_read_back(lake: Lake, store: Store) -> None:
    events = lake.table("raw.events")
    events.append(EVENTS)
    events.append(EVENTS.slice(0, 1).rename_columns(["ID", "kind", "at", "revenue", "tags", "Device"]))
    found = rows(events.scan())
    assert len(found) == 4
    assert found == oracle(store, "FROM raw.events")


@pytest.mark.slow("on_spark")
def test_scan_with_columns_and_a_condition(lake: Lake, store: Store) -> None:
    lake.table("raw.events").append(EVENTS)
    # `at` is a keyword of DuckDB.
    scan = lake.table("raw.events").scan(columns=["kind", "id"], where="\"at\" >= TIMESTAMP '2024-01-02' AND id < 3")
    assert scan.collect_schema().names() == ["kind", "id"]
    assert rows(scan) == [("purchase", 2)]
    assert rows(lake.table("raw.events").scan(columns=["id"], where=nw.col("id") > 2)) == [(3,)]


@pytest.mark.slow("on_spark")
def test_same_narwhals_code_runs_on_both_engines(lake: Lake) -> None:
    lake.table("raw.events").append(EVENTS)
    lake.table("raw.events").append(EVENTS)
    daily = (
        lake.table("raw.events")
        .scan()
        .filter(nw.col("kind") == "purchase")
        .with_columns(day=nw.col("at").dt.date())
        .group_by("day")
        .agg(revenue=nw.col("revenue").sum(), users=nw.col("id").n_unique())
    )
    lake.create_table("marts.daily", like=daily)
    lake.table("marts.daily").overwrite(daily)
    assert rows(lake.table("marts.daily").scan()) == [(dt.date(2024, 1, 2), Decimal("59.98"), 1)]


@pytest.mark.slow
def test_overwrite_replaces_rows_that_match_its_condition(lake: Lake, store: Store, tmp_path: Path) -> None:
    events = lake.table("raw.events")
    events.append(EVENTS)
    before, on_disk = lake.snapshot_id, files(tmp_path)
    with pytest.raises(PredicateError, match="2 rows of the frame do not satisfy"):
        events.overwrite(EVENTS, where="id = 2")
    assert (lake.refresh(), files(tmp_path)) == (before, on_disk)
    events.overwrite(EVENTS.slice(1, 1), where="id >= 2")
    assert lake.refresh() == before + 1
    assert [row[0] for row in rows(events.scan(columns=["id"]))] == [1, 2]
    assert rows(events.scan()) == oracle(store, "FROM raw.events")


@pytest.mark.slow("on_spark")
def test_empty_frame_creates_a_snapshot_only_if_it_replaces_rows(lake: Lake, tmp_path: Path) -> None:
    events, before, empty = lake.table("raw.events"), lake.snapshot_id, EVENTS.slice(0, 0)
    assert events.append(empty) == events.overwrite(empty) == events.merge(empty, on="id") == before
    assert files(tmp_path) == set()
    events.append(EVENTS)
    events.overwrite(empty)
    assert (rows(events.scan()), lake.refresh()) == ([], before + 2)


@pytest.mark.slow("on_spark")
def test_reads_use_the_pinned_snapshot(lake: Lake) -> None:
    events = lake.table("raw.events")
    events.append(EVENTS)
    frame, version = events.scan(), lake.snapshot_id
    events.append(EVENTS)
    assert (len(rows(frame)), len(rows(events.scan()))) == (3, 6)
    times = {snapshot.snapshot_id: snapshot.time for snapshot in lake.snapshots()}
    for past in (lake.at(version=version), lake.at(timestamp=times[version])):
        assert (past.snapshot_id, len(rows(past.table("raw.events").scan()))) == (version, 3)
    with pytest.raises(LakeconfError, match="pinned at snapshot"):
        past.refresh()
    with pytest.raises(SnapshotNotFoundError):
        lake.at(version=999)
    with pytest.raises(LakeconfError, match="a version or a timestamp"):
        lake.at()


@pytest.mark.slow("on_spark")
def test_transaction_on_two_tables_creates_one_snapshot(lake: Lake) -> None:
    lake.create_table("raw.copies", like=EVENTS)
    before = len(lake.snapshots())
    extra: dict[str, object] = {}
    with lake.transaction("both", author="me", extra=extra) as tx:
        extra["run"] = 7
        tx.table("raw.events").append(EVENTS)
        tx.table("raw.copies").append(EVENTS)
        assert rows(tx.table("raw.events").scan()) == []
        for refused in (
            tx.maintenance.compact,
            lambda: tx.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True),
            lambda: tx.transaction().__enter__(),
        ):
            with pytest.raises(LakeconfError, match="transaction is open"):
                refused()
    assert len(lake.snapshots()) == before + 1
    last = lake.snapshots()[-1]
    assert (last.message, last.author) == ("both", "me")
    assert '"extra": {"run": 7}' in (last.extra_info or "")
    assert len(rows(lake.table("raw.events").scan())) == len(rows(lake.table("raw.copies").scan())) == 3
    with pytest.raises(LakeconfError, match="has ended"):
        tx.table("raw.events").append(EVENTS)


@pytest.mark.slow("on_spark")
def test_failed_transaction_leaves_no_files_and_no_snapshot(lake: Lake, tmp_path: Path) -> None:
    before, on_disk = lake.snapshot_id, files(tmp_path)
    with pytest.raises(SchemaError), lake.transaction() as tx:  # noqa: PT012 - the write before the error must be rolled back
        tx.table("raw.events").append(EVENTS)
        tx.table("raw.events").append(EVENTS.drop_columns(["kind"]))
    assert lake.refresh() == before
    assert files(tmp_path) == on_disk


@pytest.mark.slow("on_spark")
def test_scan_of_renamed_added_and_dropped_columns(lake: Lake, store: Store) -> None:
    events = lake.table("raw.events")
    events.append(EVENTS)
    for change in ("RENAME kind TO sort", "ADD COLUMN kind INTEGER DEFAULT 7", "DROP COLUMN tags"):
        run_plain(lake, f"ALTER TABLE dev.raw.events {change}")
    lake.refresh()
    assert rows(events.scan()) == oracle(store, "FROM raw.events")
    assert {row[-1] for row in rows(events.scan())} == {7}
    assert rows(events.scan(columns=["id"], where="kind = 7 AND sort = 'view'")) == [(1,)]


@pytest.mark.slow
def test_append_accepts_frames_of_other_libraries(lake: Lake) -> None:
    small = EVENTS.select(["id", "kind"])
    polars = pl.DataFrame({"id": [1, 2, 3], "kind": ["view", "purchase", None]})
    for number, frame in enumerate((polars, polars.lazy(), small.to_pandas(), duckdb.from_arrow(small))):
        table = lake.create_table(f"raw.small{number}", like=small)
        table.append(frame)
        assert rows(table.scan()) == [(1, "view"), (2, "purchase"), (3, None)]


def test_tables_with_wrong_names_and_types_are_refused(lake: Lake) -> None:
    with pytest.raises(SchemaError, match="'n' has an invalid type 'INTEGER; DROP TABLE x'"):
        lake.create_table("raw.odd", like={"n": "INTEGER; DROP TABLE x"})
    with pytest.raises(TableNotFoundError, match=r"raw\.evnts(.|\n)*raw\.events"):
        lake.table("raw.evnts").scan()
    with pytest.raises(SchemaError, match="already exists"):
        lake.create_table("raw.events", like=EVENTS)
    assert lake.tables() == ["raw.events"]


@pytest.mark.slow("on_spark")
def test_partitioned_table(lake: Lake, store: Store) -> None:
    days = lake.create_table("raw.days", like={"day": "DATE", "n": "BIGINT"}, partitioned_by=["day"])
    days.append(pa.table({"n": [1, 2, 3], "day": pa.array([1, 2, None], pa.date32())}))
    assert rows(days.scan()) == oracle(store, "FROM raw.days")
    assert rows(days.scan(where="day = DATE '1970-01-02'")) == [(dt.date(1970, 1, 2), 1)]
    with pytest.raises(SchemaError, match="'year\\(dy\\)' names an unknown column"):
        lake.create_table("raw.more", like={"day": "DATE"}, partitioned_by=["year(dy)"])


def test_types_unknown_to_spark_are_written(lake: Lake, store: Store) -> None:
    odd = {"u": "UUID", "b": "UBIGINT", "t": "TIME", "j": "JSON"}
    table = lake.create_table("raw.odd", like=odd)
    key = "00000000-0000-0000-0000-000000000001"
    values = {"u": [key], "b": pa.array([2**64 - 1], pa.decimal128(20, 0)), "t": ["10:11:12"], "j": ['{"a": 1}']}
    table.append(pa.table(values))
    found = oracle(store, "SELECT u::VARCHAR, b::VARCHAR, t::VARCHAR, j::VARCHAR FROM raw.odd")
    assert found == [(key, str(2**64 - 1), "10:11:12", '{"a": 1}')]


@pytest.mark.slow("on_spark")
def test_overwrite_conflicts_with_a_concurrent_append(store: Store, tmp_path: Path, engine: Any) -> None:
    with store.open(engine) as first, store.open(engine) as second:
        first.create_table("raw.events", like=EVENTS)
        second.refresh()
        assert rows(second.table("raw.events").scan()) == []
        first.table("raw.events").append(EVENTS)
        on_disk = files(tmp_path)
        with pytest.raises(CommitConflictError, match="read at snapshot 1, and snapshot 2 of another writer"):
            second.table("raw.events").overwrite(EVENTS)
        assert files(tmp_path) == on_disk
        second.table("raw.events").append(EVENTS)
        with pytest.raises(CommitConflictError, match="read at snapshot 1, and snapshot 2 of another writer"):
            second.table("raw.events").overwrite(EVENTS)
        second.refresh()
        second.table("raw.events").overwrite(EVENTS)
        assert len(rows(second.table("raw.events").scan())) == 3


@pytest.mark.slow("on_spark")
def test_delete_and_update(lake: Lake, store: Store) -> None:
    events = lake.table("raw.events")
    events.append(EVENTS)
    events.update({"kind": "it's", "revenue": Decimal("1.25"), "at": None}, where="id >= 2")
    events.delete("id = 3")
    found = rows(events.scan(columns=["id", "kind", "revenue", "at"]))
    assert found == [(1, "view", None, dt.datetime(2024, 1, 1, 12)), (2, "it's", Decimal("1.25"), None)]
    assert found == oracle(store, 'SELECT id, kind, revenue, "at" FROM raw.events')
    with pytest.raises(SchemaError, match="has no column 'knd'"):
        events.update({"knd": 1}, where="id = 1")
    with pytest.raises(SchemaError, match="Could not convert"):
        events.update({"id": "x"}, where="id = 1")
    assert len(rows(events.scan())) == 2


def test_error_without_pyspark_names_the_extra(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("pyarrow", "pyspark"):
        monkeypatch.setitem(sys.modules, missing, None)
        message = f"a lake on Spark needs the module '{missing}'(.|\n)*pip install 'lakeconf\\[spark\\]'"
        with pytest.raises(MissingDependencyError, match=message):
            store.open(object())
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'lakeconf\[spark\]'"):
        lakeconf.spark_session(store)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["on_spark"], indirect=True)
def test_hostile_spark_settings_have_no_effect(lake: Lake, store: Store, engine: Any) -> None:
    hostile = {
        "spark.sql.parquet.writeLegacyFormat": "true",
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.fieldId.read.enabled": "false",
        "spark.sql.parquet.fieldId.write.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Kathmandu",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.files.ignoreMissingFiles": "true",
    }
    before = {key: engine.conf.get(key, None) for key in hostile}
    events = lake.table("raw.events")
    try:
        for key, value in hostile.items():
            engine.conf.set(key, value)
        events.append(EVENTS)
        assert rows(events.scan()) == oracle(store, "FROM raw.events")
        assert {key: engine.conf.get(key) for key in hostile} == hostile
    finally:
        for key, value in before.items():
            engine.conf.unset(key) if value is None else engine.conf.set(key, value)
    assert rows(events.scan()) == oracle(store, "FROM raw.events")


def test_data_files_have_the_field_ids_of_ducklake(lake: Lake, tmp_path: Path) -> None:
    lake.table("raw.events").append(EVENTS)
    file, *_ = (tmp_path / "data").rglob("*.parquet")
    with duckdb.connect() as con:
        found = con.execute("SELECT name, field_id FROM parquet_schema(?) WHERE field_id IS NOT NULL", [str(file)])
        ids = dict(found.fetchall())
    assert {name: ids[name] for name in EVENTS.column_names} == dict(
        zip(EVENTS.column_names, (1, 2, 3, 4, 5, 7), strict=True)
    )
    assert (ids["os"], ids["cores"]) == (8, 9)
