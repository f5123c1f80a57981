"""Tables with a partition that is much larger than the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lakeconf
from lakeconf.inspection.catalog_files import skewed_tables

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake, Store


@pytest.fixture
def store(project: Path) -> Store:
    return lakeconf.init(project).get_store("dev")


def regions(**counts: int) -> pa.Table:
    """Rows of regions; the name `null` is NULL."""
    values = [None if name == "null" else name for name, count in counts.items() for _ in range(count)]
    ids = [f"id-{number}" for number in range(len(values))]
    return pa.table({"region": pa.array(values, pa.string()), "id": pa.array(ids, pa.string())})


def filled(lake: Lake, rows: pa.Table, *keys: str) -> None:
    lake.create_table("raw.t", like=rows, partitioned_by=list(keys)).append(rows)


def test_largest_partition_is_named_with_its_sizes(store: Store) -> None:
    rows = regions(eu=5000, us=10, asia=10, null=10)
    with store.open() as lake:
        filled(lake, rows, "region")
        lake.table("raw.t").append(regions(eu=5000))
        (found,) = skewed_tables(lake, least_bytes=0)
        files = lake.table("raw.t").files()
    of_eu = [file for file in files if file.partition == ("eu",)]
    others = sorted(file.bytes for file in files if file.partition != ("eu",))
    assert (found.table, found.label, found.partitions) == ("raw.t", "region = eu", 4)
    assert (found.largest.files, found.largest.rows) == (2, 10_000)
    assert found.largest.bytes == sum(file.bytes for file in of_eu)
    # The median of four sizes, of which the largest is that of eu.
    assert found.usual == (others[1] + others[2]) / 2


def test_null_is_a_partition(store: Store) -> None:
    with store.open() as lake:
        filled(lake, regions(null=5000, us=10, asia=10, eu=10), "region")
        (found,) = skewed_tables(lake, least_bytes=0)
    assert found.label == "region = NULL"


def test_keys_have_their_transforms(store: Store) -> None:
    rows = regions(eu=5000, us=10, asia=10, africa=10)
    with store.open() as lake:
        filled(lake, rows, "bucket(8, id)", "region")
        found = [one.keys for one in skewed_tables(lake, least_bytes=0)]
    assert found == [("bucket(8, id)", "region")]


@pytest.mark.parametrize(
    ("rows", "least_bytes"),
    [
        (regions(eu=100, us=100, asia=100, africa=100), 0),
        (regions(eu=5000, us=10, asia=10), 0),
        (regions(eu=5000, us=10, asia=10, africa=10), 2**20),
        (regions(), 0),
    ],
    ids=["equal", "few", "small", "empty"],
)
def test_other_tables_are_not_skewed(rows: pa.Table, least_bytes: int, store: Store) -> None:
    with store.open() as lake:
        filled(lake, rows, "region")
        assert skewed_tables(lake, least_bytes=least_bytes) == []


def test_files_of_an_older_partitioning_do_not_count(store: Store) -> None:
    rows = regions(eu=5000, us=10, asia=10, africa=10)
    with store.open() as lake:
        filled(lake, rows, "region")
        lake._session.writer.execute("ALTER TABLE dev.raw.t SET PARTITIONED BY (bucket(4, id))")
        lake.refresh()
        assert skewed_tables(lake, least_bytes=0) == []
        lake._session.writer.execute("ALTER TABLE dev.raw.t RESET PARTITIONED BY")
        lake.refresh()
        assert skewed_tables(lake, least_bytes=0) == []
