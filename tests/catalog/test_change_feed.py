"""Change feeds: plans with the files, deletes and inlined rows of a range of snapshots, and DuckDB's query."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from catalog_lake import METADATA, lake

from lakeconf.catalog.changes_plan import (
    BEGIN,
    END,
    ROW_ID,
    Deletes,
    changed_inlined_rows,
    changes_sql,
    plan_changes,
    plan_changes_with_inlined_rows,
)
from lakeconf.catalog.data_file import DeleteFile
from lakeconf.errors import CatalogError, SnapshotNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_lake import AttachedLake

    from lakeconf.catalog.changes_plan import ChangesPlan


MERGE = "CALL ducklake_merge_adjacent_files('lake')"
REWRITE = "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.0)"
OTHER = "CREATE OR REPLACE TABLE lake.other (a INTEGER)"
FLUSH = "CALL ducklake_flush_inlined_data('lake')"


def plan(source: AttachedLake, since: int, until: int) -> ChangesPlan:
    return plan_changes(source.reader, "t", since, until)


def inserted(found: ChangesPlan) -> list[int]:
    return [file.data_file_id for file in found.inserted.files]


def deleted(found: ChangesPlan) -> list[int]:
    assert [file.path for file in found.deleted.files] == [deletes.path for deletes in found.deletes]
    return [file.data_file_id for file in found.deleted.files]


@pytest.fixture
def inlining(tmp_path: Path) -> Iterator[AttachedLake]:
    """A lake that inlines small changes; the snapshots 2 and 3 insert the rows 1 and 2, and 3."""
    with lake("duckdb", tmp_path) as attached:
        attached.run("CREATE TABLE lake.t (a INTEGER)")
        attached.run("INSERT INTO lake.t VALUES (1), (2)", "INSERT INTO lake.t VALUES (3)")
        yield attached


@pytest.mark.parametrize("source", ["three_files", "inlining"])
@pytest.mark.parametrize("statement", ["DELETE FROM lake.t", "UPDATE lake.t SET a = a + 1"])
def test_changes_whose_deleted_rows_have_expired_are_refused(
    request: pytest.FixtureRequest, source: str, statement: str
) -> None:
    """The catalog forgets these rows: a delete would be lost, and an update would look like an insert."""
    found: AttachedLake = request.getfixturevalue(source)
    last = found.newest
    found.run(statement, OTHER)
    assert plan(found, last + 1, last + 2).since == last + 1
    found.run(f"CALL ducklake_expire_snapshots('lake', versions => {list(range(last + 1))})")
    with pytest.raises(
        SnapshotNotFoundError, match=rf"snapshot {last + 1} are not available: it deleted rows of main\.t"
    ):
        plan(found, last + 1, last + 2)
    assert plan(found, last + 2, last + 2).since == last + 2
    assert plan_changes(found.reader, "other", last + 2, last + 2).since == last + 2


def test_delete_file_belongs_to_the_ranges_with_its_deletes(three_files: AttachedLake) -> None:
    three_files.run(*(f"DELETE FROM lake.t WHERE a = {row}" for row in (3, 15, 4)), OTHER)
    # The file of the first delete also contains the third one.
    ranges = {(2, 4): [], (5, 5): [0], (6, 6): [0, 1], (5, 6): [0, 1], (7, 7): [0], (2, 7): [0, 1], (8, 8): []}
    assert {(since, until): deleted(plan(three_files, since, until)) for since, until in ranges} == ranges
    (only,) = plan(three_files, 5, 5).deletes
    ((delete_file, first),) = only.files
    assert (first, delete_file.delete_count, delete_file.format) == (5, 2, "parquet")
    assert (only.end_snapshot, only.inlined, only.is_rewritten, only.is_mixed) == (None, (), False, False)
    assert inserted(plan(three_files, 5, 8)) == []


def test_removed_file_lost_its_rows_in_that_snapshot(three_files: AttachedLake) -> None:
    three_files.run(
        "DELETE FROM lake.t WHERE a = 3", "DELETE FROM lake.t WHERE a < 10", "DELETE FROM lake.t WHERE a = 15"
    )
    assert [found.end_snapshot for found in plan(three_files, 5, 7).deletes] == [6, None]
    assert [found.end_snapshot for found in plan(three_files, 6, 6).deletes] == [6]
    assert [found.end_snapshot for found in plan(three_files, 5, 5).deletes] == [None]
    assert deleted(plan(three_files, 7, 7)) == [1]
    assert plan(three_files, 2, 4).deletes == ()
    assert inserted(plan(three_files, 2, 7)) == [0, 1, 2]


def test_rewritten_file_loses_only_the_rows_that_were_deleted(three_files: AttachedLake) -> None:
    three_files.run("DELETE FROM lake.t WHERE a < 5", REWRITE, "DELETE FROM lake.t WHERE a = 7")
    rewritten = plan(three_files, 2, 7)
    assert rewritten.compactions == (6,)
    assert inserted(rewritten) == [0, 1, 2]  # not the file of the rewrite
    assert [(found.end_snapshot, found.is_rewritten) for found in rewritten.deletes] == [(None, True), (None, False)]
    assert inserted(plan(three_files, 6, 6)) == []
    assert deleted(plan(three_files, 6, 6)) == []
    assert len(deleted(plan(three_files, 7, 7))) == 1
    assert plan(three_files, 7, 7).compactions == ()


def test_merged_file_contains_rows_of_several_snapshots(three_files: AttachedLake) -> None:
    three_files.run(MERGE, "DELETE FROM lake.t WHERE a = 15")
    (merged,) = plan(three_files, 4, 6).inserted.files
    assert (merged.record_count, merged.begin_snapshot) == (30, 2)
    assert plan(three_files, 4, 6).compactions == (5,)
    assert [len(inserted(plan(three_files, since, 6))) for since in (2, 4, 5, 6)] == [1, 1, 0, 0]
    (deletes,) = plan(three_files, 6, 6).deletes
    assert deletes.is_mixed
    assert [file.snapshot_filter for file in plan(three_files, 2, 3).inserted.files] == [3]


def test_name_of_a_table_does_not_make_a_snapshot_a_compaction(three_files: AttachedLake) -> None:
    for kind in ("merge_adjacent", "rewrite_delete"):
        new = f'CREATE TABLE lake."x,{kind}:1,""y" (a INTEGER)'
        three_files.run("BEGIN", new, "INSERT INTO lake.t VALUES (1)", "COMMIT")
        found = plan(three_files, three_files.newest, three_files.newest)
        assert (found.compactions, len(found.inserted.files)) == ((), 1)


def test_delete_file_of_a_flush_may_have_deletes_of_later_snapshots(inlining: AttachedLake) -> None:
    inlining.run("DELETE FROM lake.t WHERE a = 1", "DELETE FROM lake.t WHERE a = 3", FLUSH)
    for since, until in ((4, 4), (5, 5), (4, 6)):
        (deletes,) = plan(inlining, since, until).deletes
        assert (deletes.is_mixed, len(deletes.files)) == (True, 1)
    (first,) = plan(inlining, 2, 2).inserted.files
    assert first.snapshot_filter == 2


def test_deletion_vector_is_refused_only_where_it_matters(three_files: AttachedLake) -> None:
    three_files.run("DELETE FROM lake.t WHERE a = 3", f"UPDATE {METADATA}.ducklake_delete_file SET format = 'puffin'")
    with pytest.raises(UnsupportedError, match=r"\.parquet has a deletion vector, which does not record") as refused:
        plan(three_files, 5, 5)
    assert refused.value.hint == "compare two snapshots of the table: lake.at(version=…).table(…).scan()"
    assert inserted(plan(three_files, 2, 4)) == [0, 1, 2]


def test_two_delete_files_at_one_snapshot_are_refused(three_files: AttachedLake) -> None:
    three_files.run("DELETE FROM lake.t WHERE a = 3")
    three_files.run(
        f"INSERT INTO {METADATA}.ducklake_delete_file SELECT * REPLACE (99 AS delete_file_id, 7 AS begin_snapshot) "
        f"FROM {METADATA}.ducklake_delete_file",
        *[OTHER] * 2,
    )
    with pytest.raises(CatalogError) as refused:
        plan(three_files, 5, 7)
    assert refused.value.message == (
        "the data file 0 of main.t has two delete files at version 7: two concurrent deletes damaged the table"
    )
    assert refused.value.hint == "read only changes before version 7"
    assert deleted(plan(three_files, 5, 6)) == [0]
    three_files.run(f"UPDATE {METADATA}.ducklake_delete_file SET end_snapshot = 7 WHERE begin_snapshot = 5")
    assert deleted(plan(three_files, 5, 7)) == [0]
    three_files.run(f"UPDATE {METADATA}.ducklake_delete_file SET end_snapshot = 8 WHERE begin_snapshot = 5")
    with pytest.raises(CatalogError):
        plan(three_files, 5, 7)


def changed(source: AttachedLake, since: int, until: int, name: str = "t") -> list[dict[str, object]]:
    rows = plan_changes_with_inlined_rows(source.reader, name, since, until)[1]
    return sorted(rows.to_pylist(), key=lambda row: (row[ROW_ID], row[BEGIN]))


def test_flush_after_planning_is_a_retryable_error_and_the_plan_is_repeated(
    inlining_lake: AttachedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    inlining_lake.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)")
    made = []

    def planned(*arguments: object) -> object:
        made.append(plan_changes(*arguments))  # type: ignore[arg-type]
        if len(made) == 1:
            inlining_lake.run(FLUSH)
        return made[-1]

    monkeypatch.setattr("lakeconf.catalog.changes_plan.plan_changes", planned)
    plan, rows = plan_changes_with_inlined_rows(inlining_lake.reader, "t", 2, 2)
    assert (len(made), plan is made[1], len(plan.inserted.files), rows.num_rows) == (2, True, 1, 0)
    with pytest.raises(CatalogError, match="the plan has 2 inlined rows, but the catalog has 0") as moved:
        changed_inlined_rows(inlining_lake.reader, made[0])
    assert moved.value.retryable


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("filename INTEGER", "but its column 'filename' hides DuckDB's virtual column that identifies them"),
        ("FileName INTEGER", "but its column 'FileName' hides DuckDB's virtual column that identifies them"),
        ("v VARIANT", "and DuckDB cannot export its VARIANT column 'v'"),
    ],
)
def test_column_that_hides_the_virtual_one_or_cannot_be_exported_needs_a_flush(
    inlining_lake: AttachedLake, column: str, reason: str
) -> None:
    inlining_lake.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    inlining_lake.run(f"ALTER TABLE lake.t ADD COLUMN {column}")
    assert changed(inlining_lake, 2, 2) == [{"a": 1, ROW_ID: 0, BEGIN: 2, END: None}]
    with pytest.raises(UnsupportedError) as refused:
        changed(inlining_lake, 2, 3)
    assert refused.value.message == f"the table main.t has inlined rows, {reason}"
    assert refused.value.hint == f"move them to a file: {FLUSH}"
    inlining_lake.run(FLUSH)
    assert changed(inlining_lake, 2, 3) == []


def test_row_of_an_expired_snapshot_is_refused(inlining_lake: AttachedLake) -> None:
    inlining_lake.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    inlining_lake.run("CREATE TABLE lake.other (a INTEGER)", "DELETE FROM lake.t")
    inlining_lake.run("CALL ducklake_expire_snapshots('lake', versions => [0, 1])")
    assert changed(inlining_lake, 4, 4) == [{"a": 1, ROW_ID: 0, BEGIN: 2, END: 4}]
    inlining_lake.run("CALL ducklake_expire_snapshots('lake', versions => [2])")
    with pytest.raises(UnsupportedError, match=r"inlined rows of main\.t were deleted in this range, but inserted in"):
        changed(inlining_lake, 4, 4)


ALL = 2**63 - 1


@pytest.fixture
def inserts(file_lake: AttachedLake) -> AttachedLake:
    """The table `t` with inserts in the snapshots 2 to 5."""
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", *(f"INSERT INTO lake.t VALUES ({n})" for n in range(4)))
    assert file_lake.newest == 5
    return file_lake


def test_query_quotes_names_and_refuses_a_column_of_the_change_feed(file_lake: AttachedLake) -> None:
    file_lake.run("""CREATE SCHEMA lake."o's" """, """CREATE TABLE lake."o's"."t'1" (a INTEGER)""")
    query = changes_sql(file_lake.reader, plan_changes(file_lake.reader, """o's.t'1""", 1, 2))
    assert query == f"FROM (FROM ducklake_table_changes('lake', 'o''s', 't''1', 1, 2) LIMIT {ALL})"
    assert file_lake.rows(query) == []
    file_lake.run("CREATE TABLE lake.t (a INTEGER, RowId INTEGER)")
    with pytest.raises(UnsupportedError, match="a column 'RowId', which hides a column of the change feed"):
        changes_sql(file_lake.reader, plan_changes(file_lake.reader, "t", file_lake.newest, file_lake.newest))


def test_query_omits_rewrites_of_files(inserts: AttachedLake) -> None:
    def changes() -> list[tuple[Any, ...]]:
        query = changes_sql(inserts.reader, plan_changes(inserts.reader, "t", 1, inserts.newest))
        return inserts.rows(f"SELECT snapshot_id, change_type, a FROM ({query}) ORDER BY ALL")

    inserts.run("INSERT INTO lake.t SELECT * FROM range(10, 110)", "DELETE FROM lake.t WHERE a > 20")
    before = changes()
    inserts.run(REWRITE)
    plan = plan_changes(inserts.reader, "t", 1, 8)
    assert changes_sql(inserts.reader, plan).endswith(f"{ALL}) WHERE snapshot_id NOT IN (8)")
    assert changes_sql(inserts.reader, replace(plan, compactions=(3, 8))).endswith(" WHERE snapshot_id NOT IN (3, 8)")
    assert changes() == before
    assert len(before) == 4 + 100 + 89


def test_deletes_that_duckdb_returns_wrongly_are_rejected(inserts: AttachedLake) -> None:
    plan, inlined = plan_changes(inserts.reader, "t", 1, 5), ((0, 3),)
    files = ((DeleteFile("/d", "parquet", 1, 1), 3),)
    for accepted in (
        Deletes("/f"),
        Deletes("/f", files=files, inlined=inlined),
        Deletes("/f", end_snapshot=4),
        Deletes("/f", inlined=inlined, is_rewritten=True),
        Deletes("/f", files=files, is_rewritten=True),
    ):
        changes_sql(inserts.reader, replace(plan, deletes=(Deletes("/other"), accepted)))
    for wrong in (
        Deletes("/f", is_mixed=True),
        Deletes("/f", inlined=inlined, end_snapshot=0),
        Deletes("/f", files=files, inlined=inlined, is_rewritten=True),
    ):
        with pytest.raises(UnsupportedError) as refused:
            changes_sql(inserts.reader, replace(plan, deletes=(Deletes("/other"), wrong)))
        assert refused.value.message == "DuckDB returns wrong changes for deletes from /f of main.t"
        assert refused.value.hint == "read the changes with Spark: open the lake with a session, store.open(spark)"
