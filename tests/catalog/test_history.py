"""The files and the changes of a table, from the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from catalog_lake import lake

from lakeconf.catalog.history import files, history
from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.errors import SnapshotNotFoundError, TableNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_lake import Lake


def kinds(source: Lake, name: str, version: int) -> list[tuple[int, tuple[str, ...]]]:
    return [(change.snapshot_id, change.changes) for change in history(source.reader, name, version)]


def test_files_of_a_table_with_their_deletes(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path) as source:
        source.run("CREATE TABLE lake.t (a INTEGER, p VARCHAR)", "ALTER TABLE lake.t SET PARTITIONED BY (p)")
        source.run("INSERT INTO lake.t SELECT i, 'x' FROM range(100) AS r(i)")
        source.run("CALL lake.set_option('data_inlining_row_limit', 0)", "DELETE FROM lake.t WHERE a < 3")
        source.run("CALL lake.set_option('data_inlining_row_limit', 10)", "DELETE FROM lake.t WHERE a IN (50, 51)")
        source.run("INSERT INTO lake.t SELECT i, NULL FROM range(20) AS r(i)")
        first, second = files(source.reader, "t", source.newest)
        (path, size), _ = source.metadata("SELECT path, file_size_bytes FROM ducklake_data_file ORDER BY data_file_id")
        ((deletes,),) = source.metadata("SELECT path FROM ducklake_delete_file")
        assert first.path.endswith(f"/main/t/{path}")
        assert (first.delete_file or "").endswith(deletes)
        assert (first.rows, first.bytes, first.begin_snapshot, first.deleted_rows) == (100, size, 3, 5)
        assert (second.rows, second.delete_file, second.deleted_rows) == (20, None, 0)
        assert (first.partition, second.partition) == (("x",), (None,))
        assert [file.partition for file in files(source.reader, "t", 3)] == [("x",)]
        assert files(source.reader, "t", 2) == []


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
            (file,) = files(reading.reader, "t", reading.newest)
    assert not changes
    assert (file.partition, file.partition_keys) == (("x",), ("q",))


def test_history_of_an_unknown_table_is_an_error(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER)")
    with pytest.raises(TableNotFoundError):
        history(local.reader, "t", 0)
    with pytest.raises(SnapshotNotFoundError):
        files(local.reader, "t", 9)
