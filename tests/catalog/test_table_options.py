"""What DuckLake keeps of tables and views: sort order, defaults, comments, folders and names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plain_sql import run_plain

from lakeconf.catalog.stored_queries import view_names
from lakeconf.catalog.tables import Comments, TableOptions, comments, load_table, table_folder, table_options

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake


def options(lake: Lake, version: int) -> TableOptions:
    reader = lake._session.reader
    return table_options(reader, load_table(reader, "t", version), version)


def test_options_are_those_of_the_snapshot(two_tables: Lake) -> None:
    lake = two_tables
    first = lake.snapshot_id
    run_plain(lake, """ALTER TABLE t ADD COLUMN "o""d" VARCHAR DEFAULT 'it''s'""")
    run_plain(lake, """ALTER TABLE t SET SORTED BY ("o""d" DESC NULLS FIRST, id)""")
    second = lake.refresh()
    run_plain(lake, "ALTER TABLE t ALTER COLUMN id SET DEFAULT 1 + 1", "ALTER TABLE t SET SORTED BY (id + 1)")
    third = lake.refresh()
    assert options(lake, first) == TableOptions((), {}, ())
    assert options(lake, second) == TableOptions(('o"d DESC NULLS FIRST', "id ASC NULLS LAST"), {'o"d': "it's"}, ())
    assert options(lake, third) == TableOptions((), {'o"d': "it's"}, ("id", "the sort order"))


def test_comments_are_those_of_the_snapshot(two_tables: Lake) -> None:
    lake, reader = two_tables, two_tables._session.reader
    table, first = lake.table("t"), lake.snapshot_id
    table.set_comments("what happened", {"ID": "it's a key"})
    second = lake.snapshot_id
    lake.table("u").set_comments("another table")
    table.evolve(rename={"id": "key"})
    third = table.set_comments("", {"key": None})

    def found(version: int) -> Comments:
        return comments(reader, load_table(reader, "t", version), version)

    assert found(first) == Comments(None, {})
    assert found(second) == Comments("what happened", {"id": "it's a key"})
    assert found(third - 1) == Comments("what happened", {"key": "it's a key"})
    assert found(third) == Comments(None, {})


def test_folder_is_the_one_that_ducklake_uses(two_tables: Lake, tmp_path: Path) -> None:
    reader = two_tables._session.reader
    for schema, table in (("main", "fresh"), ("New", "fresh"), ("NEW", "Second")):
        expected = table_folder(reader, schema, table, two_tables.snapshot_id)
        two_tables.create_table(f"{schema}.{table}", {"id": "BIGINT"})
        assert load_table(reader, f"{schema}.{table}", two_tables.snapshot_id).path == expected
    assert expected == f"{tmp_path}/data/New/Second/"


def test_views_of_a_snapshot_are_sorted_and_quoted(two_tables: Lake) -> None:
    lake, before = two_tables, two_tables.snapshot_id
    for name in ("z", "main.A", '"odd schema"."a.b"'):
        lake.create_view(name, "SELECT 1 AS one")
    lake.drop_view("z")
    names = view_names(lake._session.reader, lake.snapshot_id)
    assert names == ("main.A", 'odd schema."a.b"')
    assert view_names(lake._session.reader, before) == ()
    assert view_names(lake._session.reader, before + 3)[-1] == 'odd schema."a.b"'
    assert len(view_names(lake._session.reader, before + 3)) == 3
