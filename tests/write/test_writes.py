"""Table creation, schema evolution, audits and idempotency keys, on both engines."""

from __future__ import annotations

import datetime as dt
import getpass
import json
import socket
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lake_parts import session_of
from local_stores import rows

from lakeconf.errors import AuditError, CommitError, LakeconfError, SchemaError
from lakeconf.guard.guard import LakeGuard

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake, Store

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "kind": ["view", None]})


def read(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    """The rows that the engine of the lake reads."""
    frame = lake.table(table).scan().collect("pyarrow")
    return sorted(frame.iter_rows(), key=repr)


def test_create_table_with_all_options(lake: Lake) -> None:
    before = lake.snapshot_id
    lake.create_table(
        "raw.events",
        {"id": "BIGINT NOT NULL", "at": "TIMESTAMP", "kind": "VARCHAR"},
        partitioned_by=["day(at)", "bucket(4, id)"],
        sorted_by=["kind DESC NULLS LAST", "id"],
        comment="what people did",
        column_comments={"KIND": "view or purchase"},
    )
    assert lake.snapshot_id == before + 1
    keys = "SELECT transform FROM __ducklake_metadata_dev.ducklake_partition_column"
    assert rows(lake, keys) == [("bucket(4)",), ("day",)]
    order = "SELECT expression, sort_direction, null_order FROM __ducklake_metadata_dev.ducklake_sort_expression"
    assert [row[1:] for row in rows(lake, order)] == [("ASC", "NULLS_LAST"), ("DESC", "NULLS_LAST")]
    assert rows(lake, "SELECT comment FROM duckdb_tables() WHERE table_name = 'events'") == [("what people did",)]
    comments = "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'events' AND comment IS NOT NULL"
    assert rows(lake, comments) == [("kind", "view or purchase")]


@pytest.mark.slow("on_spark")
def test_table_is_created_and_filled_in_one_snapshot(lake: Lake) -> None:
    before = lake.snapshot_id
    with lake.transaction("first load") as tx:
        tx.create_table("raw.events", {"id": "BIGINT", "kind": "VARCHAR NOT NULL", "size": "UUID"})
        with pytest.raises(SchemaError, match="already exists"):
            tx.create_table("RAW.Events", ROWS)
        with pytest.raises(SchemaError, match="NOT NULL"):
            tx.table("raw.events").append(ROWS.append_column("size", pa.nulls(2, pa.string())))
        filled = pa.table({"id": pa.array([1], pa.int64()), "kind": ["view"], "size": pa.nulls(1, pa.string())})
        tx.table("raw.events").append(filled)
        tx.table("raw.events").evolve(add={"n": "INTEGER", "s": "STRUCT(a INTEGER)"}, drop=["size"])
        tx.table("raw.events").append(
            pa.table({"id": [2], "kind": ["buy"], "n": pa.array([7], pa.int32()), "s": [{"a": 3}]}).cast(
                pa.schema({"id": pa.int64(), "kind": pa.string(), "n": pa.int32(), "s": pa.struct({"a": pa.int32()})})
            )
        )
        with pytest.raises(LakeconfError, match="created in this transaction"):
            tx.table("raw.events").merge(ROWS, on="id", not_matched=None)
    assert lake.snapshot_id == before + 1
    assert read(lake, "raw.events") == [(1, "view", None, None), (2, "buy", 7, {"a": 3})]
    assert read(lake, "raw.events") == rows(lake, "SELECT * FROM dev.raw.events")


def test_files_of_a_new_table_have_relative_paths(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.create_table("raw.events", ROWS)
        tx.table("raw.events").append(ROWS)
    relative = "SELECT DISTINCT path_is_relative::BOOLEAN FROM __ducklake_metadata_dev.ducklake_data_file"
    assert rows(lake, relative) == [(True,)]


@pytest.mark.slow("on_spark")
def test_evolve_changes_all_columns_in_one_snapshot(lake: Lake) -> None:
    types = {
        "id": "INTEGER",
        "old": "VARCHAR",
        "device": "STRUCT(os VARCHAR, cores INTEGER)",
        "tags": "STRUCT(k VARCHAR)[]",
        "m": "MAP(VARCHAR, STRUCT(k INTEGER))",
        "gone": "DATE",
    }
    lake.create_table("events", types)
    lake.sql("SELECT 1")
    first = "SELECT 1 AS id, 'x' AS old, {'os': 'a', 'cores': 2} AS device, [{'k': 'v'}] AS tags, "
    lake.table("events").append(
        lake.sql(f"{first} MAP {{'q': {{'k': 5}}}} AS m, NULL::DATE AS gone").collect("pyarrow")
    )
    before = lake.snapshot_id
    lake.table("events").evolve(
        drop=["gone", "device.cores"],
        rename={"old": "new", "tags.element.k": "key"},
        promote={"id": "BIGINT", "m.value.k": "BIGINT"},
        add={
            "flag": "BOOLEAN",
            "device.arch": "VARCHAR",
            "m.value.z": "INTEGER",
            "since": "DATE",
            "d": "DECIMAL(5, 2)",
        },
        defaults={"flag": True, "since": dt.date(2024, 1, 1), "d": Decimal("1.50")},
    )
    assert lake.snapshot_id == before + 1
    assert lake.table("events").schema == {
        "id": "BIGINT",
        "new": "VARCHAR",
        "device": "STRUCT(os VARCHAR, arch VARCHAR)",
        "tags": 'STRUCT("key" VARCHAR)[]',
        "m": "MAP(VARCHAR, STRUCT(k BIGINT, z INTEGER))",
        "flag": "BOOLEAN",
        "since": "DATE",
        "d": "DECIMAL(5,2)",
    }
    assert read(lake, "events") == sorted(lake.sql("SELECT * FROM events").collect("pyarrow").iter_rows(), key=repr)
    added = "SELECT flag, device.arch, since, d FROM dev.events"
    assert rows(lake, added) == [(True, None, dt.date(2024, 1, 1), Decimal("1.50"))]


@pytest.mark.slow("on_spark")
def test_append_with_evolve_adds_columns_and_widens_types(lake: Lake) -> None:
    lake.create_table("events", {"id": "INTEGER", "kind": "VARCHAR"})
    lake.table("events").append(ROWS.cast(pa.schema({"id": pa.int32(), "kind": pa.string()})))
    with pytest.raises(SchemaError, match="'id' is BIGINT"):
        lake.table("events").append(ROWS)
    with pytest.raises(SchemaError) as caught:
        lake.table("events").append(lake.sql("SELECT 1::INTEGER AS id, 'x' AS kind, 2 AS more"))
    assert str(caught.value.hint).endswith("or add the column with evolve=True")
    before = lake.snapshot_id
    wide = pa.table({"id": [2**40], "kind": ["x"], "tags": [["a"]]})
    assert lake.table("events").append(wide, evolve=True) == before + 1
    assert read(lake, "events") == [(1, "view", None), (1099511627776, "x", ["a"]), (2, None, None)]
    assert read(lake, "events") == rows(lake, "SELECT * FROM dev.events")
    lake.table("events").overwrite(wide.append_column("more", pa.array([1.5])), evolve=True)
    assert read(lake, "events") == [(2**40, "x", ["a"], 1.5)]


@pytest.mark.slow("on_spark")
def test_failed_append_with_evolve_does_not_change_columns(lake: Lake) -> None:
    lake.create_table("events", {"id": "INTEGER", "kind": "VARCHAR NOT NULL"})
    with lake.transaction() as tx:
        with pytest.raises(SchemaError, match="NOT NULL"):
            tx.table("events").append(ROWS.append_column("more", pa.array([1, 2])), evolve=True)
        tx.table("events").append(pa.table({"id": pa.array([3], pa.int32()), "kind": ["x"]}))
    assert lake.table("events").schema == {"id": "INTEGER", "kind": "VARCHAR"}
    assert read(lake, "events") == [(3, "x")]


def append_audited(lake: Lake, name: str, sql: str) -> None:
    with lake.transaction() as tx:
        tx.table("events").append(ROWS)
        tx.audit(name, sql)


@pytest.mark.slow("on_spark")
def test_audit_checks_the_rows_that_would_be_committed(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("events", ROWS)
    lake.table("events").append(ROWS)
    before, files = lake.snapshot_id, sorted(tmp_path.rglob("*.parquet"))
    broken = r"""the audit 'no doubles' found 2 rows, so nothing was written:
  {'id': 1, 'n': 2}"""
    doubles = "SELECT id, count(*) AS n FROM events GROUP BY id HAVING n > 1 ORDER BY id"
    with pytest.raises(AuditError) as raised:
        append_audited(lake, "no doubles", doubles)
    assert str(raised.value).startswith(broken)
    with pytest.raises(AuditError, match="'kinds' found 2 rows"):
        append_audited(lake, "kinds", "FROM events WHERE kind IS NULL")
    assert lake.refresh() == before
    assert sorted(tmp_path.rglob("*.parquet")) == files
    append_audited(lake, "some rows", "SELECT 'empty' WHERE (SELECT count(*) FROM events) = 0")
    assert lake.snapshot_id == before + 1


def test_audit_needs_a_transaction_and_a_query(lake: Lake) -> None:
    with pytest.raises(LakeconfError, match="needs an open transaction"):
        lake.audit("it", "SELECT 1")
    function: Any = lambda events: events  # noqa: E731 - as a user would write it
    with pytest.raises(LakeconfError, match="not a string: function"), lake.transaction() as tx:
        tx.audit("it", function)


@pytest.mark.slow("on_spark")
def test_append_with_a_used_key_writes_nothing(lake: Lake, store: Store, engine: Any, tmp_path: Path) -> None:
    lake.create_table("events", ROWS)
    first = lake.table("events").append(ROWS, idempotency_key="2024-01-01")
    files = sorted(tmp_path.rglob("*.parquet"))
    assert lake.table("events").append(ROWS, idempotency_key="2024-01-01") == first
    with store.open(engine) as other:
        assert other.table("main.EVENTS").append(ROWS, idempotency_key="2024-01-01") == first
    assert sorted(tmp_path.rglob("*.parquet")) == files
    second = lake.table("events").append(ROWS, idempotency_key="2024-01-02")
    assert second == first + 1
    assert len(read(lake, "events")) == 4
    assert lake.tables() == ["main.events"]
    # Keys of expired snapshots are still known.
    lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
    lake.maintenance.compact()
    assert lake.table("events").append(ROWS, idempotency_key="2024-01-01") == first
    assert lake.snapshot_id > second
    assert len(read(lake, "events")) == 4


def test_commit_info_contains_message_author_and_extra(lake: Lake) -> None:
    lake.create_table("events", ROWS)
    with lake.transaction("a load", author="me", extra={"run": 7}) as tx:
        tx.table("events").append(ROWS)
    found = lake.snapshots()[-1]
    info = json.loads(found.extra_info or "{}")
    assert (found.message, found.author, info["rows"], info["extra"]) == ("a load", "me", 2, {"run": 7})
    assert {"lakeconf", "engine", "token", "seconds"} <= info.keys()
    lake.table("events").append(ROWS)
    assert lake.snapshots()[-1].author == f"{getpass.getuser()}@{socket.gethostname()}"


@pytest.mark.slow("on_spark")
def test_decimals_are_written_as_numbers_that_hold_them(lake: Lake) -> None:
    table = lake.create_table("n", {"id": "BIGINT", "d": "DOUBLE", "s": "STRUCT(d DOUBLE)"})

    def frame(text: str) -> pa.Table:
        kind = pa.decimal128(21, 1)
        value = pa.array([Decimal(text), None], kind)
        nested = pa.array([{"d": Decimal(text)}, None], pa.struct([("d", kind)]))
        return pa.table({"id": pa.array([1, 2], pa.int64()), "d": value, "s": nested})

    table.append(frame("12345678901234.5"))
    table.merge(frame("-2.5"), on="id")
    assert read(lake, "n") == [(1, -2.5, {"d": -2.5}), (2, None, None)]
    before = lake.snapshot_id
    with pytest.raises(SchemaError, match="would round"):
        table.append(frame("90071992547409931.5"))
    assert lake.refresh() == before


@pytest.mark.slow("on_spark")
def test_write_with_a_key_or_a_read_dependency_needs_a_lock(lake: Lake) -> None:
    lake.create_table("events", ROWS)
    session_of(lake).guard = LakeGuard(None, session_of(lake).guard.marker)
    lake.table("events").append(ROWS)
    for refused in (
        lambda: lake.table("events").append(ROWS, idempotency_key="k"),
        lambda: lake.table("events").delete("id = 1"),
    ):
        with pytest.raises(CommitError, match="has no lock"):
            refused()


@pytest.mark.parametrize("type_name", ["HUGEINT", "UHUGEINT"])
def test_huge_integers_that_files_would_round_are_refused(store: Store, type_name: str) -> None:
    """DuckDB stores them as DOUBLE, silently: 2^53 + 1 becomes 2^53, and 2^127 - 1 cannot be read again."""
    with store.open() as lake:
        table = lake.create_table("huge", {"number": type_name})
        for number in (2**53 + 1, 2**127 - 1):
            with pytest.raises(SchemaError, match="would round"):
                table.append(lake.sql(f"SELECT {number}::{type_name} AS number"))
            with pytest.raises(SchemaError, match=r"cannot hold .* exactly"):
                table.update({"number": number}, where="number IS NULL")
        table.append(lake.sql(f"SELECT {2**53}::{type_name} AS number"))
        table.update({"number": 2**100}, where="number > 0")
        assert rows(lake, "FROM huge") == [(2**100,)]
