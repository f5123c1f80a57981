"""DuckLake's `changes_made`: which snapshot changed which table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalog_lake import METADATA

from lakeconf.catalog.changes import changed_tables, changes_between, changes_since, made_changes
from lakeconf.errors import SnapshotNotFoundError

if TYPE_CHECKING:
    from catalog_lake import Lake


@pytest.mark.parametrize("name", ["x,dropped_table:1,", "x:1", ',"",dropped_table:1,""', "dropped_table:1", '"'])
def test_name_that_looks_like_changes_is_none(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    text = f'created_table:{quoted}.{quoted},altered_table:7,created_view:"main".{quoted}'
    assert made_changes(text) == [("altered_table", 7)]


def test_maintenance_changes_no_table() -> None:
    kinds = ("merge_adjacent", "compacted_table", "rewrite_delete", "inline_flush", "flushed_inlined_data")
    changes = [*kinds, "inlined_insert", "dropped_table"]
    text = ",".join(f"{kind}:{number}" for number, kind in enumerate(changes))
    assert changed_tables(text) == [("inlined_insert", 5), ("dropped_table", 6)]


@pytest.fixture
def changed(local: Lake) -> Lake:
    """A lake whose snapshots 1 and 2 create `t` and `u`, 3 and 5 insert into `t`, 4 into `u`; 6 and 7 merge `t`."""
    local.run("CREATE TABLE lake.t (a INTEGER)", "CREATE TABLE lake.u (a INTEGER)")
    local.run(*(f"INSERT INTO lake.{name} VALUES (1)" for name in ("t", "u", "t")))
    local.run("CALL ducklake_merge_adjacent_files('lake', 't')", 'ALTER TABLE lake.t RENAME TO "u,altered_table:1,"')
    return local


def test_deleted_rows_are_lost_with_the_snapshot_before(changed: Lake) -> None:
    table, last = id_of(changed, "u"), changed.newest
    changed.run("DELETE FROM lake.u", "INSERT INTO lake.u VALUES (2)")
    assert changes_since(changed.reader, table, last, last + 2) == [last + 1, last + 2]
    changed.run(f"CALL ducklake_expire_snapshots('lake', versions => {list(range(last + 1))})")
    with pytest.raises(SnapshotNotFoundError, match=f"snapshot {last} has expired"):
        changes_since(changed.reader, table, last, last + 2)
    assert changes_since(changed.reader, table, last + 1, last + 2) == [last + 2]
    assert changes_since(changed.reader, id_of(changed, "u,altered_table:1,"), last, last + 2) == []


def id_of(lake: Lake, name: str) -> int:
    return int(lake.metadata(f"SELECT min(table_id) FROM ducklake_table WHERE table_name = '{name}'")[0][0])


def test_snapshot_without_a_record_has_unknown_changes(changed: Lake) -> None:
    changed.run(f"DELETE FROM {METADATA}.ducklake_snapshot_changes WHERE snapshot_id = 3")
    assert changes_between(changed.reader, 2, 3) == [(3, None)]


def test_changes_since_a_snapshot_are_those_of_the_table(changed: Lake) -> None:
    t, u = id_of(changed, "t"), id_of(changed, "u")
    assert changes_since(changed.reader, t, 0, changed.newest) == [1, 3, 5]
    assert changes_since(changed.reader, t, 3, changed.newest) == [5]
    assert changes_since(changed.reader, t, 0, 3) == [1, 3]
    assert changes_since(changed.reader, u, 0, changed.newest) == [2, 4]
    assert changes_since(changed.reader, t, 5, 5) == []
    assert changes_since(changed.reader, t, 5, 3) == []


def test_expired_snapshot_in_the_range_is_an_error(changed: Lake) -> None:
    changed.run("CALL ducklake_expire_snapshots('lake', versions => [2])")
    t = id_of(changed, "t")
    with pytest.raises(SnapshotNotFoundError, match="some of the snapshots after 1 have expired"):
        changes_since(changed.reader, t, 1, 4)
    assert changes_since(changed.reader, t, 2, 4) == [3]
