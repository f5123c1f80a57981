"""Changes of snapshots in words."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from plain_sql import run_plain

from lakeconf.catalog.history import change_summaries
from lakeconf.catalog.snapshot import Snapshot

if TYPE_CHECKING:
    from lakeconf import Lake

ROWS = pa.table({"id": pa.array(range(5000), pa.int64())})


def summaries(lake: Lake) -> list[str]:
    lake.refresh()
    return list(change_summaries(lake._session.reader, lake.snapshots()).values())


def test_changes_of_tables_have_their_names_of_then(two_tables: Lake) -> None:
    lake = two_tables
    lake.table("t").append(ROWS)
    lake.rename_table("t", '"odd.name"')
    lake.table('"odd.name"').delete("id < 10")
    lake.table('"odd.name"').evolve(add={"n": "INTEGER"})
    lake.create_view("s.v", "SELECT 1 AS one")
    lake.drop_table('"odd.name"')
    assert summaries(lake) == [
        *("create schema main", "create main.t", "create main.u", "insert main.t +5,000 rows"),
        *('create main."odd.name"', 'delete from main."odd.name"', 'alter main."odd.name"'),
        *("create schema s, create view s.v", 'drop main."odd.name"'),
    ]


def test_rows_are_counted_per_table_and_only_if_they_are_known(two_tables: Lake) -> None:
    lake = two_tables
    with lake.transaction() as tx:
        tx.table("t").append(ROWS)
        tx.table("u").append(ROWS.slice(0, 20))
    lake.table("u").append(ROWS.slice(0, 30))
    assert summaries(lake)[3:] == ["insert main.t +5,000 rows, insert main.u +20 rows", "insert main.u +30 rows"]
    lake.maintenance.compact()
    assert summaries(lake)[3:5] == ["insert main.t +5,000 rows, insert main.u", "insert main.u"]
    run_plain(lake, "CALL dev.set_option('data_inlining_row_limit', 10)", "INSERT INTO u VALUES (7)")
    assert summaries(lake)[-1] == "insert main.u"


@pytest.mark.parametrize(
    "changes", ["something_new:1", "inserted_into_table:99", "odd text", 'created_table:"open', ""]
)
def test_unknown_changes_stay_as_they_are(two_tables: Lake, changes: str) -> None:
    snapshot = Snapshot(7, dt.datetime.now(dt.UTC), 1, changes)
    assert change_summaries(two_tables._session.reader, [snapshot]) == {7: changes}
