"""Scan plans: files, deletes and inlined rows as DuckDB reads them, also beside a flush, and the numbers of rows."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest
from catalog_lake import METADATA, AttachedLake, duckdb_rows, lake, planned_rows

from lakeconf.catalog.data_file import NameMapping
from lakeconf.catalog.pruning.scan_plan import (
    inlined_rows,
    plan_scan,
    plan_with_inlined_rows,
    row_count,
    with_bytes_per_row,
)
from lakeconf.catalog.tables import load_table
from lakeconf.errors import CatalogError, SchemaError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer

    from lakeconf.catalog.pruning.scan_plan import ScanPlan


HUNDRED = "CREATE TABLE lake.t AS SELECT CAST(i AS INTEGER) AS a, 'k' || i AS b FROM range(100) AS r(i)"


def plan_at(source: AttachedLake, version: int | None = None) -> ScanPlan:
    return plan_scan(source.reader, "t", source.newest if version is None else version)


def check_every_version(source: AttachedLake) -> None:
    for version in source.versions():
        try:
            plan = plan_at(source, version)
        except TableNotFoundError:
            continue
        assert planned_rows(source, plan) == duckdb_rows(source, plan), version


def test_small_inserts_are_planned_as_inlined_rows(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER, b VARCHAR)", "INSERT INTO lake.t VALUES (1, 'x'), (2, NULL)")
    plan = plan_at(source)
    assert (plan.files, plan.inlined_row_count, plan.inlined_tables) == ((), 2, ("ducklake_inlined_data_1_1",))
    rows = inlined_rows(source.reader, plan).to_pylist()
    version = source.newest
    assert rows == [
        {"a": 1, "b": "x", "_ducklake_internal_row_id": 0, "_ducklake_internal_snapshot_id": version},
        {"a": 2, "b": None, "_ducklake_internal_row_id": 1, "_ducklake_internal_snapshot_id": version},
    ]


@pytest.mark.slow
def test_inlined_rows_of_older_schemas_use_the_schema_of_the_snapshot(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    source.run("ALTER TABLE lake.t ADD COLUMN b INTEGER DEFAULT 7", "INSERT INTO lake.t VALUES (2, 3)")
    source.run("ALTER TABLE lake.t RENAME COLUMN a TO c", "DELETE FROM lake.t WHERE c = 1")
    plan = plan_at(source, source.newest - 1)
    assert len(plan.inlined_tables) == 2
    assert sorted(zip(*inlined_rows(source.reader, plan).select(["c", "b"]).to_pydict().values(), strict=True)) == [
        (1, 7),
        (2, 3),
    ]
    check_every_version(source)


def test_inlined_deletes_are_file_positions_not_row_ids(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (-1), (-2), (-3)")
    source.run("INSERT INTO lake.t SELECT * FROM range(100)", "DELETE FROM lake.t WHERE a = 5")
    one = source.newest
    source.run("DELETE FROM lake.t WHERE a IN (7, 8)")
    (before,), (after,) = plan_at(source, one).files, plan_at(source).files
    assert (before.row_id_start, before.inlined_deletes, after.inlined_deletes) == (3, (5,), (5, 7, 8))
    assert plan_at(source, one - 1).files[0].inlined_deletes == ()
    check_every_version(source)


def test_merged_delete_file_keeps_the_snapshot_of_each_delete(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path, options=", DATA_INLINING_ROW_LIMIT 0") as source:
        source.run(HUNDRED, "DELETE FROM lake.t WHERE a < 3", "DELETE FROM lake.t WHERE a = 50")
        (first,), (second,) = plan_at(source, 2).files, plan_at(source, 3).files
        assert first.delete_file is not None
        assert first.delete_file == second.delete_file  # one file for both deletes, with a snapshot for each position
        assert (second.delete_file.delete_count, second.delete_file.format) == (4, "parquet")
        check_every_version(source)


def test_compacted_file_has_a_snapshot_filter_for_past_snapshots(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", *["INSERT INTO lake.t SELECT * FROM range(20)"] * 3)
    third = source.newest
    source.run("CALL ducklake_merge_adjacent_files('lake')")
    filters = [plan_at(source, version).files[0].snapshot_filter for version in range(third - 2, third + 2)]
    assert filters == [third - 2, third - 1, None, None]
    check_every_version(source)


def test_flushed_rows_keep_their_original_snapshots(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)", "INSERT INTO lake.t VALUES (3)")
    source.run("DELETE FROM lake.t WHERE a = 1", "CALL ducklake_flush_inlined_data('lake')")
    plan = plan_at(source, 2)
    assert (plan.inlined_row_count, len(plan.files), plan.files[0].snapshot_filter) == (0, 1, 2)
    check_every_version(source)


@pytest.mark.slow
def test_updates_rewrites_and_schema_changes_at_every_snapshot(source: AttachedLake) -> None:
    source.run(
        HUNDRED,
        "UPDATE lake.t SET b = 'u' WHERE a < 20",
        "ALTER TABLE lake.t ADD COLUMN c INTEGER DEFAULT 5",
        "ALTER TABLE lake.t ALTER COLUMN a TYPE BIGINT",
        "INSERT INTO lake.t SELECT i, 'late', i FROM range(30) AS r(i)",
        "DELETE FROM lake.t WHERE a % 3 = 0",
        "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.0)",
        "ALTER TABLE lake.t RENAME COLUMN b TO bb",
        "ALTER TABLE lake.t DROP COLUMN c",
        "ALTER TABLE lake.t ADD COLUMN c VARCHAR",
        "CALL ducklake_merge_adjacent_files('lake')",
    )
    check_every_version(source)


def test_file_paths_match_those_of_duckdb(source: AttachedLake) -> None:
    source.run('CREATE SCHEMA lake."odd schema"', 'CREATE TABLE lake."odd schema"."tä ble" (p VARCHAR, a INTEGER)')
    source.run('ALTER TABLE lake."odd schema"."tä ble" SET PARTITIONED BY (p)')
    source.run(
        """INSERT INTO lake."odd schema"."tä ble" SELECT ['a/b', 'é %', '', NULL][1 + i % 4], i FROM range(40) r(i)"""
    )
    plan = plan_scan(source.reader, '"odd schema"."tä ble"', source.newest)
    shown = source.rows('SELECT DISTINCT filename FROM lake."odd schema"."tä ble"')
    assert sorted(file.path for file in plan.files) == sorted(path for (path,) in shown)
    values = {value for file in plan.files for value in file.partition_values}
    assert values == {(0, "a/b"), (0, "é %"), (0, ""), (0, None)}


def test_registered_files_have_a_name_mapping_and_an_absolute_path(source: AttachedLake) -> None:
    folder = source.folder / "elsewhere" / "p=07"
    folder.mkdir(parents=True)
    struct = "{'x': 1, 'y': [{'z': 2}]}"
    source.run(f"COPY (SELECT 1 AS A, {struct} AS s, MAP {{'k': 1}} AS m) TO '{folder}/f.parquet'")
    source.run("CREATE TABLE lake.t (a INTEGER, s STRUCT(x INTEGER, y STRUCT(z INTEGER)[]), m MAP(VARCHAR, INTEGER))")
    source.run("ALTER TABLE lake.t ADD COLUMN p INTEGER", "ALTER TABLE lake.t SET PARTITIONED BY (p)")
    source.run(f"CALL ducklake_add_data_files('lake', 't', '{folder}/f.parquet', hive_partitioning => true)")
    plan = plan_at(source)
    (file,) = plan.files
    ids = {column.name: column for column in plan.table.columns}
    assert (file.path, file.partition_values) == (f"{folder}/f.parquet", ((0, "7"),))
    assert file.mapping_id is not None
    by_id = {mapping.field_id: mapping for mapping in plan.name_mappings[file.mapping_id]}
    assert by_id[ids["a"].field_id] == NameMapping("A", ids["a"].field_id)
    assert by_id[ids["p"].field_id] == NameMapping("p", ids["p"].field_id, in_path=True)
    x, y = ids["s"].children
    assert by_id[ids["s"].field_id].children == (
        NameMapping("x", x.field_id),
        NameMapping(
            "y",
            y.field_id,
            children=(
                NameMapping(
                    "list", y.children[0].field_id, children=(NameMapping("z", y.children[0].children[0].field_id),)
                ),
            ),
        ),
    )
    assert [child.source_name for child in by_id[ids["m"].field_id].children] == ["key", "value"]


def test_two_active_delete_files_of_one_data_file_are_rejected(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with lake("postgres", tmp_path, server=postgres_server, options=", DATA_INLINING_ROW_LIMIT 0") as source:
        source.run(HUNDRED, "DELETE FROM lake.t WHERE a = 1")
        with source.connection.cursor() as one, source.connection.cursor() as other:
            for connection, row in ((one, 2), (other, 3)):
                connection.execute("BEGIN")
                connection.execute(f"DELETE FROM lake.t WHERE a = {row}")
            one.execute("COMMIT")
            other.execute("COMMIT")  # DuckLake commits both, and then returns 196 rows
        message = r"the data file 0 of main\.t has two live delete files at version(.|\n)*from a version before 2"
        with pytest.raises(CatalogError, match=message):
            plan_at(source)
        assert len(planned_rows(source, plan_at(source, 1))) == 100


def test_columns_are_returned_in_the_requested_order(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER, B INTEGER, c INTEGER)", "INSERT INTO lake.t VALUES (1, 2, 3)")
    plan, rows = plan_with_inlined_rows(source.reader, "t", source.newest, ["C", "b"])
    assert [column.name for column in plan.columns] == rows.column_names[:2] == ["c", "B"]
    with pytest.raises(SchemaError, match=r"main\.t has no column 'bb'(.|\n)*\"B\""):
        plan_scan(source.reader, "t", source.newest, ["a", "bb"])
    with pytest.raises(SnapshotNotFoundError, match="version 77 does not exist"):
        plan_scan(source.reader, "t", 77)


@pytest.mark.parametrize("hidden", ["filename", "FileName", "rowid", "snapshot_id"])
def test_inlined_rows_of_a_table_that_hides_a_virtual_column(source: AttachedLake, hidden: str) -> None:
    source.run(f"CREATE TABLE lake.t (a INTEGER, {hidden} INTEGER)", "INSERT INTO lake.t VALUES (1, 2), (3, 4)")
    source.run("INSERT INTO lake.t SELECT i, i FROM range(100, 150) AS r(i)", "DELETE FROM lake.t WHERE a = 1")
    plan = plan_at(source)
    rows = inlined_rows(source.reader, plan).select(["a", hidden]).to_pylist()
    assert rows == [{"a": 3, hidden: 4}]


def test_inlined_rows_with_hidden_filename_and_rowid_must_be_flushed(file_lake: AttachedLake) -> None:
    file_lake.run("CALL lake.set_option('data_inlining_row_limit', 10)")
    file_lake.run("CREATE TABLE lake.t (filename INTEGER, rowid INTEGER)", "INSERT INTO lake.t VALUES (1, 2)")
    with pytest.raises(UnsupportedError, match="'filename' and 'rowid' hide") as raised:
        inlined_rows(file_lake.reader, plan_at(file_lake))
    file_lake.run(str(raised.value.hint).removeprefix("move them to a file: "))
    plan = plan_at(file_lake)
    assert (inlined_rows(file_lake.reader, plan).num_rows, len(plan.files)) == (0, 1)


def test_promoted_timestamps_use_the_time_zone_of_the_reader(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (d TIMESTAMP)", "INSERT INTO lake.t VALUES ('2026-01-01 12:00:00')")
    source.run("ALTER TABLE lake.t ALTER COLUMN d TYPE TIMESTAMPTZ", "SET TimeZone = 'America/New_York'")
    plan, rows = plan_with_inlined_rows(source.reader, "t", source.newest)
    assert plan.time_zone == "America/New_York"
    assert rows["d"][0].as_py().isoformat() == "2026-01-01T12:00:00-05:00"


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def two(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> Iterator[tuple[AttachedLake, AttachedLake]]:
    """One lake in two DuckDB instances; a DuckDB catalog allows only one, so it uses two connections instead."""
    kind = request.param
    database = postgres_server.create_database() if kind == "postgres" else None
    with lake(kind, tmp_path, server=postgres_server, database=database) as one, contextlib.ExitStack() as stack:
        if kind == "duckdb":
            other = AttachedLake(kind, stack.enter_context(one.connection.cursor()), tmp_path)
        else:
            other = stack.enter_context(lake(kind, tmp_path, server=postgres_server, database=database))
        yield one, other


@pytest.mark.parametrize("name", ["a", "filename"])
def test_flush_after_the_plan_is_detected_and_planned_again(two: tuple[AttachedLake, AttachedLake], name: str) -> None:
    reader, writer = two
    inserts = (f"INSERT INTO lake.t VALUES {rows}" for rows in ("(1), (2)", "(3)"))
    writer.run(f"CREATE TABLE lake.t ({name} INTEGER)", *inserts)
    plan = plan_scan(reader.reader, "t", 2)
    writer.run("CALL ducklake_flush_inlined_data('lake')")
    with pytest.raises(
        CatalogError, match=r"inlined rows of main\.t were moved.*has 2 inlined rows, but the catalog has 0"
    ) as raised:
        inlined_rows(reader.reader, plan)
    assert raised.value.retryable
    plan, rows = plan_with_inlined_rows(reader.reader, "t", 2)
    assert (rows.num_rows, len(plan.files)) == (0, 1)
    assert planned_rows(reader, plan) == duckdb_rows(reader, plan)


def test_inserts_and_deletes_after_the_plan_are_ignored(two: tuple[AttachedLake, AttachedLake]) -> None:
    reader, writer = two
    writer.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)")
    plan = plan_scan(reader.reader, "t", 2)
    writer.run("INSERT INTO lake.t VALUES (3)", "DELETE FROM lake.t WHERE a = 1", "ALTER TABLE lake.t RENAME a TO b")
    assert inlined_rows(reader.reader, plan)["a"].to_pylist() == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("two", ["duckdb", "postgres"], indirect=True)  # SQLite writers block each other for too long
def test_reads_during_concurrent_writes_and_flushes_return_pinned_rows(two: tuple[AttachedLake, AttachedLake]) -> None:
    reader, writer = two
    writer.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (0)")
    finished, has_read = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(1, 400):
                if number >= 40 and has_read.is_set():
                    break  # on a busy machine, the first reads take long
                writer.run(f"INSERT INTO lake.t VALUES ({number})")
                if number % 4 == 0:
                    writer.run("CALL ducklake_flush_inlined_data('lake')")
        except BaseException as error:  # noqa: BLE001 - asserted in the main thread
            failures.append(error)
        finally:
            finished.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not finished.is_set():
        version = reader.newest
        plan, rows = plan_with_inlined_rows(reader.reader, "t", version)
        in_files = [file for file in plan.files if file.snapshot_filter is None]
        if len(in_files) == len(plan.files):  # without snapshot filters, the row counts in the plan are exact
            assert sum(file.record_count for file in plan.files) + rows.num_rows == version - 1 - flushes(
                reader, version
            )
            has_read.set()
    thread.join()
    assert failures == []
    assert has_read.is_set()


def flushes(source: AttachedLake, version: int) -> int:
    """The number of flushes up to this snapshot; they insert no rows."""
    counted = source.metadata(
        f"SELECT count(*) FROM ducklake_snapshot_changes WHERE snapshot_id <= {version} AND changes_made LIKE '%flush%'"
    )
    return int(counted[0][0])


def counts(source: AttachedLake) -> list[tuple[int | None, int]]:
    """The count from the catalog and DuckDB's, at each snapshot with the table."""
    found = []
    for version in source.versions()[2:]:
        with source.reader.lake_cursor() as cursor:
            ((expected,),) = cursor.rows(f"SELECT count(*) FROM (SELECT rowid FROM lake.t AT (VERSION => {version}))")
        found.append((row_count(source.reader, "t", version), expected))
    return found


def known(found: list[tuple[int | None, int]]) -> int:
    """The number of snapshots of which the catalog knows the count; checks these counts."""
    assert [count for count, _ in found if count is not None] == [
        expected for count, expected in found if count is not None
    ]
    return sum(count is not None for count, _ in found)


def test_files_inlined_rows_and_inlined_deletes(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", "CREATE TABLE lake.other AS SELECT * FROM range(50)")
    source.run("INSERT INTO lake.t SELECT * FROM range(100)", "INSERT INTO lake.t VALUES (1), (NULL)")
    source.run("DELETE FROM lake.t WHERE a IN (1, 5)", "UPDATE lake.t SET a = -1 WHERE a = 7")
    source.run("INSERT INTO lake.t SELECT * FROM range(30)", "DELETE FROM lake.other WHERE range < 20")
    found = counts(source)
    assert known(found) == len(found)
    assert found[-1] == (129, 129)


def test_delete_files(source: AttachedLake) -> None:
    source.run("CALL lake.set_option('data_inlining_row_limit', 0)", "CREATE TABLE lake.t (a INTEGER)")
    source.run("INSERT INTO lake.t SELECT * FROM range(100)", "DELETE FROM lake.t WHERE a % 3 = 0")
    assert counts(source)[-1] == (66, 66)
    source.run("DELETE FROM lake.t WHERE a % 5 = 0", "INSERT INTO lake.t SELECT * FROM range(10)")
    found = counts(source)
    assert found[-1] == (63, 63)
    assert found[-2] == (None, 53)
    assert known(found) < len(found)
    source.run("DELETE FROM lake.t")
    assert counts(source)[-1] == (0, 0)


def test_flushed_and_merged_files(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", *(f"INSERT INTO lake.t VALUES ({n})" for n in range(4)))
    source.run("DELETE FROM lake.t WHERE a = 2", "CALL ducklake_flush_inlined_data('lake')")
    source.run("INSERT INTO lake.t SELECT * FROM range(20)", "CALL ducklake_merge_adjacent_files('lake')")
    source.run("INSERT INTO lake.t VALUES (7)")
    found = counts(source)
    assert 0 < known(found) < len(found)
    assert found[-1][0] in (None, 24)


def test_both_kinds_of_deletes_need_the_files(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t SELECT * FROM range(100)")
    source.run("DELETE FROM lake.t WHERE a < 30", "DELETE FROM lake.t WHERE a = 50")
    source.run("INSERT INTO lake.t SELECT * FROM range(100)", "DELETE FROM lake.t WHERE a = 60")
    assert known(counts(source)) >= 1


def test_two_live_delete_files_of_a_file_and_what_is_no_table_have_no_count(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t SELECT * FROM range(100)")
    file_lake.run("DELETE FROM lake.t WHERE a < 30", "CREATE VIEW lake.v AS SELECT 1 AS a")
    assert row_count(file_lake.reader, "t", file_lake.newest) == 70
    twice = "SELECT * REPLACE (delete_file_id + 1000 AS delete_file_id)"
    file_lake.run(f"INSERT INTO {METADATA}.ducklake_delete_file BY NAME {twice} FROM {METADATA}.ducklake_delete_file")
    assert row_count(file_lake.reader, "t", file_lake.newest) is None
    with pytest.raises(UnsupportedError):
        row_count(file_lake.reader, "v", file_lake.newest)
    with pytest.raises(TableNotFoundError):
        row_count(file_lake.reader, "nope", file_lake.newest)
    with pytest.raises(SnapshotNotFoundError):
        row_count(file_lake.reader, "t", 99)


def test_missing_or_empty_statistics_give_no_size(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    table = load_table(file_lake.reader, "t", file_lake.newest)
    for change in ("record_count = 0", "file_size_bytes = NULL, record_count = 1", "record_count = NULL"):
        file_lake.run(f"UPDATE {METADATA}.ducklake_table_stats SET {change}")
        assert with_bytes_per_row(file_lake.reader, table).bytes_per_row is None
    file_lake.run(f"DELETE FROM {METADATA}.ducklake_table_stats")
    assert with_bytes_per_row(file_lake.reader, table) is table
