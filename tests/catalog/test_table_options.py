"""The sort order and the defaults of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plain_sql import run_plain

from lakeconf.catalog.tables import TableOptions, load_table, table_options

if TYPE_CHECKING:
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
