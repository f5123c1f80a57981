"""The schema of files that lakeconf wrote with Spark is known without their footers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.engines.spark.read import groups
from lakeconf.engines.spark.read.file_index import Stored, footers
from lakeconf.engines.spark.read.groups import known_contents
from lakeconf.engines.spark.sessions import private_session
from lakeconf.inspection.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    import lakeconf
    from lakeconf.catalog.pruning.scan_plan import ScanPlan

VALUES = """
    SELECT id, id % 2 = 0 AS flag, CAST(id AS TINYINT) AS tiny, CAST(id AS SMALLINT) AS small, CAST(id AS INT) AS whole,
        CAST(id AS FLOAT) AS single, CAST(id AS DOUBLE) AS double, CAST(id AS DECIMAL(5, 2)) AS few,
        CAST(id AS DECIMAL(38, 3)) AS many, DATE'2024-01-01' AS day, TIMESTAMP_NTZ'2024-01-01 00:00:00' AS naive,
        TIMESTAMP'2024-01-01 00:00:00' AS zoned, 'x' AS `Te xt`, CAST('y' AS BINARY) AS bytes,
        named_struct('A', id, 'l', array(named_struct('d', DATE'2024-01-01'))) AS `Struct`,
        map('k', named_struct('v', array(id))) AS pairs, array(array(id)) AS `list`
    FROM range(3)"""
CHANGES = (
    "ALTER TABLE t RENAME COLUMN whole TO total",
    "ALTER TABLE t ADD COLUMN added INTEGER DEFAULT 7",
    'ALTER TABLE t ADD COLUMN "Struct".more INTEGER',
    'ALTER TABLE t RENAME COLUMN "Struct".A TO b',
    "ALTER TABLE t DROP COLUMN small",
)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.sql(VALUES)


def plan_of(lake: lakeconf.Lake, table: str = "t", columns: list[str] | None = None) -> ScanPlan:
    return plan_scan(lake._session.reader, table, lake.snapshots()[-1].snapshot_id, columns)


def registered(plan: ScanPlan) -> list[tuple[str, int]]:
    """The path and the size of each file that is read by name."""
    return [(file.path, file.file_size_bytes) for file in plan.files if file.mapping_id is not None]


def normal(stored: Stored) -> tuple[object, ...]:
    """A field without the names of elements, keys and values, which are found by position."""
    by_position = stored.type in ("list", "map")
    return stored.name, stored.type, tuple(normal(child)[by_position:] for child in stored.children)


def test_schema_from_the_catalog_is_that_of_the_footers(
    spark: SparkSession, store: lakeconf.Store, rows: DataFrame
) -> None:
    with store.open(spark) as lake:
        lake.create_table("t", rows)
        lake.table("t").append(rows)
        plan = plan_of(lake)
    found = known_contents(plan)
    assert [path for path, _ in registered(plan)] == list(found) != []
    for stored, expected in zip(found.values(), footers(private_session(spark), registered(plan)), strict=True):
        assert normal(stored)[2] == normal(expected)[2]


def test_scan_opens_no_footer_of_the_files_of_lakeconf(
    spark: SparkSession, store: lakeconf.Store, rows: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.open(spark) as lake:
        lake.create_table("t", rows)
        lake.create_table("p", rows, partitioned_by=["flag", "day"])
        for name in ("t", "p"):
            lake.table(name).append(rows)
    with store.connect() as con:
        for change in CHANGES:
            con.execute(change)
    monkeypatch.setattr(groups, "footers", None)
    with store.open(spark) as lake:
        lake.table("t").append(lake.table("t").scan().to_native())
        for name in ("t", "p"):
            plan = plan_of(lake, name)
            assert len(registered(plan)) == len(plan.files) > 1
            assert verify(lake, name).sound


@pytest.mark.parametrize(
    "change", ["ALTER a TYPE BIGINT", "ADD COLUMN c HUGEINT", "ADD COLUMN c JSON", "ADD COLUMN s.e INTEGER"]
)
def test_footers_are_opened_if_the_catalog_is_not_sufficient(
    spark: SparkSession, store: lakeconf.Store, change: str
) -> None:
    with store.open(spark) as lake:
        rows = spark.range(3).selectExpr("CAST(id AS INT) AS a", "id AS b", "named_struct('d', id) AS s")
        lake.create_table("t", rows)
        lake.table("t").append(rows)
        assert len(known_contents(plan_of(lake))) == len(plan_of(lake).files) > 0
    with store.connect() as con:
        con.execute(f"ALTER TABLE t {change}")
        if "s.e" in change:
            con.execute("ALTER TABLE t DROP COLUMN s.d")
    with store.open(spark) as lake:
        assert known_contents(plan_of(lake)) == {}
        assert len(known_contents(plan_of(lake, columns=["b"]))) == len(plan_of(lake).files)


def test_footers_of_other_files_are_opened(spark: SparkSession, store: lakeconf.Store) -> None:
    """A file in the folder of the table has any types."""
    with store.open(spark) as lake:
        lake.create_table("t", {"a": "BIGINT"})
        lake.table("t").append(spark.range(3, 6).selectExpr("id AS a"))
        folder = plan_of(lake).table.path
    with store.connect() as con:
        con.execute(f"COPY (SELECT 1::INTEGER AS a) TO '{folder}other.parquet'")
        con.execute(f"CALL ducklake_add_data_files('{store.alias}', 't', '{folder}other.parquet')")
    with store.open(spark) as lake:
        paths = {path for path, _ in registered(plan_of(lake))}
        assert paths - set(known_contents(plan_of(lake))) == {f"{folder}other.parquet"}
        assert sorted(lake.table("t").scan().to_native().collect()) == [(1,), (3,), (4,), (5,)]
