"""The average size of a table's rows, from the statistics of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_lake import METADATA

from lakeconf.catalog.pruning.scan_plan import with_bytes_per_row
from lakeconf.catalog.tables import load_table

if TYPE_CHECKING:
    from catalog_lake import Lake


def size(lake: Lake, name: str) -> float | None:
    return with_bytes_per_row(lake.reader, load_table(lake.reader, name, lake.newest)).bytes_per_row


def test_size_of_a_row_is_that_of_its_own_table(local: Lake) -> None:
    local.run(*(f"CREATE TABLE lake.{name} (a INTEGER)" for name in ("empty", "one", "t")))
    local.run("INSERT INTO lake.one VALUES (1)", "INSERT INTO lake.t VALUES (1), (2), (3), (4)")
    (one, four) = local.metadata("SELECT record_count, file_size_bytes FROM ducklake_data_file ORDER BY ALL")
    assert (one[0], four[0]) == (1, 4)
    assert (size(local, "one"), size(local, "t"), size(local, "empty")) == (one[1], four[1] / 4, None)


def test_missing_or_empty_statistics_give_no_size(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    for change in ("record_count = 0", "file_size_bytes = NULL, record_count = 1", "record_count = NULL"):
        local.run(f"UPDATE {METADATA}.ducklake_table_stats SET {change}")
        assert size(local, "t") is None
    local.run(f"DELETE FROM {METADATA}.ducklake_table_stats")
    table = load_table(local.reader, "t", local.newest)
    assert with_bytes_per_row(local.reader, table) is table
