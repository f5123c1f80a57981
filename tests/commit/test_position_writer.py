"""Deleted positions: their files, row ids and replaced files, and the rows that a delete at the commit would find."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from commit_hooks import at_commit
from deleted_rows import COLUMNS, frame, ids
from lake_parts import catalog_of, scope_of, session_of
from local_stores import on_catalog, store_of
from plain_sql import plain_rows, run_plain
from planned_writes import add
from staged_changes import file_groups

from lakeconf.catalog.file_footers import ColumnStatistics, Footer
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.commit import positions as position_files
from lakeconf.commit.positions import counted_positions, have_row_ids, write_positions
from lakeconf.commit.row_delta import RowDelta, plan_delete
from lakeconf.commit.staged_tables import StagedTables, statistics_row, with_bounds
from lakeconf.connection.connection import connect
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.engine import FILE_ROW_NUMBER, ROW_ID
from lakeconf.errors import CommitConflictError, CommitError, SchemaError
from lakeconf.write.operations.delete import DeleteRows
from lakeconf.write.operations.overwrite import OverwriteRows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_lake import AttachedLake
    from pyspark.sql import SparkSession

    import lakeconf
    from lakeconf import Lake
    from lakeconf.catalog.data_file import FileGroup
    from lakeconf.commit.positions import PositionFile


COUNT = 3_000_000


def one_file(lake: AttachedLake, count: int) -> None:
    lake.run("CALL lake.set_option('data_inlining_row_limit', 0)")
    lake.run(f"CREATE TABLE lake.t AS SELECT i FROM range({count}) AS r(i)")


def written(lake: AttachedLake, positions: str, count: int) -> PositionFile:
    """The file of positions of the only data file of the table."""
    info, folder = load_table(lake.reader, "t", lake.newest), f"{lake.folder}/data/main/t/new folder/"
    (file,) = plan_delete(lake.reader, info, None).files
    return write_positions(lake.connection, file, positions, count, folder, lake.newest)


@pytest.mark.parametrize("most", [500_000, 7])
@pytest.mark.parametrize("earlier", [True, False])
def test_positions_are_sorted_with_the_earlier_ones(
    inlining_lake: AttachedLake, monkeypatch: pytest.MonkeyPatch, most: int, *, earlier: bool
) -> None:
    monkeypatch.setattr(position_files, "SORTED_IN_MEMORY", most)
    one_file(inlining_lake, 100)
    if earlier:
        inlining_lake.run("DELETE FROM lake.t WHERE i IN (1, 99)", "DELETE FROM lake.t WHERE i = 7")
    positions = "SELECT file_row_number AS pos FROM lake.t WHERE i % 3 = 0 ORDER BY pos"
    ((count,),) = inlining_lake.rows(f"SELECT count(*) FROM ({positions})")
    file = written(inlining_lake, positions, count)
    rows = inlining_lake.rows(f"SELECT * FROM '{file.path}'")
    newest = inlining_lake.newest
    new = [(file.data_file.path, number, newest + 1) for number in range(0, 99, 3)]
    old = [
        (file.data_file.path, 1, newest - 1),
        (file.data_file.path, 7, newest),
        (file.data_file.path, 99, newest - 1),
    ]
    every = [(file.data_file.path, number) for number in range(0, 100, 3)]
    assert rows == (sorted([*new, *old], key=lambda row: row[1]) if earlier else every)
    assert file.row_count == len(rows)
    ids = inlining_lake.rows(f"SELECT field_id FROM parquet_schema('{file.path}') WHERE type IS NOT NULL")
    assert [number for (number,) in ids] == [2147483646, 2147483645, 2147483539][: len(rows[0])]


@pytest.mark.slow
@pytest.mark.parametrize("earlier", [0, 300_000])
def test_memory_does_not_grow_with_the_number_of_positions(inlining_lake: AttachedLake, earlier: int) -> None:
    """COPY would keep row groups of the source in memory until their turn; a sort of all positions needs 150 MB.

    That of their names, too, would need more memory, because the path of the data file is long.
    """
    folder = inlining_lake.folder / ("long" * 50)
    folder.mkdir()
    inlining_lake.run("CALL lake.set_option('data_inlining_row_limit', 0)", "CREATE TABLE lake.t (i BIGINT)")
    path = f"{folder}/one.parquet"
    inlining_lake.run(f"COPY (FROM range({COUNT}) AS r(i)) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {COUNT})")
    inlining_lake.run(f"CALL ducklake_add_data_files('lake', 't', '{path}')")
    if earlier:
        inlining_lake.run(f"DELETE FROM lake.t WHERE i % 10 = 0 AND i < {earlier * 10}")
    positions = "SELECT file_row_number AS pos FROM lake.t WHERE i % 2 = 1"
    inlining_lake.run("SET max_temp_directory_size = '0KB'", "SET memory_limit = '60MB'")
    file = written(inlining_lake, positions, COUNT // 2)
    inlining_lake.run("RESET memory_limit")
    query = f"SELECT count(*), bool_and(pos > before) FROM (SELECT pos, lag(pos) OVER () AS before FROM '{file.path}')"
    assert inlining_lake.rows(query) == [(COUNT // 2 + earlier, True)]
    assert inlining_lake.rows(f"SELECT DISTINCT file_path FROM '{file.path}'") == [(path,)]


@pytest.mark.parametrize(
    ("ids", "is_same"),
    [
        ([4, 1, 2, 3], True),
        ([1, 2, 3], False),
        ([1, 2, 3, 4, 4], False),
        ([1, 2, 3, 5], False),
        ([1, 1, 4, 4], False),  # the same count, sum of ids and bounds
    ],
)
def test_only_the_same_ids_are_equal(ids: list[int], is_same: bool, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("one.parquet", "day=2/two's.parquet")]
    (tmp_path / "day=2").mkdir()
    with connect() as connection:
        for path, part in zip(files, ([1, 2], [3, 4]), strict=True):
            listed = path.replace("'", "''")
            connection.execute(f"COPY (SELECT unnest({part}) AS {INTERNAL_ROW_ID.name}) TO '{listed}'")
        assert have_row_ids(connection, files, f"SELECT unnest({ids}) AS {ROW_ID}") is is_same


def test_repeated_or_unsorted_positions_are_refused(tmp_path: Path) -> None:
    with connect() as connection:
        for number, positions in enumerate(([3, 3], [5, 3])):
            path = str(tmp_path / f"{number}.parquet")
            connection.execute(f"COPY (SELECT unnest({positions})::BIGINT AS {FILE_ROW_NUMBER}) TO '{path}'")
            assert counted_positions(connection, {1: path}) is None


TABLE = TableInfo(4, "main", "t", (), "/data/main/t/")
BOUNDS = ColumnStatistics(1, 80, 5, 1, "1.5", "2.5", contains_nan=True)
ALL_NULL = ColumnStatistics(2, 8, 5, 5, None, None)


def footer(name: str, rows: int, *statistics: ColumnStatistics) -> Footer:
    return Footer(f"/data/main/t/{name}", rows, 900, 90, statistics)


def planned(lake: lakeconf.Lake, rows: int) -> tuple[TableInfo, FileGroup, Footer]:
    reader, version = catalog_of(lake), lake.refresh()
    info = load_table(reader, "t", version)
    (group,) = file_groups(reader, info, version)
    return info, group, replace(footer("a.parquet", rows), path=f"{info.path}a.parquet")


def replaced(lake: lakeconf.Lake, replacement: tuple[TableInfo, FileGroup, Footer]) -> StagedTables:
    """The tables of a staged commit that replaces a group of files, on the snapshot of the lake."""
    info, group, written = replacement
    tables = StagedTables(catalog_of(lake), session_of(lake).writer, lake.snapshot_id, "/hidden/")
    tables.replace_files(info, [(group, written)])
    return tables


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("INSERT INTO t VALUES (5)", 0),
        ("INSERT INTO u VALUES (5)", 0),
        ("DELETE FROM t WHERE id = 3", 1),
        ("UPDATE t SET id = 50 WHERE id IN (3, 13)", 2),
        ("CALL ducklake_merge_adjacent_files('dev', 't')", 2),
    ],
)
@pytest.mark.parametrize("inlined", [0, 10])
def test_changed_files_are_a_conflict(two_tables: lakeconf.Lake, statement: str, changed: int, inlined: int) -> None:
    lake = two_tables
    run_plain(lake, "INSERT INTO t FROM range(10)", "INSERT INTO t FROM range(10, 20)")
    replacement = planned(lake, 20)
    replaced(lake, replacement)
    run_plain(lake, f"CALL dev.set_option('data_inlining_row_limit', {inlined})", statement)
    lake.refresh()
    if not changed:
        replaced(lake, replacement)
        return
    with pytest.raises(CommitConflictError, match=f"another writer changed rows in {changed} of 2 files of main.t"):
        replaced(lake, replacement)


def test_other_numbers_of_rows_are_refused(two_tables: lakeconf.Lake) -> None:
    run_plain(two_tables, "INSERT INTO t FROM range(10)", "DELETE FROM t WHERE id < 3")
    replacement = planned(two_tables, 8)
    with pytest.raises(
        CommitError, match=r"another writer changed 1 rows of main.t while they were rewritten: nothing was written"
    ):
        replaced(two_tables, replacement)


def test_columns_without_values_get_the_bounds_of_the_table() -> None:
    """But a column with values of a type without bounds gets none."""
    only_nan = ColumnStatistics(3, 8, 5, 0, None, None, contains_nan=True)
    no_bounds = ColumnStatistics(4, 8, 5, 1, None, None)
    bounds = dict.fromkeys(range(6), ("7", "9"))
    columns = [with_bounds(column, bounds) for column in (BOUNDS, ALL_NULL, only_nan, no_bounds)]
    rows = [(column.field_id, *statistics_row(column)) for column in columns]
    # The bounds, and whether the file has values: if not, DuckLake does not merge its bounds with those of others.
    assert [(row[0], row[7], row[9], row[12]) for row in rows] == [
        (1, "1.5", "2.5", True),
        (2, "7", "9", False),
        (3, "7", "9", True),
        (4, None, None, True),
    ]


def test_bounds_that_ducklake_would_change_are_refused(two_tables: lakeconf.Lake) -> None:
    run_plain(two_tables, "INSERT INTO t FROM range(10)")
    info, group, written = planned(two_tables, 10)
    bad = replace(written, statistics=(replace(BOUNDS, high="{DATA_PATH}"),))
    with pytest.raises(SchemaError, match=r"a value of main.t contains \{DATA_PATH\}"):
        replaced(two_tables, (info, group, bad))


OTHERS = {
    "append": "INSERT INTO {0} SELECT 100 + i, '2024-01-02', 'b', 50 FROM range(40) AS r(i)",
    "small append": "INSERT INTO {0} VALUES (100, '2024-01-02', 'b', 50), (101, '2024-01-03', NULL, 1)",
    "update": "UPDATE {0} SET x = 44 WHERE id % 4 = 0",
    "small update": "UPDATE {0} SET day = '2024-01-02' WHERE id = 3",
    "delete": "DELETE FROM {0} WHERE id % 3 = 2 AND id % 2 = 0",
    "small delete": "DELETE FROM {0} WHERE id IN (1, 88, 89)",
    "delete of all": "DELETE FROM {0}",
    "merge of files": "CALL ducklake_merge_adjacent_files('dev', '{0}')",
    "rewrite": "CALL ducklake_rewrite_data_files('dev', '{0}', delete_threshold => 0.0)",
    "flush": "CALL ducklake_flush_inlined_data('dev', table_name => '{0}')",
}
# Files of Spark and of DuckDB in each partition, deletes in files and in the catalog, rows in the catalog.
WEAR = (
    "CALL dev.set_option('data_inlining_row_limit', 10, table_name => '{0}')",
    "DELETE FROM {0} WHERE id % 7 = 0",
    "INSERT INTO {0} VALUES (200, '2024-01-02', 'a', 50), (201, '2024-01-01', 'a', NULL)",
    "INSERT INTO {0} SELECT 300 + i, '2024-01-02', 'a', i FROM range(60) AS r(i)",
    "UPDATE {0} SET kind = 'z' WHERE id BETWEEN 300 AND 330",
    "DELETE FROM {0} WHERE id IN (4, 5)",
)
WHERE = "day = '2024-01-02' OR x > 40"


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    """An empty lake on each kind of catalog."""
    with store_of(tmp_path, on_catalog(request, tmp_path)).open(spark) as lake:
        yield lake


def make_twins(lake: Lake, *names: str) -> None:
    """Creates tables with the same rows and files."""
    with lake.transaction() as tx:
        for name in names:
            tx.create_table(name, COLUMNS, partitioned_by=["day"]).append(frame(90))
    for name in names:
        run_plain(lake, *(statement.format(name) for statement in WEAR))
    lake.refresh()


def rows(lake: Lake, table: str, version: int | None = None) -> list[tuple[Any, ...]]:
    at = "" if version is None else f" AT (VERSION => {version})"
    return sorted(plain_rows(lake, f"SELECT rowid, * FROM dev.{table}{at}"), key=repr)


@pytest.mark.slow
@pytest.mark.prove("sqlite", "duckdb")
@pytest.mark.usefixtures("searching")
def test_overwrite_replaces_all_rows(empty: Lake) -> None:
    """Other writers change the table before the commit, which replaces their rows too."""
    others = {"nothing": "", **{name: OTHERS[name] for name in ("append", "flush")}}
    names = {other: f"t{number}" for number, other in enumerate(others)}
    make_twins(empty, *names.values())
    for other, name in names.items():
        empty.refresh()
        version = empty.snapshot_id
        ids_before = {row[1] for row in rows(empty, name)}
        with scope_of(empty).joined() as transaction:
            add(transaction, name, OverwriteRows(frame(3)))
            run_plain(empty, *filter(None, [others[other].format(name)]))
        assert sorted(row[1] for row in rows(empty, name)) == [0, 1, 2], other
        assert {row[1] for row in rows(empty, name, version)} == ids_before


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres", "small append", "update", "small update", "small delete", "delete of all")
@pytest.mark.usefixtures("searching")
@pytest.mark.parametrize("other", OTHERS)
def test_result_is_that_of_a_delete_at_the_commit(empty: Lake, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    """Other writers change the table after the search. `test_random_deletes` does so for staged commits, too."""
    make_twins(empty, "ours", "theirs")
    at_commit(monkeypatch, before=lambda: run_plain(empty, OTHERS[other].format("ours")))
    empty.table("ours").delete(WHERE)
    run_plain(empty, OTHERS[other].format("theirs"), f"DELETE FROM theirs WHERE {WHERE}")
    assert rows(empty, "ours") == rows(empty, "theirs")


@pytest.mark.slow
@pytest.mark.prove("duckdb", "sqlite")
@pytest.mark.usefixtures("searching")
def test_row_that_is_flushed_after_the_commit_began_is_deleted(empty: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog then shows the row in a file, but the transaction still sees it in the catalog."""
    empty.create_table("t", COLUMNS).append(frame(90))
    run_plain(empty, "CALL dev.set_option('data_inlining_row_limit', 10)")
    run, flushes = RowDelta.run, [OTHERS["flush"].format("t")]

    def flushing(self: RowDelta, *arguments: Any) -> Any:
        run_plain(empty, *flushes)
        flushes.clear()
        return run(self, *arguments)

    monkeypatch.setattr(RowDelta, "run", flushing)
    with scope_of(empty).joined() as transaction:
        add(transaction, "t", DeleteRows("id IN (4, 7) AND x > 2"))
        assert isinstance(transaction.contents.actions[-1], RowDelta)
        run_plain(empty, "INSERT INTO t VALUES (4, '2024-01-01', 'new', 50)")
    assert ids(empty) == [number for number in range(90) if number != 7]


@pytest.mark.slow
@pytest.mark.prove("sqlite", "postgres")
@pytest.mark.usefixtures("searching")
def test_history_and_change_feed_are_those_of_a_delete_by_duckdb(empty: Lake) -> None:
    make_twins(empty, "ours", "theirs")
    first = empty.snapshot_id
    for where in (WHERE, "id < 40", "kind IS NULL OR id = 305"):
        empty.table("ours").delete(where)
        run_plain(empty, f"DELETE FROM theirs WHERE {where}")
    last = empty.refresh()
    ours, theirs = ([rows(empty, name, version) for version in range(first, last + 1)] for name in ("ours", "theirs"))
    # Their deletes come one snapshot later.
    assert ours[::2] == theirs[::2]
    assert ours[1::2] == theirs[2::2]
    feeds = [
        plain_rows(
            empty, f"SELECT rowid, change_type, id, day, kind, x FROM dev.table_changes('{name}', {first + 1}, {last})"
        )
        for name in ("ours", "theirs")
    ]
    assert sorted(feeds[0], key=repr) == sorted(feeds[1], key=repr)
    for name in ("ours", "theirs"):
        run_plain(empty, f"CALL ducklake_rewrite_data_files('dev', '{name}', delete_threshold => 0.0)")
    assert rows(empty, "ours") == rows(empty, "theirs") == ours[-1]
