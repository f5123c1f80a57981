"""A change of partition keys or of the sort order changes no row, and no write."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import on_catalog, store_of
from strength import PROVE
from transaction_steps import STEPS, prepare, rows, state

from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake, Store

LAYOUTS = {
    "none": "RESET PARTITIONED BY",
    "identity": "SET PARTITIONED BY (k)",
    "4 buckets": "SET PARTITIONED BY (bucket(4, id))",
    "8 buckets": "SET PARTITIONED BY (bucket(8, id))",
    "buckets of text": "SET PARTITIONED BY (bucket(3, v))",
    "year": "SET PARTITIONED BY (year(ts))",
    "day": "SET PARTITIONED BY (day(ts))",
    "two keys": "SET PARTITIONED BY (month(ts), bucket(4, id))",
    "sorted": "SET SORTED BY (v DESC)",
}
# Files without `ts`, files with it, and rows that may be inlined.
ROWS = (
    ("CREATE TABLE {0} (id BIGINT, v VARCHAR, k INTEGER)", "INSERT INTO {0} SELECT i, 'v' || i, 0 FROM range(6) r(i)"),
    ("ALTER TABLE {0} ADD COLUMN ts TIMESTAMP DEFAULT '2024-02-03 04:05:06'",),
    ("INSERT INTO {0} SELECT i, 'v' || i, i % 3, make_timestamp(i * 10000000000000) FROM range(6, 60) r(i)",),
)
MORE = "INSERT INTO {0} VALUES (60, 'v60', NULL, NULL), (61, NULL, 1, '2020-02-29'), (62, 'v62', 2, '1969-12-31 23:00')"
CONDITIONS = ("id = {0}", "v = 'v{0}'", "id IN ({0}, 61)", "ts >= make_timestamp({0} * 10000000000000)", "k = {0} % 3")
WRITES = (
    *("delete", "update", "merge", "overwrite a part", "append", "execute UPDATE", "execute DELETE"),
    *("update the key", "merge that deletes"),
)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Store, Store]:
    """Two stores alike: in one of them, layouts change."""
    made = []
    for name in ("changed", "plain"):
        folder = tmp_path / name
        folder.mkdir()
        made.append(store_of(folder, on_catalog(request, folder), data_inlining_row_limit=10))
    return made[0], made[1]


def succeeds(lake: Lake, table: str, step: str) -> bool:
    """Takes a step; False if it is an error of lakeconf."""
    try:
        STEPS[step](lake, table)
    except LakeconfError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.prove(
    "sqlite", "postgres", "on_spark", *(layout for layout in LAYOUTS if layout not in ("identity", "4 buckets"))
)
@pytest.mark.parametrize("first", LAYOUTS)
def test_reads_and_writes_after_two_layouts_are_those_of_a_table_without(
    stores: tuple[Store, Store], engine: Any, first: str
) -> None:
    # Each write takes seconds on Spark.
    seconds = dict(itertools.islice(LAYOUTS.items(), None if PROVE or engine is None else 3))
    tables = [f"t{number}" for number in range(len(seconds))]
    laid_out = stores[0]
    for store in stores:
        prepare(store, tables, ROWS)
    prepare(laid_out, tables, [[f"ALTER TABLE {{0}} {LAYOUTS[first]}"]])
    for store in stores:
        prepare(store, tables, [[MORE], [MORE.replace("6", "7")]])
    for table, layout in zip(tables, seconds.values(), strict=True):
        prepare(laid_out, [table], [[f"ALTER TABLE {{0}} {layout}"]])
    for store in stores:
        prepare(store, tables, [[MORE.replace("6", "8")]])
    with laid_out.open(engine) as changed, stores[1].open() as plain:
        for table, second in zip(tables, seconds, strict=True):
            compare(changed, plain, table, f"{first}, then {second}")


def compare(changed: Lake, plain: Lake, table: str, layouts: str) -> None:
    """Reads both tables with conditions, and writes to both."""
    assert state(changed, table) == state(plain, table), layouts
    for condition, value in itertools.product(CONDITIONS, (7, 61)):
        where = condition.format(value)
        assert rows(changed, table, where=where) == rows(plain, table, where=where), f"{layouts}: {where}"
        query = f"FROM {table} WHERE {where}"
        ours, theirs = (sorted(lake.sql(query).collect("pyarrow").rows(), key=repr) for lake in (changed, plain))
        assert ours == theirs, f"{layouts}: {query}"
    for step in WRITES:
        if succeeds(changed, table, step):
            STEPS[step](plain, table)
        assert state(changed, table) == state(plain, table), f"{layouts}, {step}"
