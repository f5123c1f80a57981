"""The files of a table in groups of one partition, with the rows that are left in each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from plain_sql import run_plain

from lakeconf.catalog.data_file import FileGroup, file_groups, is_inlined
from lakeconf.catalog.tables import load_table

if TYPE_CHECKING:
    from lakeconf import Lake


def groups(lake: Lake, table: str = "t") -> tuple[FileGroup, ...]:
    reader = lake._session.reader
    version = lake.refresh()
    return file_groups(reader, load_table(reader, table, version), version)


def inlined(lake: Lake) -> bool:
    reader, version = lake._session.reader, lake.refresh()
    return is_inlined(reader, load_table(reader, "t", version), version)


def test_files_of_a_partition_are_a_group(two_tables: Lake) -> None:
    lake = two_tables
    run_plain(lake, "INSERT INTO t FROM range(3)", "ALTER TABLE t SET PARTITIONED BY (id)")
    run_plain(lake, "INSERT INTO t SELECT i % 2 FROM range(7) AS r(i)", "INSERT INTO t VALUES (1), (NULL)")
    run_plain(lake, "DELETE FROM t WHERE rowid IN (0, 3)")
    found = groups(lake)
    assert [(group.partition, len(group.files), group.rows) for group in found] == [
        (((0, "1"),), 2, 4),
        ((), 1, 2),
        (((0, "0"),), 1, 3),
        (((0, None),), 1, 1),
    ]
    assert [group.partition_id is None for group in found] == [False, True, False, False]
    assert found[0].folder == f"{load_table(lake._session.reader, 't', lake.snapshot_id).path}id=1/"
    assert sum(group.size for group in found) == sum(file.bytes for file in lake.table("t").files())
    assert [file.delete_file is None for group in found for file in group.files] == [True, True, False, False, True]
    assert FileGroup((*found[0].files, *found[2].files)).folder is None


def test_order_is_that_of_the_last_rewrite(two_tables: Lake) -> None:
    lake = two_tables
    for number in range(2):
        run_plain(lake, f"INSERT INTO t VALUES ({number}), (7)")
    assert [group.sorted_by for group in groups(lake)] == [()]
    lake.table("t").rewrite("id desc")
    assert [group.sorted_by for group in groups(lake)] == [("id DESC NULLS LAST",)]
    run_plain(lake, "INSERT INTO t VALUES (8)")
    assert [group.sorted_by for group in groups(lake)] == [()]
    lake.table("t").rewrite("id")
    run_plain(lake, "DELETE FROM t WHERE id = 7")
    assert [group.sorted_by for group in groups(lake)] == [()]


@pytest.mark.parametrize("info", ["no JSON", "[1]", "{}", json.dumps({"extra": {"sorted_by": 5}})])
def test_order_of_other_tools_is_not_known(two_tables: Lake, info: str) -> None:
    lake = two_tables
    run_plain(
        lake,
        "INSERT INTO t FROM range(10)",
        "DELETE FROM t WHERE id < 5",
        "BEGIN",
        "CALL ducklake_rewrite_data_files('dev', 't', delete_threshold => 0.1)",
        f"CALL ducklake_set_commit_message('dev', NULL, NULL, extra_info => '{info}')",
        "COMMIT",
    )
    assert [(group.rows, group.sorted_by) for group in groups(lake)] == [(5, ())]


def test_rows_and_deletes_of_the_catalog_are_found(two_tables: Lake) -> None:
    lake = two_tables
    run_plain(lake, "INSERT INTO t FROM range(10)")
    assert not inlined(lake)
    run_plain(lake, "CALL dev.set_option('data_inlining_row_limit', 5)", "INSERT INTO t VALUES (50)")
    assert inlined(lake)
    run_plain(lake, "DELETE FROM t WHERE id = 50")
    assert not inlined(lake)
    run_plain(lake, "DELETE FROM t WHERE id = 3")
    assert inlined(lake)
    lake.maintenance.flush()
    assert not inlined(lake)
