"""A change of partition keys or of the sort order changes no row, and no write."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from lake_parts import session_of
from local_stores import on_catalog, store_of
from merge_cases import committer
from strength import PROVE
from transaction_steps import STEPS, frame, prepare, rows, rows_in_duckdb, rows_in_spark, state

from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lakeconf import Lake, Store

LAYOUTS = {
    "none": "RESET PARTITIONED BY",
    "identity": "SET PARTITIONED BY (k)",
    "4 buckets": "SET PARTITIONED BY (bucket(4, id))",
    "8 buckets": "SET PARTITIONED BY (bucket(8, id))",
    "buckets of text": "SET PARTITIONED BY (bucket(3, v))",
    "year": "SET PARTITIONED BY (year(ts))",
    "month": "SET PARTITIONED BY (month(ts))",
    "day": "SET PARTITIONED BY (day(ts))",
    "hour": "SET PARTITIONED BY (hour(ts))",
    "two keys": "SET PARTITIONED BY (month(ts), bucket(4, id))",
    "sorted": "SET SORTED BY (v DESC)",
    "sorted by two": "SET SORTED BY (k ASC NULLS FIRST, id)",
    "not sorted": "RESET SORTED BY",
}
# Transactions: a file and inlined rows without `ts`, a file with it, and a file that was registered.
ROWS = (
    (
        "CREATE TABLE {0} (id BIGINT, v VARCHAR, k INTEGER)",
        "INSERT INTO {0} SELECT i, 'v' || i, 0 FROM range(-12, 6) r(i)",
    ),
    ("INSERT INTO {0} SELECT i, 'v' || i, 1 FROM range(200, 203) r(i)",),
    ("ALTER TABLE {0} ADD COLUMN ts TIMESTAMP DEFAULT '2024-02-03 04:05:06'",),
    ("INSERT INTO {0} SELECT i, 'v' || i, i % 3, make_timestamp(i * 10000000000000) FROM range(6, 60) r(i)",),
    (
        "COPY (SELECT i AS id, 'v' || i AS v, 1::INTEGER AS k FROM range(100, 115) r(i)) TO '{folder}/{0}.parquet'",
        "CALL ducklake_add_data_files('dev', '{0}', '{folder}/{0}.parquet', allow_missing => true)",
    ),
)
# Inlined rows.
MORE = "INSERT INTO {0} VALUES (60, 'v60', NULL, NULL), (61, NULL, 1, '2020-02-29'), (62, 'v62', 2, '1969-12-31 23:00')"
CONDITIONS = ("id = {0}", "v = 'v{0}'", "id IN ({0}, 61)", "ts >= TIMESTAMP '197{0:.1}-03-23 01:46:40'", "k = 1")
WRITES = (
    *("delete", "update", "merge", "overwrite a part", "append", "execute UPDATE", "execute DELETE"),
    *("update the key", "merge that deletes"),
)
# The others are statements, or insert few rows.
COMPUTED_BY_SPARK = {"delete", "update", "merge", "overwrite a part", "update the key", "merge that deletes"}
# The rows that an overwrite of the partitions of the rows with the ids 1 and 20 replaces.
OVERWRITTEN = {"identity": "k IN (2, 40)", "year": "year(ts) IN (2020, 2021)"}


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Store, Store]:
    """Two stores alike: in one of them, layouts change."""
    made = []
    for name in ("changed", "plain"):
        folder = tmp_path / name
        folder.mkdir()
        made.append(store_of(folder, on_catalog(request, folder), data_inlining_row_limit=10))
    return made[0], made[1]


@pytest.mark.slow
@pytest.mark.prove(
    "sqlite", "postgres", "on_spark", *(layout for layout in LAYOUTS if layout not in ("identity", "4 buckets"))
)
@pytest.mark.parametrize("first", LAYOUTS)
def test_reads_and_writes_after_two_layouts_are_those_of_a_table_without(
    stores: tuple[Store, Store], engine: Any, first: str, tmp_path: Path
) -> None:
    compare_layouts(stores, engine, tmp_path, first, list(LAYOUTS))


@pytest.mark.slow
@pytest.mark.prove(*(layout for layout in LAYOUTS if layout != "4 buckets"))
@pytest.mark.parametrize("stores", ["sqlite"], indirect=True)
@pytest.mark.parametrize("first", LAYOUTS)
def test_spark_computes_all_writes_after_two_layouts(
    stores: tuple[Store, Store], spark: Any, first: str, tmp_path: Path
) -> None:
    """Here also the writes that are so small that DuckDB computes them elsewhere."""
    compare_layouts(stores, spark, tmp_path, first, list(LAYOUTS) if PROVE else ["identity"], staged=True)


def compare_layouts(
    stores: tuple[Store, Store],
    engine: Any,
    folder: Path,
    first: str,
    seconds: Sequence[str],
    *,
    staged: bool = False,
) -> None:
    """Compares tables whose layout has changed to the first, and then to one of the second ones, with others.

    Args:
        stores: The stores of `stores`.
        engine: The engine of the tables with layouts.
        folder: The folder of the stores.
        first: The first layout.
        seconds: The second layouts, each of a table.
        staged: True if the engine computes all writes that it can.
    """
    tables = [f"t{number}" for number in range(len(seconds))]
    changed, plain = stores
    for name, store in zip(("changed", "plain"), stores, strict=True):
        prepare(store, tables, [[line.replace("{folder}", str(folder / name)) for line in lines] for lines in ROWS])
    prepare(changed, tables, [[f"ALTER TABLE {{0}} {LAYOUTS[first]}"]])
    for store in stores:
        prepare(store, tables, [[MORE], [MORE.replace("6", "7")]])
    for table, second in zip(tables, seconds, strict=True):
        prepare(changed, [table], [[f"ALTER TABLE {{0}} {LAYOUTS[second]}"]])
    for store in stores:
        prepare(store, tables, [[MORE.replace("6", "8")]])
    layouts = {table: f"{first}, then {second}" for table, second in zip(tables, seconds, strict=True)}
    with changed.open(engine) as laid_out, plain.open() as other:
        if staged:
            session_of(laid_out).committer = "staged"
        comparison = Comparison(laid_out, other, layouts, engine)
        comparison.of_rows("at first")
        comparison.of_conditions()
        committers = {step: comparison.of_step(step) for step in WRITES}
        by_spark = {step for step, name in committers.items() if name == "staged"}
        assert by_spark == (COMPUTED_BY_SPARK if staged else set())
        for table, second in zip(tables, seconds, strict=True):
            if second in OVERWRITTEN:
                overwrite_partitions(laid_out, other, table, OVERWRITTEN[second])
        comparison.of_rows("overwrite of partitions")
        for lake in (laid_out, other):
            lake.maintenance.compact()
        comparison.of_rows("compaction")


class Comparison(NamedTuple):
    """Compares the tables of two lakes."""

    changed: Lake
    plain: Lake
    layouts: Mapping[str, str]  # by table
    engine: Any  # of the first lake

    def of_rows(self, when: str) -> None:
        """Compares what DuckDB and the engine of the first lake read."""
        expected = state(self.plain, self.layouts)
        seen = state(self.changed, self.layouts)
        scanned = rows_in_spark(self.changed, self.layouts) if self.engine else {}
        for table, layouts in self.layouts.items():
            assert seen[table] == expected[table], f"{layouts}, {when}"
            assert scanned.get(table, expected[table].rows) == expected[table].rows, f"{layouts}, {when}, on Spark"

    def of_conditions(self) -> None:
        """Compares the rows of conditions, which skip files and partitions."""
        for condition, value in itertools.product(CONDITIONS, ("7", "61")):
            where = condition.format(value)
            expected = rows_in_duckdb(self.plain, self.layouts, where)
            assert rows_in_duckdb(self.changed, self.layouts, where) == expected, where
            if self.engine:
                scanned = rows_in_spark(self.changed, self.layouts, where)
            else:
                scanned = {table: rows(self.changed, table, where=where) for table in self.layouts}
            assert scanned == expected, where

    def of_step(self, step: str) -> str:
        """Takes a step in all tables; not if it is an error of lakeconf. Returns who has made the last commit."""
        taken = []
        for table in self.layouts:
            with contextlib.suppress(LakeconfError):
                STEPS[step](self.changed, table)
                taken.append(table)
        with self.plain.transaction() as transaction:
            for table in taken:
                STEPS[step](transaction, table)
        self.of_rows(step)
        return committer(self.changed)


def overwrite_partitions(changed: Lake, plain: Lake, table: str, replaced: str) -> None:
    """Replaces partitions in one lake, and the same rows in the other."""
    new: pa.Table = frame(plain, table, 1, 20)
    changed.table(table).overwrite_partitions(new)
    with plain.transaction() as transaction:
        transaction.table(table).delete(replaced)
        transaction.table(table).append(new)
