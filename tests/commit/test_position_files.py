"""Files of deleted positions: each with the earlier deletes of its data file, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.table import load_table
from lakeconf.commit.position_files import DeletedPositions, live_files, locate, write_position_files
from lakeconf.errors import CommitConflictError

if TYPE_CHECKING:
    from catalog_lake import Lake


def written(lake: Lake, deleted: str) -> DeletedPositions:
    folder = f"{lake.folder}/data/main/t/new folder/"
    info = load_table(lake.reader, "t", lake.newest)
    found = locate(live_files(lake.reader, info, lake.newest), lake.connection, deleted)
    return write_position_files(lake.connection, found, folder)


def located(condition: str) -> str:
    return f"SELECT filename, file_row_number, rowid AS row_id FROM lake.t WHERE {condition}"


def test_first_deletes_have_no_snapshot(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t AS SELECT i FROM range(20) AS r(i)", "INSERT INTO lake.t VALUES (20)")
    found = written(usual, located("i IN (5, 3, 20)"))
    (file,) = found.files
    assert (file.row_count, file.earlier) == (2, None)
    assert usual.rows(f"FROM '{file.path}'") == [(file.data_file, 3), (file.data_file, 5)]
    ((inlined,),) = usual.metadata("SELECT table_name FROM ducklake_inlined_data_tables")
    assert found.inlined == ((inlined, 20),)


def test_earlier_deletes_keep_their_snapshots(usual: Lake) -> None:
    usual.run("CALL lake.set_option('data_inlining_row_limit', 0)")
    usual.run("CREATE TABLE lake.t AS SELECT i FROM range(20) AS r(i)")
    usual.run("DELETE FROM lake.t WHERE i = 7")
    first = usual.newest
    usual.run("DELETE FROM lake.t WHERE i = 1")
    (file,) = written(usual, located("i = 4")).files
    rows = usual.rows(f"SELECT pos, _ducklake_internal_snapshot_id FROM '{file.path}'")
    assert rows == [(1, first + 1), (4, first + 2), (7, first)]
    assert file.row_count == 3
    assert file.earlier is not None
    assert file.earlier.begin_snapshot == first
    assert usual.metadata("SELECT delete_file_id FROM ducklake_delete_file WHERE end_snapshot IS NULL") == [
        (file.earlier.delete_file_id,)
    ]
    assert file.snapshot_id == first + 2


def test_unknown_file_is_a_conflict(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t AS SELECT i FROM range(20) AS r(i)")
    with pytest.raises(CommitConflictError, match="does not know gone"):
        written(usual, "SELECT 'gone' AS filename, 0 AS file_row_number, 0 AS row_id")


def test_table_that_contains_a_file_twice_is_refused(usual: Lake) -> None:
    path = usual.folder / "twice.parquet"
    usual.run("CREATE TABLE lake.t (i BIGINT)", f"COPY (SELECT i FROM range(20) AS r(i)) TO '{path}'")
    usual.run(*[f"CALL ducklake_add_data_files('lake', 't', '{path}')"] * 2)
    with pytest.raises(CommitConflictError, match="contains a file twice"):
        written(usual, located("rowid = 2"))


def test_table_of_the_lake_does_not_hide_the_rows(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t AS SELECT i FROM range(20) AS r(i)", "CREATE TABLE lake.__lakeconf_deleted (i INT)")
    usual.run("USE lake")
    assert [file.row_count for file in written(usual, located("i = 2")).files] == [1]


def test_deletion_vectors_cannot_be_extended(vectors: Lake) -> None:
    vectors.run("CREATE TABLE lake.t AS SELECT i FROM range(20) AS r(i)", "DELETE FROM lake.t WHERE i = 1")
    with pytest.raises(CommitConflictError, match="cannot be extended"):
        written(vectors, located("i = 2"))


def table_bytes(lake: Lake) -> int:
    ((found,),) = lake.rows("SELECT sum(memory_usage_bytes) FROM duckdb_memory() WHERE tag = 'IN_MEMORY_TABLE'")
    return int(found)


def test_memory_of_a_deleted_row_does_not_depend_on_the_path_of_its_file(usual: Lake) -> None:
    folder, count = usual.folder / ("long" * 50), 400_000
    folder.mkdir()
    usual.run("CREATE TABLE lake.t (i BIGINT)", f"COPY (SELECT i FROM range({count}) r(i)) TO '{folder}/x.parquet'")
    usual.run(f"CALL ducklake_add_data_files('lake', 't', '{folder}/x.parquet')")
    before, info = table_bytes(usual), load_table(usual.reader, "t", usual.newest)
    found = locate(live_files(usual.reader, info, usual.newest), usual.connection, located("true"))
    assert list(found.counts.values()) == [count]
    assert 8 * count < table_bytes(usual) - before < 32 * count
    write_position_files(usual.connection, found, f"{usual.folder}/d/")
    assert table_bytes(usual) <= before


def test_table_without_files_has_no_places(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t (i BIGINT)")
    found = written(usual, located("true"))
    assert (found.files, found.inlined) == ((), ())
