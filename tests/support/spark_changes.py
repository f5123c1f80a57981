"""Reads a table's changes with Spark, and compares them with DuckDB's, or with the states of the table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from spark_rows import access_to, compared

from lakeconf.catalog.changes_plan import changes_sql, plan_changes_with_inlined_rows
from lakeconf.engines.spark.connect.source import read_changes as read_over_connect
from lakeconf.engines.spark.read.change_feed import read_changes
from lakeconf.errors import QueryError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from catalog_lake import AttachedLake
    from pyspark.sql import DataFrame, SparkSession

    from lakeconf.catalog.changes_plan import ChangesPlan

KEY = ("snapshot_id", "rowid", "change_type")
Key = tuple[int, int, str]


def changes(spark: SparkSession, lake: AttachedLake, since: int, until: int) -> DataFrame:
    """The changes of the table `t` as Spark reads them."""
    return planned_changes(spark, lake, *plan_changes_with_inlined_rows(lake.reader, "t", since, until))


def planned_changes(spark: SparkSession, lake: AttachedLake, plan: ChangesPlan, inlined: pa.Table) -> DataFrame:
    """The changes of a plan, through a classic session or one of Spark Connect."""
    if hasattr(spark, "sparkContext"):
        return read_changes(spark, access_to(lake), plan, inlined)
    return read_over_connect(spark, access_to(lake), plan, inlined)


def assert_changes_alike(spark: SparkSession, lake: AttachedLake, ranges: Iterable[tuple[int, int]]) -> None:
    """Compares the changes of the table `t` in some ranges of snapshots."""
    for since, until in ranges:
        differ = wrong_changes(spark, lake, since, until)
        assert not differ, f"changes from {since} to {until}: {differ}"


def wrong_changes(spark: SparkSession, lake: AttachedLake, since: int, until: int) -> dict[str, Any]:
    """Changes that only Spark or only DuckDB returns; if DuckDB cannot compute them, uses the table states instead."""
    plan, inlined = plan_changes_with_inlined_rows(lake.reader, "t", since, until)
    frame = planned_changes(spark, lake, plan, inlined)
    try:
        query = changes_sql(lake.reader, plan)
    except UnsupportedError:
        found = Counter(tuple(row) for row in frame.select(*KEY).collect())
        expected = keys_by_state(lake, plan)
        only = {"only Spark": found - expected, "only the states": expected - found}
        return {who: list(rows.elements())[:5] for who, rows in only.items() if rows}
    return compared(lake, plan.inserted.columns, frame, f"({query})", {name: name for name in KEY})


def keys_by_state(lake: AttachedLake, plan: ChangesPlan) -> Counter[Key]:
    """The changes between consecutive snapshots of the range, computed from the rows at each snapshot."""
    changed: Counter[Key] = Counter()
    before = _state(lake, plan.since - 1)
    for version in range(plan.since, plan.until + 1):
        now = _state(lake, version)
        if version not in plan.compactions:
            inserted, deleted = (Counter(row for row, _ in part.elements()) for part in (now - before, before - now))
            for row, count in inserted.items():
                changed[version, row, "update_postimage" if row in deleted else "insert"] += count
            for row, count in deleted.items():
                changed[version, row, "update_preimage" if row in inserted else "delete"] += count
        before = now
    return changed


def _state(lake: AttachedLake, version: int) -> Counter[tuple[int, int]]:
    try:
        return Counter(lake.rows(f"SELECT rowid, snapshot_id FROM lake.t AT (VERSION => {version})"))
    except QueryError as error:
        if "does not exist" not in error.message:
            raise
        return Counter()  # the table does not exist yet
