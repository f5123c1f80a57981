"""The files below a data path, and the sizes of tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import lakeconf
from lakeconf.catalog.history import TableFile
from lakeconf.inspection import catalog_files as module
from lakeconf.inspection.catalog_files import TableSize, data_path_files, table_sizes

if TYPE_CHECKING:
    import pytest

    from lakeconf import Store
    from lakeconf.catalog.reader import CatalogReader


ROWS = pa.table({"id": [1, 2, 3]})


def test_missing_and_unknown_files_are_found(project: Path) -> None:
    """A file that waits for its removal is known."""
    with lakeconf.init(project).get_store("dev").open() as lake:
        table = lake.create_table("raw.t", ROWS)
        for _ in range(2):
            table.append(ROWS)
        lake.maintenance.compact()
        reader, folder = lake._session.reader, Path(lake._session.reader.data_path)
        (path,) = (file.path for file in table.files())
        assert len(list(folder.rglob("*.parquet"))) > 1
        found = data_path_files(reader)
        assert (path in found.needed, found.missing, found.unknown) == (True, (), ())
        stranger = folder / "raw" / "<b>.parquet"
        stranger.write_bytes(b"")
        (folder / "raw" / "notes.txt").write_text("")
        Path(path).unlink()
        found = data_path_files(reader)
        assert (found.missing, found.unknown) == ((path,), (str(stranger),))


def test_file_that_is_committed_meanwhile_is_known(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog is read before and after the listing."""
    with lakeconf.init(project).get_store("dev").open() as lake:
        table = lake.create_table("raw.t", ROWS)
        table.append(ROWS)
        known = module._known

        def committed_afterwards(reader: CatalogReader) -> tuple[dict[str, int | None], frozenset[str]]:
            before = known(reader)
            if len(before[0]) == 1:
                table.append(ROWS)
            return before

        monkeypatch.setattr(module, "_known", committed_afterwards)
        assert data_path_files(lake._session.reader).unknown == ()
        assert len(table.files()) == 2


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
