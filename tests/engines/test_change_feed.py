"""The range of a change feed, and DuckDB's query for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.catalog.changes import Deletes, changes_sql, plan_changes
from lakeconf.catalog.data_file import DeleteFile
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from catalog_lake import Lake

ALL = 2**63 - 1


@pytest.fixture
def lake(files: Lake) -> Lake:
    """The table `t` with inserts in the snapshots 2 to 5."""
    files.run("CREATE TABLE lake.t (a INTEGER)", *(f"INSERT INTO lake.t VALUES ({n})" for n in range(4)))
    assert files.newest == 5
    return files


def changes(lake: Lake, condition: str = "true", since: int = 1) -> list[tuple[Any, ...]]:
    query = changes_sql(lake.reader, plan_changes(lake.reader, "t", since, lake.newest))
    return lake.rows(f"SELECT snapshot_id, change_type, a FROM ({query}) WHERE {condition} ORDER BY ALL")


def test_query_quotes_names(files: Lake) -> None:
    files.run("""CREATE SCHEMA lake."o's" """, """CREATE TABLE lake."o's"."t'1" (a INTEGER)""")
    query = changes_sql(files.reader, plan_changes(files.reader, """o's.t'1""", 1, 2))
    assert query == f"FROM (FROM ducklake_table_changes('lake', 'o''s', 't''1', 1, 2) LIMIT {ALL})"
    assert files.rows(query) == []


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
