"""The names of views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.catalog.stored_queries import view_names

if TYPE_CHECKING:
    from lakeconf import Lake


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
