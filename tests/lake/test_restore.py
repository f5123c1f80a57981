"""Restoring tables: same columns, other columns, dropped tables, and other writers meanwhile."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import on_catalog, store_of
from plain_sql import run_plain

from lakeconf.errors import (
    CommitConflictError,
    LakeconfError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
)
from lakeconf.lake.restore import RestoreAction, RestorePlan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake, Store

ROWS = pa.table({"id": pa.array(range(20), pa.int64()), "day": pa.array([dt.date(2026, 1, 1)] * 20)})


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """A lake with 20 rows in the table `t` at snapshot 2."""
    with store.open() as lake:
        filled(lake)
        yield lake


def filled(lake: Lake) -> None:
    lake.create_table(
        "t",
        {"id": "BIGINT NOT NULL", "day": "DATE"},
        partitioned_by=["year(day)", "bucket(2, id)", "day"],
        sorted_by=["day DESC NULLS FIRST", "id"],
        comment="it's t",
        column_comments={"id": "a key"},
    ).append(ROWS)


def ids(lake: Lake, table: str = "t") -> list[int]:
    return sorted(lake.table(table).to_arrow(["id"])["id"].to_pylist())


def definition(lake: Lake, table: str = "t") -> tuple[Any, ...]:
    """Everything that the catalog says about the present definition of a table, without ids."""
    with lake._session.reader.transaction() as catalog:
        ((table_id,),) = catalog.rows(
            "SELECT table_id FROM ducklake_table WHERE table_name = ? AND end_snapshot IS NULL", [table]
        )
        queries = [
            "SELECT column_name, column_type, nulls_allowed, default_value, default_value_type FROM ducklake_column "
            "WHERE table_id = ? AND end_snapshot IS NULL ORDER BY column_order",
            "SELECT transform FROM ducklake_partition_column JOIN ducklake_partition_info "
            "USING (partition_id, table_id) WHERE table_id = ? AND end_snapshot IS NULL ORDER BY partition_key_index",
            "SELECT expression, sort_direction, null_order FROM ducklake_sort_expression JOIN ducklake_sort_info "
            "USING (sort_id, table_id) WHERE table_id = ? AND end_snapshot IS NULL ORDER BY sort_key_index",
            "SELECT value FROM ducklake_tag WHERE object_id = ? AND end_snapshot IS NULL",
            "SELECT value FROM ducklake_column_tag WHERE table_id = ? AND end_snapshot IS NULL",
        ]
        return tuple(tuple(catalog.rows(query, [table_id])) for query in queries)


def test_rows_of_a_table_with_the_same_columns_are_replaced(lake: Lake) -> None:
    lake.table("t").delete("id < 15", idempotency_key="once")
    lake.table("t").set_comments("a new comment")
    before, version = lake.snapshot_id, 2
    plan = lake.plan_restore("T", version=version)
    assert plan == RestorePlan("main.T", version, RestoreAction.REPLACE, 5, 20)
    assert lake.refresh() == before
    assert lake.restore("T", version=version) == before + 1
    assert ids(lake) == list(range(20))
    last = lake.snapshots()[-1]
    assert (last.message, '"restored_version": 2' in (last.extra_info or "")) == ("restore main.T to version 2", True)
    assert lake.table("t").comment == "a new comment"
    assert lake.table("t").idempotency_keys() == ["once"]
    assert lake.restore("t", version=before) == before + 2
    assert ids(lake) == list(range(15, 20))
    # A time selects the snapshot, too.
    time = next(snapshot.time for snapshot in lake.snapshots() if snapshot.snapshot_id == version)
    with pytest.raises(LakeconfError, match="pass either a version or a timestamp"):
        lake.restore("t", version=version, timestamp=time)
    lake.restore("t", timestamp=time)
    assert len(ids(lake)) == 20


def test_unchanged_table_is_not_written(lake: Lake) -> None:
    lake.create_table("other", ROWS)
    lake.maintenance.compact()
    before = lake.refresh()
    assert lake.plan_restore("t", version=2).action is RestoreAction.NOTHING
    assert lake.restore("t", version=2) == before == lake.refresh()


def test_dropped_table_comes_back_with_its_definition(lake: Lake) -> None:
    run_plain(
        lake, "ALTER TABLE t ADD COLUMN n INTEGER DEFAULT 7", "ALTER TABLE t ADD COLUMN s VARCHAR DEFAULT 'it''s'"
    )
    version = lake.refresh()
    before = definition(lake)
    lake.drop_table("t")
    plan = lake.plan_restore("t", version=version)
    notes = ("the table starts without idempotency keys",)
    assert plan == RestorePlan("main.t", version, RestoreAction.CREATE, None, 20, (), notes)
    lake.restore("t", version=version)
    assert (ids(lake), definition(lake)) == (list(range(20)), before)
    run_plain(lake, "INSERT INTO t (id) VALUES (99)", "ALTER TABLE t ALTER COLUMN id SET DEFAULT 1 + 1")
    version = lake.refresh()
    found = lake.table("t").to_arrow(where="id = 99").to_pylist()
    assert found == [{"id": 99, "day": None, "n": 7, "s": "it's"}]
    # A default that is an expression is named in the plan.
    lake.drop_table("t")
    assert lake.plan_restore("t", version=version).notes[1:] == ("not restored, because it is an expression: id",)
    lake.restore("t", version=version)
    assert len(ids(lake)) == 21


def test_changed_columns_come_back(store: Store) -> None:
    changes: list[tuple[dict[str, Any], tuple[str, ...] | None]] = [
        ({"add": {"n": "INTEGER"}}, ("- n INTEGER",)),
        ({"drop": ["day"]}, None),
        ({"rename": {"id": "key"}}, ("+ id BIGINT NOT NULL", "- key BIGINT NOT NULL")),
        ({"promote": {"id": "DECIMAL(38, 0)"}}, None),
    ]
    with store.open() as lake:
        for number, (change, columns) in enumerate(changes):
            name = f"t{number}"
            table = lake.create_table(name, {"id": "BIGINT NOT NULL", "day": "DATE"})
            version = table.append(ROWS)
            before = definition(lake, name)
            table.evolve(**change)
            plan = lake.plan_restore(name, version=version)
            assert (plan.action, plan.rows_now) == (RestoreAction.CREATE, 20)
            assert columns is None or plan.columns == columns
            changed = lake.snapshot_id
            assert lake.restore(name, version=version) == changed + 1
            assert (ids(lake, name), definition(lake, name)) == (list(range(20)), before)
            lake.restore(name, version=changed)
            assert lake.table(name).schema == lake.at(version=changed).table(name).schema


def test_renamed_table_is_found_by_its_former_name(lake: Lake) -> None:
    """And the table that took its name is replaced."""
    lake.rename_table("t", '"odd.name"')
    lake.table('"odd.name"').delete("id > 2")
    assert lake.plan_restore('"odd.name"', version=2).action is RestoreAction.REPLACE
    lake.restore('"odd.name"', version=2)
    assert len(ids(lake, '"odd.name"')) == 20
    lake.create_table("t", {"id": "BIGINT NOT NULL", "day": "DATE"}).append(ROWS.slice(0, 3))
    before = lake.snapshot_id
    assert lake.plan_restore("t", version=2).action is RestoreAction.CREATE
    lake.restore("t", version=2)
    assert (lake.tables(), len(ids(lake))) == (['main."odd.name"', "main.t"], 20)
    assert len(lake.at(version=before).table("t").to_arrow()) == 3


def test_what_cannot_be_restored_is_refused(lake: Lake) -> None:
    lake.table("t").delete("id = 1", idempotency_key="once")
    before = lake.snapshot_id
    with pytest.raises(TableNotFoundError):
        lake.restore("t", version=0)
    with pytest.raises(SnapshotNotFoundError):
        lake.restore("t", version=999)
    with pytest.raises(SchemaError, match="belongs to lakeconf"):
        lake.restore("lakeconf.commits", version=before)
    with pytest.raises(LakeconfError, match="pinned at snapshot"):
        lake.at(version=before).restore("t", version=2)
    with lake.transaction() as tx, pytest.raises(LakeconfError, match="a transaction is open"):
        tx.restore("t", version=2)
    lake.drop_table("t")
    lake.create_view("t", "SELECT 1 AS one")
    with pytest.raises(SchemaError, match=r"main\.t is now a view"):
        lake.restore("t", version=2)


def test_change_of_another_writer_since_the_plan_is_a_conflict(lake: Lake, store: Store) -> None:
    lake.table("t").delete("id = 1")
    with store.open() as other:
        lake.plan_restore("t", version=2)
        other.table("t").append(ROWS)
        with pytest.raises(CommitConflictError, match="version 4 is newer than snapshot 3"):
            lake.plan_restore("t", version=4)
        with pytest.raises(CommitConflictError):
            lake.restore("t", version=2)
        lake.refresh()
        lake.plan_restore("t", version=2)
        other.drop_table("t")
        with pytest.raises(CommitConflictError):
            lake.restore("t", version=2)
        lake.refresh()
        lake.plan_restore("t", version=2)
        other.create_table("t", {"theirs": "DATE"})
        with pytest.raises(LakeconfError, match="t"):
            lake.restore("t", version=2)
    lake.refresh()
    assert lake.table("t").schema == {"theirs": "DATE"}


@pytest.mark.parametrize("kind", ["duckdb", "postgres", "spark"])
def test_restore_on_other_catalogs_and_engines(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    catalog = on_catalog(request, tmp_path, "sqlite" if kind == "spark" else kind)
    spark = request.getfixturevalue("spark") if kind == "spark" else None
    with store_of(tmp_path, catalog).open(spark) as lake:
        filled(lake)
        before = definition(lake)
        lake.table("t").delete("id > 3")
        lake.restore("t", version=2)
        assert len(ids(lake)) == 20
        lake.table("t").evolve(add={"n": "INTEGER"})
        lake.restore("t", version=2)
        assert (len(ids(lake)), definition(lake)) == (20, before)


@pytest.mark.parametrize("version", [2, 3])
def test_restore_with_an_old_lake_does_not_miss_what_others_have_changed(store: Store, version: int) -> None:
    with store.open() as lake, store.open() as other:
        filled(lake)
        other.refresh()
        other.table("t").append(ROWS)
        other.table("t").delete("id >= 0")
        with pytest.raises(CommitConflictError, match="since") as refused:
            lake.restore("t", version=version)
        assert "lake.refresh()" in str(refused.value.hint)
        lake.refresh()
        assert lake.plan_restore("t", version=version).action is RestoreAction.REPLACE
        lake.restore("t", version=version)
        assert ids(lake) == sorted(list(range(20)) * (version - 1))
