"""The files of a table in groups of one partition, with the rows that are left in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plain_sql import run_plain
from staged_changes import file_groups

from lakeconf.catalog.data_file import FileGroup
from lakeconf.catalog.tables import load_table

if TYPE_CHECKING:
    from lakeconf import Lake


def groups(lake: Lake, table: str = "t") -> tuple[FileGroup, ...]:
    reader = lake._session.reader
    version = lake.refresh()
    return file_groups(reader, load_table(reader, table, version), version)


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
