"""Spark's SQL reads the tables of a lake by name: as `scan` does, and at one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jvm_calls import execution_of, planned_files
from local_stores import on_catalog, rows, store_of
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.errors import SparkError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from lakeconf import Lake, Store

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """The lake `dev` with a partitioned table that has deleted and inlined rows."""
    with store.open() as lake:
        lake.create_table("raw.e", {"id": "BIGINT", "name": "VARCHAR", "day": "DATE"}, partitioned_by=["day"])
        lake.execute("INSERT INTO raw.e SELECT i, 'n' || i, DATE '2026-01-01' + (i % 3)::INT FROM range(90) t(i)")
        lake.execute("DELETE FROM raw.e WHERE id % 10 = 0")
        lake.execute("INSERT INTO raw.e VALUES (1000, 'x', NULL)")
        yield lake


def fetched(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=str)


SAME_IN_BOTH = (
    "SELECT * FROM dev.raw.e",
    "SELECT count(*), count(day), min(name), sum(id) FROM dev.raw.e",
    "SELECT count(*) FROM dev.raw.e WHERE name LIKE 'n1%' AND day >= DATE '2026-01-02' OR id = 1000",
    "SELECT a.id, b.name FROM dev.raw.e AS a JOIN dev.raw.e AS b ON a.id = b.id + 1 WHERE a.day < b.day",
    "SELECT day, count(*) FROM dev.raw.e GROUP BY day HAVING count(*) > (SELECT count(*) FROM dev.raw.e) / 9",
    "WITH x AS (SELECT * FROM dev.raw.e WHERE id IN (SELECT id + 1 FROM dev.raw.e)) SELECT upper(name) FROM x",
    "SELECT e.id, rank() OVER (PARTITION BY e.day ORDER BY e.id DESC) FROM dev.raw.e",
    "SELECT id FROM dev.raw.e WHERE NOT (day = DATE '2026-01-01') UNION ALL SELECT 1",
    "SELECT a.id FROM (SELECT *, id AS other FROM dev.raw.e) AS a WHERE a.id <= a.other AND name = name AND day <= day",
    # Subqueries in a filter and in a projection directly above the table.
    "SELECT id, (SELECT max(id) FROM dev.raw.e WHERE id > 9), (SELECT min(day) FROM dev.raw.e) FROM dev.raw.e",
    "SELECT id + 1 FROM dev.raw.e WHERE id > 3 AND id < (SELECT max(id) FROM dev.raw.e) AND name <> 'n5'",
    "SELECT x.m FROM (SELECT id + (SELECT min(id) FROM dev.raw.e) AS m, day FROM dev.raw.e) AS x WHERE x.m > 3",
)


def test_queries_return_the_rows_of_duckdb(sql: SparkSession, lake: Lake) -> None:
    for query in SAME_IN_BOTH:
        assert fetched(sql.sql(query)) == sorted(rows(lake, query), key=str), query


def test_random_numbers_stay_above_a_table(sql: SparkSession, lake: Lake) -> None:
    for query in (
        "SELECT id, rand() AS r FROM dev.raw.e WHERE rand() >= 0 AND id > 3",
        "SELECT id FROM (SELECT id, day, rand() AS r FROM dev.raw.e) WHERE r >= 0 AND id > 3",
        "SELECT id FROM (SELECT id, rand() AS r FROM dev.raw.e WHERE id > (SELECT 3)) WHERE r < 1 AND id < 2000",
    ):
        assert sql.sql(query).count() == len(rows(lake, "SELECT id FROM raw.e WHERE id > 3")), query


def test_the_plan_is_that_of_a_scan_and_skips_files(sql: SparkSession) -> None:
    for condition, files in {
        "day = DATE '2026-01-02'": [1],
        "day IS NULL": [1],
        "DATE '2026-01-02' > day": [1],
        "day IN (DATE '2026-01-01', DATE '2026-01-03')": [2],
        "NOT (day = DATE '2026-01-02' OR day IS NULL)": [2],
        "id > 999": [1],
        "id > 5000.5": [],
        "name LIKE 'x%'": [1],
        "upper(name) = 'X'": [1, 3],  # planning does not understand it
        "id % 2 = 0 AND day = DATE '2026-01-02'": [1],
    }.items():
        frame = sql.sql(f"SELECT count(*) FROM dev.raw.e WHERE {condition}")
        assert planned_files(frame) == files, condition
    plan = execution_of(sql.sql("SELECT name FROM dev.raw.e WHERE id > 5")).executedPlan().toString()
    assert "ReadSchema: struct<id:bigint,name:string" in plan
    assert "PushedFilters: [IsNotNull(id), GreaterThan(id,5)]" in plan
    assert "BatchScan" not in plan


def test_a_query_reads_one_snapshot_and_the_next_one_the_latest(
    sql: SparkSession, store: Store, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_table("raw.n", {"n": "BIGINT"})
    query = "SELECT (SELECT count(*) FROM dev.raw.e), (SELECT sum(n) FROM dev.raw.n), (SELECT max(n) FROM dev.raw.n)"
    lake.execute("INSERT INTO raw.n VALUES (82)")
    from lakeconf.lake import named_lake

    answer = named_lake.NamedLake.load
    loads = []

    def load(self: Any, values: Any, frame: Any) -> Any:
        facts = answer(self, values, frame)
        loads.append(facts["table"])
        if len(loads) == 1:  # a writer, between the two tables of the query
            with lake.transaction() as tx:
                tx.table("raw.e").append([{"id": 1, "name": "new", "day": None}])
                tx.table("raw.n").append([{"n": 83}])
        return facts

    monkeypatch.setitem(named_lake.METHODS, "load", load)
    assert fetched(sql.sql(query)) == [(82, 82, 82)]
    assert len(loads) == 2
    assert fetched(sql.sql(query)) == [(83, 165, 83)]


def test_a_frame_keeps_its_snapshot(sql: SparkSession, lake: Lake) -> None:
    before = sql.table("dev.raw.e")
    lake.execute("DELETE FROM raw.e WHERE id < 50")
    after = sql.table("dev.raw.e")
    assert (before.count(), after.count()) == (82, 37)
    assert before.join(after, "id", "left_anti").count() == 45
    assert before.select(F.max("id")).union(after.select(F.min("id"))).count() == 2


def test_a_frame_keeps_its_lake_if_another_gets_the_name(sql: SparkSession, tmp_path: Path) -> None:
    frame = sql.table("dev.raw.e")
    other = store_of(tmp_path / "other")
    with other.open() as lake:
        lake.create_table("raw.e", {"id": "INTEGER"})
    other.attach(sql, use=False)
    assert (frame.count(), sql.table("dev.raw.e").count()) == (82, 0)


def test_sessions_that_start_later_have_the_catalog(sql: SparkSession, spark: SparkSession, tmp_path: Path) -> None:
    later = spark.newSession()
    assert later.table("dev.raw.e").count() == 82
    later.sql("RESET")
    assert later.table("dev.raw.e").count() == 82
    other = store_of(tmp_path / "other")
    with other.open() as lake:
        lake.create_table("raw.e", {"id": "INTEGER"})
    other.attach(later, use=False)
    assert [session.table("dev.raw.e").count() for session in (sql, later, spark.newSession())] == [82, 0, 0]


def test_time_travel(sql: SparkSession, lake: Lake) -> None:
    lake.table("raw.e").evolve(rename={"name": "label"}, add={"more": "INTEGER"})
    first = next(snapshot for snapshot in lake.snapshots() if snapshot.snapshot_id == 2)
    for clause in ("VERSION AS OF 2", "VERSION AS OF '2'", f"TIMESTAMP AS OF '{first.time.isoformat()}'"):
        query = f"SELECT name, count(*) FROM dev.raw.e {clause} WHERE day > DATE '2026-01-01' GROUP BY 1"
        assert len(fetched(sql.sql(query))) == 60, clause
    assert sql.read.option("versionAsOf", 2).table("dev.raw.e").columns == ["id", "name", "day"]
    assert sql.table("dev.raw.e").columns == ["id", "label", "day", "more"]
    both = "SELECT (SELECT count(*) FROM dev.raw.e), (SELECT count(*) FROM dev.raw.e VERSION AS OF 2)"
    assert fetched(sql.sql(both)) == [(82, 90)]
    for clause in ("VERSION AS OF 99", "VERSION AS OF 'x'", "TIMESTAMP AS OF '1999-01-01'"):
        with pytest.raises(AnalysisException, match="SnapshotNotFoundError"):
            sql.sql(f"SELECT * FROM dev.raw.e {clause}")


def test_listings_and_descriptions(sql: SparkSession, lake: Lake) -> None:
    lake.create_table("main.t", {"a": "INTEGER"}, comment="the table")
    assert [row.namespace for row in sql.sql("SHOW NAMESPACES IN dev").collect()] == ["main", "raw"]
    assert [row.tableName for row in sql.sql("SHOW TABLES IN dev.raw").collect()] == ["e"]
    assert [row.col_name for row in sql.sql("SHOW COLUMNS IN dev.raw.e").collect()] == ["id", "name", "day"]
    described = {row.col_name: row.data_type for row in sql.sql("DESCRIBE TABLE EXTENDED dev.raw.e").collect()}
    assert (described["id"], described["Provider"]) == ("bigint", "lakeconf")
    assert described.get("Catalog", "dev") == "dev"  # Spark 4.0 has a `Name` instead
    assert sql.catalog.tableExists("dev.raw.e")
    assert not sql.catalog.tableExists("dev.raw.nothing")
    assert [table.name for table in sql.catalog.listTables("dev.raw")] == ["e"]


def test_names_are_those_of_duckdb(store: Store, lake: Lake, own: SparkSession) -> None:
    for name in ('"a b"."c.d"', '"q""uote"."`tick`"', "main.t"):
        lake.create_table(name, {"x y": "INTEGER", "`z`": "INTEGER", "d.t": "INTEGER"})
        lake.table(name).append([{"x y": 1, "`z`": 2, "d.t": 3}])
    store.attach(own)
    for name in ("`a b`.`c.d`", '`q"uote`.```tick```', "T", "dev.main.t", "MAIN.T"):
        assert fetched(own.sql(f"SELECT `x y`, ```z```, `d.t` FROM {name} WHERE `d.t` > 2 AND `x y` = 1")) == [
            (1, 2, 3)
        ]
    own.sql("USE dev.raw")
    assert own.table("e").count() == 82


def test_errors_are_lakeconfs(sql: SparkSession, store: Store) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql.sql("SELECT * FROM dev.raw.nothing")
    for name in ("spark_catalog", "a.b", "a b"):
        with pytest.raises(SparkError, match="cannot be the name of a catalog"):
            store.replace(alias=name).attach(sql)
    sql.conf.set("spark.sql.catalog.taken", "org.example.Catalog")
    with pytest.raises(SparkError, match="another catalog with the name 'taken'"):
        store.replace(alias="taken").attach(sql)


def test_two_lakes_and_other_tables_are_joined(sql: SparkSession, lake: Lake, tmp_path: Path) -> None:
    other = store_of(tmp_path / "other").replace(alias="other")
    with other.open() as second:
        second.create_table("t", {"id": "BIGINT"})
        second.table("t").append([{"id": 1}, {"id": 1000}])
    other.attach(sql, use=False)
    sql.range(500, 2000).createOrReplaceTempView("numbers")
    query = "SELECT e.name FROM dev.raw.e JOIN other.main.t ON e.id = t.id JOIN numbers ON numbers.id = e.id"
    assert fetched(sql.sql(query)) == [("x",)]


@pytest.mark.parametrize("kind", ["duckdb"])
def test_a_catalog_that_only_one_instance_opens(
    request: pytest.FixtureRequest, own: SparkSession, tmp_path: Path, kind: str
) -> None:
    store = store_of(tmp_path, on_catalog(request, tmp_path, kind)).replace(alias="single")
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
    store.attach(own, use=False)
    assert own.table("single.main.t").count() == 0
