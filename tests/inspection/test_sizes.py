"""Sizes of tables: rows, deleted rows, delete files and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.catalog.history import TableFile
from lakeconf.inspection.catalog_files import TableSize, table_sizes

if TYPE_CHECKING:
    from lakeconf import Store

FILES = (
    TableFile("a", rows=10, bytes=100, begin_snapshot=1, delete_file="d", deleted_rows=3),
    TableFile("b", rows=20, bytes=200, begin_snapshot=2, deleted_rows=1),  # inlined deletes
    TableFile("c", rows=5, bytes=50, begin_snapshot=2),
)


def test_size_is_the_sum_over_its_files() -> None:
    size = TableSize("main.t", FILES, inlined_rows=2)
    assert (size.rows, size.deleted_rows, size.delete_files, size.bytes) == (33, 4, 1, 350)
    empty = TableSize("main.t", (), inlined_rows=0)
    assert (empty.rows, empty.deleted_rows, empty.delete_files, empty.bytes) == (0, 0, 0, 0)


def test_tables_of_a_lake_have_the_size_of_its_snapshot(store: Store) -> None:
    with store.connect() as native:
        native.execute("CREATE TABLE dev.t AS SELECT range AS a FROM range(100)")
        native.execute('CREATE SCHEMA dev."odd.schema"; CREATE TABLE dev."odd.schema".u (a INTEGER)')
        native.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
        native.execute("DELETE FROM dev.t WHERE a < 3")
        native.execute('INSERT INTO dev."odd.schema".u VALUES (1), (2)')
    with store.open() as lake:
        t, u = sorted(table_sizes(lake), key=lambda size: size.rows, reverse=True)
        assert (t.table, len(t.files), t.rows, t.deleted_rows, t.inlined_rows) == ("main.t", 1, 97, 3, 0)
        assert (u.table, u.files, u.rows, u.inlined_rows) == ('"odd.schema".u', (), 2, 2)
        assert t.bytes == t.files[0].bytes > 0
        assert [(one.table, one.rows) for one in table_sizes(lake.at(version=1))] == [("main.t", 100)]
        assert table_sizes(lake.at(version=0)) == []
