"""The range of a change feed, and DuckDB's query for it."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.catalog.changes import Deletes, changes_sql, check_range, plan_changes, refuse_hidden
from lakeconf.catalog.data_file import DeleteFile
from lakeconf.catalog.snapshot import snapshots
from lakeconf.catalog.tables import load_table
from lakeconf.errors import LakeconfError, SnapshotNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from catalog_lake import Lake

MICROSECOND = dt.timedelta(microseconds=1)
ALL = 2**63 - 1


@pytest.fixture
def lake(files: Lake) -> Lake:
    """The table `t` with inserts in the snapshots 2 to 5."""
    files.run("CREATE TABLE lake.t (a INTEGER)", *(f"INSERT INTO lake.t VALUES ({n})" for n in range(4)))
    assert files.newest == 5
    return files


def time_of(lake: Lake, version: int) -> dt.datetime:
    return next(snapshot.time for snapshot in snapshots(lake.reader) if snapshot.snapshot_id == version)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [(0, None, (0, 4)), (4, None, (4, 4)), (2, 3, (2, 3)), (4, 4, (4, 4)), (0, 0, (0, 0))],
)
def test_range_by_version_includes_both_ends(
    lake: Lake, since: int, until: int | None, expected: tuple[int, int]
) -> None:
    assert check_range(lake.reader, 4, since, until) == expected


def test_range_by_time_includes_commits_at_its_ends(lake: Lake) -> None:
    second, third, fourth = (time_of(lake, version) for version in (2, 3, 4))
    assert check_range(lake.reader, 5, second, fourth) == (2, 4)
    assert check_range(lake.reader, 5, second + MICROSECOND, fourth - MICROSECOND) == (3, 3)
    assert check_range(lake.reader, 5, third, None) == (3, 5)
    assert check_range(lake.reader, 5, 1, third) == (1, 3)


def test_range_after_the_snapshot_of_the_lake_is_rejected(lake: Lake) -> None:
    for until in (5, time_of(lake, 5)):
        with pytest.raises(LakeconfError) as refused:
            check_range(lake.reader, 4, 2, until)
        assert refused.value.message == "changes until snapshot 5 were requested, but the lake reads snapshot 4"
        assert refused.value.hint == "call lake.refresh(), or omit `until`"


def test_empty_range_is_rejected(lake: Lake) -> None:
    with pytest.raises(LakeconfError, match=r"^no changes since snapshot 4 until snapshot 3: the range is empty$"):
        check_range(lake.reader, 5, 4, 3)
    with pytest.raises(LakeconfError, match="since snapshot 6 until snapshot 5: the range is empty"):
        check_range(lake.reader, 5, time_of(lake, 5) + MICROSECOND, None)


@pytest.mark.parametrize(
    ("since", "until", "lost", "oldest"), [(1, None, 3, 4), (0, 3, 3, 4), (2, 2, 2, 4), (-1, 1, -1, 0)]
)
def test_range_with_expired_or_unknown_snapshots_is_rejected(
    lake: Lake, since: int, until: int | None, lost: int, oldest: int
) -> None:
    lake.run("CALL ducklake_expire_snapshots('lake', versions => [2, 3])")
    with pytest.raises(SnapshotNotFoundError) as refused:
        check_range(lake.reader, 5, since, until)
    assert refused.value.message == f"the changes of snapshot {lost} are not available: it has expired or never existed"
    assert refused.value.hint == f"read the changes from snapshot {oldest} on"
    assert check_range(lake.reader, 5, 4, None) == (4, 5)


@pytest.mark.parametrize("name", ["snapshot_id", "RowId", "CHANGE_TYPE"])
def test_column_that_hides_a_column_of_the_feed_is_rejected(files: Lake, name: str) -> None:
    files.run(f'CREATE TABLE lake.t (a INTEGER, "{name}" INTEGER)', "CREATE TABLE lake.ok (row_id INTEGER)")
    refuse_hidden(load_table(files.reader, "ok", files.newest))
    with pytest.raises(UnsupportedError) as refused:
        refuse_hidden(load_table(files.reader, "t", files.newest))
    assert refused.value.message == f"main.t has a column '{name}', which hides a column of the change feed"
    assert refused.value.hint == "rename the column; the change feed has the columns snapshot_id, rowid, change_type"
    with pytest.raises(UnsupportedError, match="which hides a column of the change feed"):
        changes_sql(files.reader, plan_changes(files.reader, "t", 1, 1))


def changes(lake: Lake, condition: str = "true", since: int = 1) -> list[tuple[Any, ...]]:
    query = changes_sql(lake.reader, plan_changes(lake.reader, "t", since, lake.newest))
    return lake.rows(f"SELECT snapshot_id, change_type, a FROM ({query}) WHERE {condition} ORDER BY ALL")


def test_query_quotes_names(files: Lake) -> None:
    files.run("""CREATE SCHEMA lake."o's" """, """CREATE TABLE lake."o's"."t'1" (a INTEGER)""")
    query = changes_sql(files.reader, plan_changes(files.reader, """o's.t'1""", 1, 2))
    assert query == f"FROM (FROM ducklake_table_changes('lake', 'o''s', 't''1', 1, 2) LIMIT {ALL})"
    assert files.rows(query) == []


def test_filter_on_the_query_selects_from_its_rows(lake: Lake) -> None:
    """Below a filter on the snapshot, DuckDB would look for the snapshot that inserted a deleted row."""
    lake.run("DELETE FROM lake.t WHERE a = 1")
    assert changes(lake) == [*((n + 2, "insert", n) for n in range(4)), (6, "delete", 1)]
    assert changes(lake, "snapshot_id = 6") == [(6, "delete", 1)]
    assert changes(lake, "snapshot_id = 3") == [(3, "insert", 1)]


def test_query_omits_rewrites_of_files(lake: Lake) -> None:
    lake.run("INSERT INTO lake.t SELECT * FROM range(10, 110)", "DELETE FROM lake.t WHERE a > 20")
    before = changes(lake)
    lake.run("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.0)")
    plan = plan_changes(lake.reader, "t", 1, 8)
    assert changes_sql(lake.reader, plan).endswith(f"{ALL}) WHERE snapshot_id NOT IN (8)")
    assert changes_sql(lake.reader, replace(plan, compactions=(3, 8))).endswith(" WHERE snapshot_id NOT IN (3, 8)")
    assert changes(lake) == before
    assert len(before) == 4 + 100 + 89


DELETE = (DeleteFile("/d", "parquet", 1, 1), 3)


@pytest.mark.parametrize(
    ("deletes", "is_refused"),
    [
        (Deletes("/f"), False),
        (Deletes("/f", is_mixed=True), True),
        (Deletes("/f", files=(DELETE,), inlined=((0, 3),)), False),
        (Deletes("/f", inlined=((0, 3),), end_snapshot=0), True),
        (Deletes("/f", end_snapshot=4), False),
        (Deletes("/f", inlined=((0, 3),), is_rewritten=True), False),
        (Deletes("/f", files=(DELETE,), inlined=((0, 3),), is_rewritten=True), True),
        (Deletes("/f", files=(DELETE,), is_rewritten=True), False),
    ],
)
def test_deletes_that_duckdb_returns_wrongly_are_rejected(lake: Lake, deletes: Deletes, *, is_refused: bool) -> None:
    plan = replace(plan_changes(lake.reader, "t", 1, 5), deletes=(Deletes("/other"), deletes))
    if not is_refused:
        changes_sql(lake.reader, plan)
        return
    with pytest.raises(UnsupportedError) as refused:
        changes_sql(lake.reader, plan)
    assert refused.value.message == "DuckDB returns wrong changes for deletes from /f of main.t"
    assert refused.value.hint == "read the changes with Spark: open the lake with a session, store.open(spark)"
