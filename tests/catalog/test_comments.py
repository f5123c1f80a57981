"""Comments of tables and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.catalog.tables import Comments, comments, load_table

if TYPE_CHECKING:
    from lakeconf import Lake


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
