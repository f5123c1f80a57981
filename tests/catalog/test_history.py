"""The files and the changes of a table: from the catalog, in words, and as DuckLake records them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from catalog_lake import METADATA, lake
from plain_sql import run_plain

from lakeconf.catalog.changes import changed_tables, changes_between, changes_since, made_changes
from lakeconf.catalog.history import change_summaries, history, stored_rows
from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.catalog.snapshot import Snapshot
from lakeconf.errors import SnapshotNotFoundError, TableNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_lake import Lake

    import lakeconf


def kinds(source: Lake, name: str, version: int) -> list[tuple[int, tuple[str, ...]]]:
    return [(change.snapshot_id, change.changes) for change in history(source.reader, name, version)]


def test_files_of_a_table_with_their_deletes(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path) as source:
        source.run("CREATE TABLE lake.t (a INTEGER, p VARCHAR)", "ALTER TABLE lake.t SET PARTITIONED BY (p)")
        source.run("INSERT INTO lake.t SELECT i, 'x' FROM range(100) AS r(i)")
        source.run("CALL lake.set_option('data_inlining_row_limit', 0)", "DELETE FROM lake.t WHERE a < 3")
        source.run("CALL lake.set_option('data_inlining_row_limit', 10)", "DELETE FROM lake.t WHERE a IN (50, 51)")
        source.run("INSERT INTO lake.t SELECT i, NULL FROM range(20) AS r(i)")
        (first, second), _ = stored_rows(source.reader, "t", source.newest)
        (path, size), _ = source.metadata("SELECT path, file_size_bytes FROM ducklake_data_file ORDER BY data_file_id")
        ((deletes,),) = source.metadata("SELECT path FROM ducklake_delete_file")
        assert first.path.endswith(f"/main/t/{path}")
        assert (first.delete_file or "").endswith(deletes)
        assert (first.rows, first.bytes, first.begin_snapshot, first.deleted_rows) == (100, size, 3, 5)
        assert (second.rows, second.delete_file, second.deleted_rows) == (20, None, 0)
        assert (first.partition, second.partition) == (("x",), (None,))
        assert [file.partition for file in stored_rows(source.reader, "t", 3)[0]] == [("x",)]
        assert stored_rows(source.reader, "t", 2) == ([], 0)


def test_history_lists_the_changes_of_one_table(local: Lake) -> None:
    local.run("CREATE TABLE lake.u (a INTEGER)", "CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.u VALUES (1)")
    local.run("INSERT INTO lake.t VALUES (1)", "ALTER TABLE lake.t RENAME TO v", "ALTER TABLE lake.v ADD COLUMN b INT")
    local.run(
        "BEGIN", "INSERT INTO lake.v VALUES (1, 2), (3, 4)", "DELETE FROM lake.v WHERE a = 1 AND b IS NULL", "COMMIT"
    )
    changes = kinds(local, "v", local.newest)
    assert changes == [
        (2, ("created_table",)),
        (4, ("inserted_into_table",)),
        (5, ("renamed_table",)),
        (6, ("altered_table",)),
        (7, ("inserted_into_table", "deleted_from_table")),
    ]
    assert kinds(local, "t", 4) == changes[:2]
    assert kinds(local, "u", local.newest) == [(1, ("created_table",)), (3, ("inserted_into_table",))]


def test_table_created_with_rows_has_both_changes(local: Lake) -> None:
    local.run("CREATE TABLE lake.t AS SELECT 1 AS a", "BEGIN", "ALTER TABLE lake.t RENAME TO w")
    local.run("ALTER TABLE lake.w ADD COLUMN b INTEGER", "COMMIT")
    assert kinds(local, "w", 2) == [
        (1, ("created_table", "inserted_into_table")),
        (2, ("renamed_table", "altered_table")),
    ]


def test_files_are_read_again_if_the_catalog_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a read-only SQLite catalog, the queries of a transaction may see different states."""
    read_rows, changes = MetadataTransaction.rows, ["ALTER TABLE lake.t RENAME COLUMN p TO q"]

    def rows(self: MetadataTransaction, sql: str, *parameters: Any) -> Any:
        if "transform FROM ducklake_partition_column" in sql and changes:
            writer.run(changes.pop())
        return read_rows(self, sql, *parameters)

    monkeypatch.setattr(MetadataTransaction, "rows", rows)
    with lake("sqlite", tmp_path, options=", META_JOURNAL_MODE 'WAL'") as writer:
        writer.run("CREATE TABLE lake.t (a INTEGER, p VARCHAR)", "ALTER TABLE lake.t SET PARTITIONED BY (p)")
        writer.run("CALL lake.set_option('data_inlining_row_limit', 0)", "INSERT INTO lake.t VALUES (1, 'x')")
        with lake("sqlite", tmp_path, options=", READ_ONLY") as reading:
            ((file,), _) = stored_rows(reading.reader, "t", reading.newest)
    assert not changes
    assert (file.partition, file.partition_keys) == (("x",), ("q",))


def test_history_of_an_unknown_table_is_an_error(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER)")
    with pytest.raises(TableNotFoundError):
        history(local.reader, "t", 0)
    with pytest.raises(SnapshotNotFoundError):
        stored_rows(local.reader, "t", 9)


ROWS = pa.table({"id": pa.array(range(5000), pa.int64())})


def summaries(lake: lakeconf.Lake) -> list[str]:
    lake.refresh()
    return list(change_summaries(lake._session.reader, lake.snapshots()).values())


def test_changes_of_tables_have_their_names_of_then(two_tables: lakeconf.Lake) -> None:
    lake = two_tables
    lake.table("t").append(ROWS)
    lake.rename_table("t", '"odd.name"')
    lake.table('"odd.name"').delete("id < 10")
    lake.table('"odd.name"').evolve(add={"n": "INTEGER"})
    lake.create_view("s.v", "SELECT 1 AS one")
    lake.drop_table('"odd.name"')
    assert summaries(lake) == [
        *("create schema main", "create main.t", "create main.u", "insert main.t +5,000 rows"),
        *('rename main.t to main."odd.name"', 'delete from main."odd.name"', 'alter main."odd.name"'),
        *("create schema s, create view s.v", 'drop main."odd.name"'),
    ]


def test_rows_are_counted_per_table_and_only_if_they_are_known(two_tables: lakeconf.Lake) -> None:
    lake = two_tables
    with lake.transaction() as tx:
        tx.table("t").append(ROWS)
        tx.table("u").append(ROWS.slice(0, 20))
    lake.table("u").append(ROWS.slice(0, 30))
    assert summaries(lake)[3:] == ["insert main.t +5,000 rows, insert main.u +20 rows", "insert main.u +30 rows"]
    lake.maintenance.compact()
    assert summaries(lake)[3:5] == ["insert main.t +5,000 rows, insert main.u", "insert main.u"]
    run_plain(lake, "CALL dev.set_option('data_inlining_row_limit', 10)", "INSERT INTO u VALUES (7)")
    assert summaries(lake)[-1] == "insert main.u"


@pytest.mark.parametrize(
    "changes", ["something_new:1", "inserted_into_table:99", "odd text", 'created_table:"open', ""]
)
def test_unknown_changes_stay_as_they_are(two_tables: lakeconf.Lake, changes: str) -> None:
    snapshot = Snapshot(7, dt.datetime.now(dt.UTC), 1, changes)
    assert change_summaries(two_tables._session.reader, [snapshot]) == {7: changes}


@pytest.mark.parametrize("name", ["x,dropped_table:1,", "x:1", ',"",dropped_table:1,""', "dropped_table:1", '"'])
def test_name_that_looks_like_changes_is_none(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    text = f'created_table:{quoted}.{quoted},altered_table:7,created_view:"main".{quoted}'
    assert made_changes(text) == [("altered_table", 7)]


def test_maintenance_changes_no_table() -> None:
    kinds = ("merge_adjacent", "compacted_table", "rewrite_delete", "inline_flush", "flushed_inlined_data")
    changes = [*kinds, "inlined_insert", "dropped_table"]
    text = ",".join(f"{kind}:{number}" for number, kind in enumerate(changes))
    assert changed_tables(text) == [("inlined_insert", 5), ("dropped_table", 6)]


@pytest.fixture
def changed(local: Lake) -> Lake:
    """A lake whose snapshots 1 and 2 create `t` and `u`, 3 and 5 insert into `t`, 4 into `u`; 6 and 7 merge `t`."""
    local.run("CREATE TABLE lake.t (a INTEGER)", "CREATE TABLE lake.u (a INTEGER)")
    local.run(*(f"INSERT INTO lake.{name} VALUES (1)" for name in ("t", "u", "t")))
    local.run("CALL ducklake_merge_adjacent_files('lake', 't')", 'ALTER TABLE lake.t RENAME TO "u,altered_table:1,"')
    return local


def test_deleted_rows_are_lost_with_the_snapshot_before(changed: Lake) -> None:
    table, last = id_of(changed, "u"), changed.newest
    changed.run("DELETE FROM lake.u", "INSERT INTO lake.u VALUES (2)")
    assert changes_since(changed.reader, table, last, last + 2) == [last + 1, last + 2]
    changed.run(f"CALL ducklake_expire_snapshots('lake', versions => {list(range(last + 1))})")
    with pytest.raises(SnapshotNotFoundError, match=f"snapshot {last} has expired"):
        changes_since(changed.reader, table, last, last + 2)
    assert changes_since(changed.reader, table, last + 1, last + 2) == [last + 2]
    assert changes_since(changed.reader, id_of(changed, "u,altered_table:1,"), last, last + 2) == []


def id_of(lake: Lake, name: str) -> int:
    return int(lake.metadata(f"SELECT min(table_id) FROM ducklake_table WHERE table_name = '{name}'")[0][0])


def test_snapshot_without_a_record_has_unknown_changes(changed: Lake) -> None:
    changed.run(f"DELETE FROM {METADATA}.ducklake_snapshot_changes WHERE snapshot_id = 3")
    assert changes_between(changed.reader, 2, 3) == [(3, None)]
