"""The plan of a compaction follows DuckLake's rules for files, partitions and options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.lake.compaction import TableCompaction, plan_compaction, rewritten_files

if TYPE_CHECKING:
    from catalog_lake import Lake


@pytest.fixture
def source(usual: Lake) -> Lake:
    """A lake with the table `t`, which has three files of 100 rows."""
    usual.run("CREATE TABLE lake.t (id BIGINT)")
    usual.run(*(f"INSERT INTO lake.t FROM range({start}, {start + 100})" for start in (0, 100, 200)))
    return usual


def plan(source: Lake) -> list[str]:
    return [str(one) for one in plan_compaction(source.reader)]


def option(source: Lake, name: str, value: str, table: str | None = None, schema: str = "main") -> None:
    where = "" if table is None else f", table_name => '{table}', schema => '{schema}'"
    source.run(f"CALL lake.set_option('{name}', '{value}'{where})")


def compact(source: Lake) -> None:
    for function in ("flush_inlined_data", "rewrite_data_files", "merge_adjacent_files"):
        source.run(f"CALL ducklake_{function}('lake')")


def test_small_files_of_one_schema_version_are_merged(source: Lake) -> None:
    source.run(
        "CREATE TABLE lake.one (id BIGINT)", "INSERT INTO lake.one FROM range(100)", "CREATE TABLE lake.none (i INT)"
    )
    assert plan_compaction(source.reader) == [TableCompaction("main.t", 0, 0, 3)]
    source.run("ALTER TABLE lake.t ADD COLUMN note VARCHAR", "INSERT INTO lake.t SELECT range, 'x' FROM range(100)")
    assert plan(source) == ["main.t: merge 3 small files"]
    source.run("INSERT INTO lake.t SELECT range, 'x' FROM range(100)")
    assert plan(source) == ["main.t: merge 5 small files"]
    compact(source)
    assert plan(source) == []


def test_files_of_the_target_size_are_not_merged(source: Lake) -> None:
    sizes = [size for (size,) in source.metadata("SELECT file_size_bytes FROM ducklake_data_file ORDER BY ALL")]
    for limit, expected in ((sizes[-1] + 1, 3), (sizes[0], 0)):
        option(source, "target_file_size", f"{limit}B")
        assert sum(one.merged_files for one in plan_compaction(source.reader)) == expected
    option(source, "target_file_size", "1MB", table="t")
    assert plan(source) == ["main.t: merge 3 small files"], "the option of the table"
    source.metadata(f"UPDATE ducklake_data_file SET file_size_bytes = {512 * 10**6} WHERE data_file_id = 0")
    source.metadata("DELETE FROM ducklake_metadata WHERE key = 'target_file_size'")
    assert plan(source) == ["main.t: merge 2 small files"]
    source.metadata(f"UPDATE ducklake_data_file SET file_size_bytes = {512 * 10**6 - 1} WHERE data_file_id = 0")
    assert plan(source) == ["main.t: merge 3 small files"]


def test_files_with_deleted_rows_are_rewritten_instead(source: Lake) -> None:
    option(source, "data_inlining_row_limit", "0")
    source.run("DELETE FROM lake.t WHERE id < 94", "DELETE FROM lake.t WHERE id BETWEEN 100 AND 194")
    assert plan(source) == ["main.t: rewrite 1 file with deleted rows"]
    option(source, "rewrite_delete_threshold", "0.94")
    assert plan(source) == ["main.t: rewrite 2 files with deleted rows"]
    option(source, "rewrite_delete_threshold", "0.95", table="t")
    assert plan(source) == ["main.t: rewrite 1 file with deleted rows"], "the option of the table"
    option(source, "rewrite_delete_threshold", "0", table="t")
    assert plan(source) == ["main.t: rewrite 2 files with deleted rows"], "only files with deleted rows"


def test_last_delete_file_counts(source: Lake) -> None:
    option(source, "data_inlining_row_limit", "0")
    source.run("DELETE FROM lake.t WHERE id < 50", "DELETE FROM lake.t WHERE id < 99")
    assert plan(source) == ["main.t: rewrite 1 file with deleted rows, merge 2 small files"]
    source.metadata("UPDATE ducklake_delete_file SET end_snapshot = 99")
    assert plan(source) == ["main.t: merge 3 small files"]


def test_files_of_other_partitions_are_not_merged(source: Lake) -> None:
    source.run(
        "CREATE TABLE lake.p (id BIGINT, k INT)", "ALTER TABLE lake.p SET PARTITIONED BY (k)", "DROP TABLE lake.t"
    )
    for keys in (1, 2, 3):
        source.run(f"INSERT INTO lake.p SELECT 1, range % {keys} FROM range(60)")
    source.run("ALTER TABLE lake.p SET PARTITIONED BY (id)", "INSERT INTO lake.p SELECT 1, 0 FROM range(60)")
    assert plan(source) == ["main.p: merge 5 small files"]
    compact(source)
    assert plan(source) == []
    assert source.metadata("SELECT count(*) FROM ducklake_data_file WHERE end_snapshot IS NULL") == [(4,)]


def test_rows_and_deletes_in_the_catalog_are_flushed(source: Lake) -> None:
    source.run("DROP TABLE lake.t", "CREATE TABLE lake.held (id BIGINT)", "CREATE TABLE lake.deleted (id BIGINT)")
    source.run("INSERT INTO lake.held VALUES (1), (2), (3)", "DELETE FROM lake.held WHERE id = 1")
    source.run("INSERT INTO lake.deleted FROM range(100)", "DELETE FROM lake.deleted WHERE id = 5")
    assert plan_compaction(source.reader) == [TableCompaction("main.deleted", 1), TableCompaction("main.held", 2)]
    source.run("ALTER TABLE lake.held ADD COLUMN note VARCHAR", "INSERT INTO lake.held VALUES (4, 'x')")
    assert plan(source) == [
        "main.deleted: write 1 row of the catalog to files",
        "main.held: write 3 rows of the catalog to files",
    ]
    compact(source)
    assert plan(source) == []


def test_tables_are_sorted_by_name_and_dropped_ones_are_left_out(source: Lake) -> None:
    source.run("CREATE SCHEMA lake.a", 'CREATE SCHEMA lake."b.c"', "CREATE TABLE lake.gone (id BIGINT)")
    for table in ('"b.c".z', "a.z", "a.b", "main.gone"):
        source.run(f"CREATE TABLE IF NOT EXISTS lake.{table} (id BIGINT)")
        for _ in range(2):
            source.run(f"INSERT INTO lake.{table} FROM range(100)")
    source.run("DROP TABLE lake.gone", "ALTER TABLE lake.a.b RENAME TO y")
    assert [one.table for one in plan_compaction(source.reader)] == ["a.y", "a.z", '"b.c".z', "main.t"]


def test_text_of_a_plan_names_only_what_changes() -> None:
    for effect, text in (
        ((1, 0, 0), "t: write 1 row of the catalog to files"),
        ((1234, 0, 0), "t: write 1,234 rows of the catalog to files"),
        ((0, 2000, 2), "t: rewrite 2,000 files with deleted rows, merge 2 small files"),
        ((0, 1, 5000), "t: rewrite 1 file with deleted rows, merge 5,000 small files"),
        ((0, 0, 1), "t: merge 1 small file"),
    ):
        assert str(TableCompaction("t", *effect)) == text


def test_rewritten_files_are_those_of_the_plan(source: Lake) -> None:
    option(source, "rewrite_delete_threshold", "0.5")
    assert rewritten_files(source.reader) == []
    source.run("DELETE FROM lake.t WHERE id < 160")
    planned = {one.table: one.rewritten_files for one in plan_compaction(source.reader)}
    (found,) = rewritten_files(source.reader)
    assert (found.schema, found.name, planned) == ("main", "t", {"main.t": len(found.files)})
    assert found.files
    assert list(found.files) == sorted(found.files, reverse=True)
    assert 0 < found.saved <= sum(size for _, size in found.files)
