"""Creation, renaming, removal and restoring of tables and views, alone, in a transaction, beside a writer."""

from __future__ import annotations

import datetime as dt
import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from commit_hooks import at_commit
from lake_parts import catalog_of
from local_stores import on_catalog, store_of
from plain_sql import run_plain

from lakeconf.connection.duckdb_errors import translated_errors
from lakeconf.errors import (
    CommitConflictError,
    LakeconfError,
    QueryError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
)
from lakeconf.lake.restore import RestoreAction, RestorePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakeconf import Lake, Store, Table

ROWS = pa.table({"id": pa.array(range(20), pa.int64())})


@pytest.fixture
def other(two_tables: Lake, store: Store) -> Iterator[Lake]:
    """Another writer of the lake `two_tables`."""
    with store.open() as lake:
        yield lake


def count(lake: Lake, table: str) -> int:
    return len(lake.table(table).to_arrow())


def test_existing_table_is_returned_as_it_is(two_tables: Lake) -> None:
    before = two_tables.snapshot_id
    found = two_tables.create_table("MAIN.T", {"other": "DATE"}, if_not_exists=True)
    assert (found.schema, two_tables.refresh()) == ({"id": "BIGINT"}, before)
    assert two_tables.create_table("new", ROWS, if_not_exists=True).schema == {"id": "BIGINT"}
    with two_tables.transaction() as tx:
        tx.create_table("inner", ROWS, if_not_exists=True)
        tx.create_table("inner", ROWS, if_not_exists=True)
    assert two_tables.tables() == ["main.inner", "main.new", "main.t", "main.u"]
    two_tables.create_view("v", "SELECT 1 AS one")
    with pytest.raises(SchemaError, match=r"^the view main\.v already exists") as refused:
        two_tables.create_table("v", ROWS, if_not_exists=True)
    assert refused.value.hint == "drop it first: lake.drop_view(…)"
    with two_tables.transaction() as tx:
        tx.drop_view("v")
        tx.create_table("v", ROWS)


@pytest.mark.parametrize("if_not_exists", [True, False])
def test_table_that_another_writer_creates_meanwhile_is_returned(
    two_tables: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch, *, if_not_exists: bool
) -> None:
    at_commit(monkeypatch, before=lambda: other.create_table("new", {"theirs": "DATE"}))
    if if_not_exists:
        assert two_tables.create_table("new", ROWS, if_not_exists=True).schema == {"theirs": "DATE"}
        return
    with pytest.raises(LakeconfError, match="new"):
        two_tables.create_table("new", ROWS)


def test_dropped_table_stays_in_earlier_snapshots(two_tables: Lake) -> None:
    before = two_tables.table("t").append(ROWS)
    assert two_tables.drop_table("T") == before + 1
    assert (two_tables.tables(), two_tables.snapshots()[-1].message) == (["main.u"], "drop table main.T")
    assert count(two_tables.at(version=before), "t") == 20
    with pytest.raises(TableNotFoundError):
        two_tables.drop_table("t")
    assert two_tables.drop_table("t", if_exists=True) == before + 1
    two_tables.create_table("t", {"n": "DATE"})
    assert two_tables.table("t").schema == {"n": "DATE"}


def test_renamed_table_keeps_rows_keys_and_history(two_tables: Lake) -> None:
    two_tables.table("t").append(ROWS, idempotency_key="once")
    renamed = two_tables.rename_table("t", 'main."odd name; --"')
    assert two_tables.snapshots()[-1].message == "rename table main.t to main.odd name; --"
    assert two_tables.tables() == ["main.odd name; --", "main.u"]
    assert renamed.idempotency_keys() == ["once"]
    renamed.append(ROWS, idempotency_key="once")
    assert count(two_tables, renamed.name) == 20
    assert len(renamed.history()) >= 2
    two_tables.rename_table(renamed.name, '"Odd Name; --"')
    assert two_tables.tables() == ["main.Odd Name; --", "main.u"]


def test_names_that_a_table_cannot_take_or_lose_are_refused(two_tables: Lake) -> None:
    two_tables.create_view("v", "SELECT 1 AS one")
    before = two_tables.table("t").append(ROWS, idempotency_key="once")
    for new, message in (
        ("U", r"^the table main\.U already exists"),
        ("other.t", "DuckLake cannot move main.t to the schema 'other'"),
        ("V", r"^the view main\.V already exists"),
        ("{DATA_PATH}", r"the new name of main\.t contains \{DATA_PATH\}"),
    ):
        with pytest.raises(SchemaError, match=message):
            two_tables.rename_table("t", new)
    for change in (two_tables.drop_table, lambda name: two_tables.rename_table(name, "w")):
        with pytest.raises(SchemaError, match=r"^main\.v is not a table") as refused:
            change("v")
        assert refused.value.hint == "use lake.drop_view(…) for a view"
    for attempt in (
        lambda: two_tables.drop_table("LAKECONF.commits"),
        lambda: two_tables.rename_table("lakeconf.commits", "lakeconf.x"),
    ):
        with pytest.raises(SchemaError, match="belongs to lakeconf, which needs it to recognise repeated writes"):
            attempt()
    assert (two_tables.table("t").idempotency_keys(), two_tables.refresh()) == (["once"], before)


def test_a_view_does_not_take_the_name_of_a_table(two_tables: Lake) -> None:
    with pytest.raises(SchemaError, match=r"^main\.T is a table") as refused:
        two_tables.create_view("T", "SELECT 1 AS one")
    assert refused.value.hint == "drop it first: lake.drop_table(…)"
    with two_tables.transaction() as tx:
        tx.drop_table("t")
        tx.create_view("t", "SELECT 1 AS one")
    assert (two_tables.tables(), two_tables.views()) == (["main.u"], ["main.t"])


def test_views_are_listed_and_dropped(two_tables: Lake) -> None:
    two_tables.create_view("s.v", "SELECT 1 AS one")
    two_tables.create_view("w", "SELECT 1 AS one")
    assert two_tables.views() == ["main.w", "s.v"]
    before = two_tables.snapshot_id
    assert two_tables.drop_view("S.V") == before + 1
    assert two_tables.views() == ["main.w"]
    for name in ("s.v", "t"):
        with pytest.raises(TableNotFoundError, match="no view"):
            two_tables.drop_view(name)
    assert two_tables.drop_view("s.v", if_exists=True) == before + 1
    assert two_tables.at(version=before).views() == ["main.w", "s.v"]


def test_a_view_that_another_writer_has_replaced_is_not_dropped(store: Store) -> None:
    with store.open() as lake, store.open() as other:
        lake.create_view("v", "SELECT 1 AS one")
        other.refresh()
        other.create_view("v", "SELECT 2 AS two")
        with pytest.raises(CommitConflictError, match=r"^main\.v was dropped or replaced by another writer") as raised:
            lake.drop_view("v")
        assert (raised.value.hint, other.views()) == ("call lake.refresh() and try again", ["main.v"])
        lake.refresh()
        with lake.transaction() as tx:
            tx.create_view("v", "SELECT 3 AS three")
            tx.drop_view("v")
        assert lake.views() == []


def test_transaction_replaces_a_table_in_one_snapshot(two_tables: Lake) -> None:
    two_tables.table("t").append(ROWS)
    before = two_tables.snapshot_id
    with two_tables.transaction() as tx:
        tx.drop_table("t")
        with pytest.raises(TableNotFoundError, match=r"the transaction has dropped main\.t"):
            tx.table("t").append(ROWS)
        with pytest.raises(TableNotFoundError):
            tx.drop_table("t")
        tx.create_table("t", {"n": "BIGINT"}).append([{"n": 1}])
    assert two_tables.snapshot_id == before + 1
    assert two_tables.table("t").head() == [{"n": 1}]


def test_transaction_swaps_two_tables(two_tables: Lake) -> None:
    two_tables.table("t").append(ROWS)
    before = two_tables.snapshot_id
    with two_tables.transaction() as tx:
        tx.table("u").append(ROWS.slice(0, 3))
        tx.rename_table("t", "old")
        tx.rename_table("u", "t")
        with pytest.raises(TableNotFoundError, match=r"the transaction has renamed main\.u to main\.t"):
            tx.table("t").append(ROWS)
        with pytest.raises(SchemaError, match="already exists"):
            tx.create_table("old", ROWS)
    assert two_tables.snapshot_id == before + 1
    assert (count(two_tables, "t"), count(two_tables, "old")) == (3, 20)


@pytest.mark.slow
def test_rename_after_a_change_of_columns_is_refused(two_tables: Lake, store: Store) -> None:
    """DuckLake would store the columns twice, so that nobody could read the lake."""
    changes: dict[str, Callable[[Table], object]] = {
        "evolve": lambda table: table.evolve(add={"n": "DATE"}),
        "comment": lambda table: table.set_comments("a comment"),
        "append": lambda table: table.append([{"id": 1, "new": "x"}], evolve=True),
    }
    for name, change in changes.items():
        two_tables.create_table(name, {"id": "BIGINT"})
        with (  # noqa: PT012 - one commit
            pytest.raises(SchemaError, match="which DuckLake cannot then rename") as refused,
            two_tables.transaction() as tx,
        ):
            change(tx.table(name.upper()))
            tx.rename_table(name, f"renamed_{name}")
        assert refused.value.hint == "rename the table in another transaction"
        change(two_tables.table(name))
        two_tables.rename_table(name, f"renamed_{name}")
        with two_tables.transaction() as tx:
            created = tx.create_table("created", {"id": "BIGINT"})
            change(created)
            tx.rename_table("created", f"made_{name}")
        with store.open() as lake:
            assert [table for table in lake.tables() if name in table] == [f"main.made_{name}", f"main.renamed_{name}"]
            assert [column for column in lake.table(f"made_{name}").schema if column == "id"] == ["id"]


ADDED = [
    "INTEGER",
    "STRUCT(x INTEGER, y INTEGER)",
    "INTEGER[]",
    "MAP(VARCHAR, INTEGER)",
    "STRUCT(x INTEGER[])[]",
    "JSON",
]
LATER: list[dict[str, Any]] = [
    *({"rename": {"n": "m"}}, {"drop": ["n"]}, {"add": {"other": "INTEGER[]"}}, {"rename": {"id": "m"}}),
    *({"rename": {"n.x": "z"}}, {"drop": ["n.y"]}, {"add": {"n.z": "INTEGER"}}),
    *({"promote": {name: "BIGINT"}} for name in ("n", "n.x", "n.element", "n.value")),
]


@pytest.mark.slow
@pytest.mark.prove("False")
@pytest.mark.parametrize("is_new", [True, False])
def test_column_that_a_transaction_adds_and_changes_leaves_a_readable_lake(
    is_new: bool, two_tables: Lake, store: Store
) -> None:
    """DuckLake would store a nested one without its fields, or with some of them twice."""
    wanted: dict[str, dict[str, str]] = {}
    for number, (kind, change) in enumerate(itertools.product(ADDED, LATER)):
        name = f"main.t{number}"
        if not is_new:
            two_tables.create_table(name, {"id": "BIGINT"})
        try:
            with two_tables.transaction() as tx:
                table = tx.create_table(name, {"id": "BIGINT"}) if is_new else tx.table(name)
                table.evolve(add={"n": kind})
                table.evolve(**change)
                schema = table.schema
        except SchemaError:
            continue
        wanted[name] = schema
    assert len(wanted) > len(ADDED) * 3
    with store.open() as lake:
        assert {name: lake.table(name).schema for name in wanted} == wanted


def test_renamed_and_dropped_tables_leave_a_readable_lake(two_tables: Lake, store: Store) -> None:
    two_tables.table("t").append(ROWS)
    with two_tables.transaction() as tx:
        tx.table("t").delete("id = 1")
        tx.table("t").append(ROWS)
        tx.rename_table("t", "renamed")
        tx.create_table("t", {"n": "DATE"})
        tx.table("u").evolve(add={"n": "DATE"})
        tx.drop_table("u")
    with store.open() as lake:
        assert (lake.tables(), count(lake, "renamed")) == (["main.renamed", "main.t"], 39)
        assert lake.table("t").schema == {"n": "DATE"}


def test_drop_that_fails_changes_nothing(two_tables: Lake) -> None:
    with two_tables.transaction() as tx:
        tx.table("t").append(ROWS)
        with pytest.raises(SchemaError, match=r"the transaction has written to main\.t"):
            tx.drop_table("t")
    with pytest.raises(SchemaError, match="already exists"), two_tables.transaction() as tx:  # noqa: PT012 - the drop must be rolled back
        tx.drop_table("t")
        tx.create_table("u", ROWS)
    assert (two_tables.tables(), count(two_tables, "t")) == (["main.t", "main.u"], 20)


CHANGES: dict[str, Callable[[Lake, str], object]] = {
    "drop": lambda lake, name: lake.drop_table(name),
    "rename": lambda lake, name: lake.rename_table(name, "renamed"),
    "comment": lambda lake, name: lake.table(name).set_comments("a comment"),
    "evolve": lambda lake, name: lake.table(name).evolve(add={"n": "DATE"}),
}


THEIRS: dict[str, tuple[str, ...]] = {
    "evolve": ("ALTER TABLE dev.{0} ADD COLUMN theirs DATE",),
    "drop": ("DROP TABLE dev.{0}",),
    "rename": ("ALTER TABLE dev.{0} RENAME TO theirs_{0}",),
    "replace": ("ALTER TABLE dev.{0} RENAME TO kept_{0}", "CREATE TABLE dev.{0} (id BIGINT)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("at_the_commit", [False, True])
def test_change_of_another_definition_is_a_conflict(
    two_tables: Lake, store: Store, monkeypatch: pytest.MonkeyPatch, *, at_the_commit: bool
) -> None:
    with store.connect() as foreign:

        def interfere(name: str, theirs: str) -> None:
            for statement in THEIRS[theirs]:
                foreign.execute(statement.format(name))

        for number, (change, theirs) in enumerate(itertools.product(CHANGES, THEIRS)):
            name = f"t{number}"
            two_tables.create_table(name, {"id": "BIGINT"})
            with monkeypatch.context() as patch:
                if at_the_commit:
                    at_commit(patch, before=partial(interfere, name, theirs))
                else:
                    interfere(name, theirs)
                with pytest.raises(CommitConflictError):
                    CHANGES[change](two_tables, name)
            two_tables.refresh()
    found = {snapshot.message for snapshot in two_tables.snapshots() if snapshot.message}
    assert {message.rpartition(" ")[0] for message in found} == {"create table"}


def test_drop_after_a_read_conflicts_with_new_rows(two_tables: Lake, other: Lake) -> None:
    other.table("t").append(ROWS)
    two_tables.table("t").scan()
    with pytest.raises(CommitConflictError):
        two_tables.drop_table("t")
    two_tables.refresh()
    other.table("t").append(ROWS)
    assert two_tables.drop_table("t") == other.snapshot_id + 1


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_definitions_on_other_catalogs(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with store_of(tmp_path, on_catalog(request, tmp_path, kind)).open() as lake:
        lake.create_table("s.t", ROWS, comment="c", column_comments={"id": "k"}).append(ROWS)
        lake.rename_table("s.t", "s.u")
        assert (lake.table("s.u").comment, lake.table("s.u").column_comments) == ("c", {"id": "k"})
        with lake.transaction() as tx:
            tx.drop_table("s.u")
            tx.create_table("s.u", {"n": "INTEGER"}).append([{"n": 7}])
        lake.create_view("s.v", "SELECT 1 AS one")
        lake.drop_view("s.v")
        assert (lake.tables(), lake.views(), lake.table("s.u").head()) == (["s.u"], [], [{"n": 7}])
        lake.drop_table("s.u")
        assert lake.tables() == []


def test_a_view_is_a_single_query(two_tables: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before, snapshot_id, files = two_tables.tables(), two_tables.snapshot_id, list(tmp_path.iterdir())
    for more in ("; DROP TABLE t", "; COPY (SELECT 1) TO 'made.csv'", "; PRAGMA version"):
        for sql in (f"SELECT 1 AS a{more}", f"SELECT 1 AS a{more};", more.strip("; "), "SELECT 1 AS a) FROM (x"):
            with pytest.raises(QueryError):
                two_tables.create_view("made", sql)
    assert (two_tables.tables(), two_tables.refresh()) == (before, snapshot_id)
    assert list(tmp_path.iterdir()) == files
    two_tables.create_view("made", "SELECT 1 AS a; -- a comment")
    assert two_tables.sql("FROM made").collect().to_dict(as_series=False) == {"a": [1]}


def test_word_that_ducklake_replaces_is_refused_before_anything_is_created(two_tables: Lake) -> None:
    before = two_tables.snapshot_id
    with pytest.raises(SchemaError, match=r"the definition of main\.events contains \{DATA_PATH\}"):
        two_tables.create_table("events", {"id": "INTEGER"}, comment="{DATA_PATH}")
    with pytest.raises(SchemaError, match=r"the change of main\.t contains \{SNAPSHOT_ID\}"):
        two_tables.table("t").evolve(add={"n": "VARCHAR"}, defaults={"n": "{SNAPSHOT_ID}"})
    with pytest.raises(SchemaError, match=r"the view main\.v contains \{AUTHOR\}"):
        two_tables.create_view("v", "SELECT '{AUTHOR}' AS a")
    assert (two_tables.refresh(), two_tables.tables(), two_tables.views()) == (before, ["main.t", "main.u"], [])


def test_change_that_ducklake_refuses_is_a_schema_error(two_tables: Lake) -> None:
    table = two_tables.create_table("events", {"id": "BIGINT", "at": "TIMESTAMP"}, partitioned_by=["year(at)"])
    before = two_tables.snapshot_id
    changes: list[dict[str, Any]] = [{"drop": ["at"]}, {"add": {"n": "INTEGER"}, "defaults": {"n": "many"}}]
    for change in changes:
        with pytest.raises(SchemaError, match=r"^DuckLake rejected the change: "):
            table.evolve(**change)
    assert two_tables.refresh() == before


def test_table_that_another_writer_created_first_is_named(store: Store) -> None:
    with store.open() as one, store.open() as other:
        one.create_table("raw.t", {"id": "BIGINT"})
        with pytest.raises(CommitConflictError, match='"t" already exists') as refused:
            other.create_table("raw.t", {"id": "BIGINT"})
        assert str(refused.value.hint).startswith("call lake.refresh()")
        with pytest.raises(CommitConflictError, match="already exists") as refused, other.transaction() as tx:  # noqa: PT012 - the commit fails
            tx.create_table("raw.u", {"id": "BIGINT"})
            one.create_table("raw.u", {"id": "BIGINT"})
        assert str(refused.value.hint).startswith("call lake.refresh()")
    reason = "but this table has been created by another transaction already"
    text = f'Failed to commit: Transaction conflict - attempting to create table "t" in schema "raw" - {reason}'
    with pytest.raises(CommitConflictError, match='create table "t"'), translated_errors():
        raise duckdb.TransactionException(text)


DATED = pa.table({"id": pa.array(range(20), pa.int64()), "day": pa.array([dt.date(2026, 1, 1)] * 20)})


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
    ).append(DATED)


def ids(lake: Lake, table: str = "t") -> list[int]:
    return sorted(lake.table(table).to_arrow(["id"])["id"].to_pylist())


def definition(lake: Lake, table: str = "t") -> tuple[Any, ...]:
    """Everything that the catalog says about the present definition of a table, without ids."""
    with catalog_of(lake).transaction() as catalog:
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
    lake.create_table("other", DATED)
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


@pytest.mark.slow
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
            version = table.append(DATED)
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


@pytest.mark.slow
def test_renamed_table_is_found_by_its_former_name(lake: Lake) -> None:
    """And the table that took its name is replaced."""
    lake.rename_table("t", '"odd.name"')
    lake.table('"odd.name"').delete("id > 2")
    assert lake.plan_restore('"odd.name"', version=2).action is RestoreAction.REPLACE
    lake.restore('"odd.name"', version=2)
    assert len(ids(lake, '"odd.name"')) == 20
    lake.create_table("t", {"id": "BIGINT NOT NULL", "day": "DATE"}).append(DATED.slice(0, 3))
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
    with lake.transaction() as tx, pytest.raises(LakeconfError, match="a restore cannot be a part of it"):
        tx.restore("t", version=2)
    lake.drop_table("t")
    lake.create_view("t", "SELECT 1 AS one")
    with pytest.raises(SchemaError, match=r"main\.t is now a view"):
        lake.restore("t", version=2)


def test_change_of_another_writer_since_the_plan_is_a_conflict(lake: Lake, store: Store) -> None:
    lake.table("t").delete("id = 1")
    with store.open() as other:
        lake.plan_restore("t", version=2)
        other.table("t").append(DATED)
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


@pytest.mark.slow("spark")
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
        other.table("t").append(DATED)
        other.table("t").delete("id >= 0")
        with pytest.raises(CommitConflictError, match="since") as refused:
            lake.restore("t", version=version)
        assert "lake.refresh()" in str(refused.value.hint)
        lake.refresh()
        assert lake.plan_restore("t", version=version).action is RestoreAction.REPLACE
        lake.restore("t", version=version)
        assert ids(lake) == sorted(list(range(20)) * (version - 1))
