"""The API of frames and `spark.catalog` on tables by name leave the rows of DuckDB's statements, or raise errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from local_stores import rows
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import IntegerType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from lakeconf import Lake, Store

    Use = Callable[[DataFrame], object]

pytestmark = pytest.mark.slow

COLUMNS = {"id": "BIGINT", "name": "VARCHAR", "p": "INTEGER"}
ROWS = "(1, 'a', 1), (2, 'b', 2), (5, 'c', 5), (7, NULL, NULL)"
FRAME = "(VALUES (5, 'e', 5), (6, NULL, 6), (8, 'h', NULL)) s(id, name, p)"
AGAIN = ["DELETE FROM t", f"INSERT INTO t FROM {FRAME}"]
BY_ID = "t.id = s.id"


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """The lake `dev`, whose session is at its schema `main`."""
    with store.open() as lake:
        lake.create_table("t", COLUMNS, partitioned_by=["p"])
        yield lake


# Each with the statements that do the same in DuckDB.
WRITES: dict[str, tuple[Use, list[str]]] = {
    "append": (lambda f: f.writeTo("t").append(), [f"INSERT INTO t FROM {FRAME}"]),
    "overwrite where": (
        lambda f: f.where("p = 5").writeTo("dev.main.t").overwrite(F.col("p") == 5),
        ["DELETE FROM t WHERE p = 5", f"INSERT INTO t FROM {FRAME} WHERE p = 5"],
    ),
    "overwrite all": (lambda f: f.writeTo("t").overwrite(F.expr("true")), AGAIN),
    "overwritePartitions": (
        lambda f: f.writeTo("t").overwritePartitions(),
        ["DELETE FROM t WHERE p IN (5, 6) OR p IS NULL", f"INSERT INTO t FROM {FRAME}"],
    ),
    "replace": (lambda f: f.writeTo("t").using("lakeconf").partitionedBy("p").replace(), AGAIN),
    "createOrReplace": (
        lambda f: f.writeTo("t").partitionedBy(F.partitioning.bucket(3, "id"), "p").createOrReplace(),
        AGAIN,
    ),
    "saveAsTable append": (lambda f: f.write.mode("append").saveAsTable("t"), [f"INSERT INTO t FROM {FRAME}"]),
    "saveAsTable overwrite": (lambda f: f.write.mode("overwrite").partitionBy("p").saveAsTable("t"), AGAIN),
    "saveAsTable ignore": (lambda f: f.write.mode("ignore").saveAsTable("t"), []),
    "saveAsTable by name": (
        lambda f: f.select("p", "id").write.mode("append").saveAsTable("t"),
        [f"INSERT INTO t (p, id) SELECT p, id FROM {FRAME}"],
    ),
    "insertInto": (lambda f: f.write.insertInto("t"), [f"INSERT INTO t FROM {FRAME}"]),
    "insertInto overwrite": (lambda f: f.write.insertInto("t", overwrite=True), AGAIN),
    "insertInto by position": (
        lambda f: f.select(F.col("p").alias("id"), "name", F.col("id").cast("int")).write.insertInto("t"),
        [f"INSERT INTO t SELECT p, name, id FROM {FRAME}"],
    ),
    "mergeInto": (
        lambda f: (
            f.alias("s")
            .mergeInto("t", F.expr(BY_ID))
            .whenMatched(F.expr("s.p > 100"))
            .delete()
            .whenMatched()
            .update({"name": F.concat("t.name", "s.name")})
            .whenNotMatched(F.expr("s.name IS NULL"))
            .insert({"id": F.col("s.id"), "p": F.lit(9)})
            .whenNotMatched()
            .insertAll()
            .whenNotMatchedBySource(F.expr("t.p = 1"))
            .delete()
            .whenNotMatchedBySource()
            .update({"name": F.lit("old")})
            .merge()
        ),
        [
            "DELETE FROM t WHERE p = 1",
            "UPDATE t SET name = CASE WHEN id = 5 THEN name || 'e' ELSE 'old' END",
            "INSERT INTO t VALUES (6, NULL, 9), (8, 'h', NULL)",
        ],
    ),
    "mergeInto all": (
        lambda f: (
            f.alias("s").mergeInto("t", F.expr(BY_ID)).whenMatched().updateAll().whenNotMatched().insertAll().merge()
        ),
        ["DELETE FROM t WHERE id = 5", f"INSERT INTO t FROM {FRAME}"],
    ),
}


def test_writes_leave_the_rows_of_duckdb(sql: SparkSession, lake: Lake) -> None:
    frame, wrong = sql.sql(f"SELECT CAST(id AS BIGINT) AS id, name, p FROM {FRAME.replace('s(', 'AS s(')}"), {}
    for name, (write, statements) in WRITES.items():
        lake.refresh()
        lake.execute("DELETE FROM t")
        lake.execute(f"INSERT INTO t VALUES {ROWS}")
        before = len(lake.snapshots())
        write(frame)
        lake.refresh()
        with duckdb.connect() as twin:
            twin.execute(f"CREATE TABLE t (id BIGINT, name VARCHAR, p INTEGER); INSERT INTO t VALUES {ROWS}")
            for statement in statements:
                twin.execute(statement)
            expected = twin.execute("FROM t ORDER BY ALL").fetchall()
        committed = len(lake.snapshots()) - before
        if rows(lake, "FROM t ORDER BY ALL") != expected or committed != bool(statements):
            wrong[name] = (rows(lake, "FROM t ORDER BY ALL"), expected, committed)
    assert wrong == {}


REFUSED: dict[str, Use] = {
    "already exists": lambda f: f.writeTo("t").create(),
    "(?i)already exists": lambda f: f.write.saveAsTable("t"),
    "cannot be found": lambda f: f.writeTo("nothing").replace(),
    "cannot be found|TABLE_OR_VIEW_NOT_FOUND": lambda f: f.writeTo("nothing").append(),
    "do not satisfy": lambda f: f.writeTo("t").overwrite(F.col("p") == 5),
    "cannot overwrite by this condition": lambda f: f.writeTo("t").overwrite(F.upper("name") == "A"),
    "no property or option 'a'": lambda f: f.writeTo("u").tableProperty("a", "b").create(),
    "no tables USING": lambda f: f.writeTo("u").using("orc").create(),
    "no LOCATION": lambda f: f.write.option("path", "x").saveAsTable("u"),
    "is not one column": lambda f: f.write.bucketBy(4, "id").sortBy("name").saveAsTable("u"),
    "partitionBy": lambda f: f.write.partitionBy("p").insertInto("t"),
    "NOT_ENOUGH_DATA_COLUMNS": lambda f: f.select("id").write.insertInto("t"),
    "TOO_MANY_DATA_COLUMNS|too many": lambda f: f.withColumn("x", F.lit(1)).writeTo("t").append(),
    "CANNOT_SAFELY_CAST": lambda f: f.select(F.col("id").cast("string"), "name", "p").writeTo("t").append(),
    "is a view": lambda f: f.alias("s").mergeInto("v", F.expr("v.id = s.id")).whenMatched().updateAll().merge(),
    "no ANALYZE TABLES and no RECOVER PARTITIONS": lambda f: f.sparkSession.catalog.recoverPartitions("t"),
    "no format 'delta'\n  hint: omit .format": lambda f: f.write.format("delta").saveAsTable("u"),
    "no format 'iceberg'\n": lambda f: f.write.format("iceberg").mode("append").saveAsTable("dev.main.t"),
    "no format 'com.example.Format'": lambda f: f.write.format("com.example.Format").mode("ignore").saveAsTable("t"),
    "no tables USING csv": lambda f: f.write.format("csv").mode("overwrite").saveAsTable("t"),
    "no partition key cluster_by": lambda f: f.write.clusterBy("id").saveAsTable("u"),
    "type interval day, which DuckLake": lambda f: f.selectExpr("INTERVAL '1' DAY AS a").writeTo("u").create(),
    "type variant, which DuckLake": lambda f: f.selectExpr("array(parse_json('1')) AS a").write.saveAsTable("u"),
    "contains only NULLs": lambda f: f.selectExpr("map('a', NULL) AS a").write.saveAsTable("u"),
    "job that writes the rows failed": lambda f: (
        f.select(F.udf(lambda _: 1 // 0, "long")("id").alias("id"), "name", "p").writeTo("t").append()
    ),
}


def test_what_a_frame_cannot_do_is_an_error(sql: SparkSession, lake: Lake) -> None:
    lake.create_view("v", "SELECT id, name, p FROM t")
    frame = sql.sql("SELECT 5L AS id, 'e' AS name, 5 AS p UNION ALL SELECT 6L, NULL, 6")
    before = len(lake.snapshots())
    for text, use in REFUSED.items():
        with pytest.raises(PySparkException, match=text):
            use(frame)
    lake.refresh()
    assert len(lake.snapshots()) == before


def test_a_stream_needs_the_methods_of_a_lake(sql: SparkSession, lake: Lake) -> None:
    """Also a stream of Spark's that creates its table first."""
    stream = sql.readStream.format("rate").load().select(F.col("value").alias("id"))
    counts = stream.groupBy("id").count()
    lake.create_view("v", "SELECT 1 AS id")
    before = len(lake.snapshots())
    writers = {
        "t": stream.writeStream,
        "new": stream.writeStream,
        "dev.other.new": stream.writeStream.format("lakeconf").partitionBy("id"),
        "v": stream.writeStream.outputMode("append"),
        "complete": counts.writeStream.outputMode("complete"),
        "update": counts.writeStream.outputMode("update").format("parquet"),
    }
    for name, writer in writers.items():
        sink = f"main.{name}" if "." not in name else "other.new"
        with pytest.raises(
            AnalysisException, match=rf"UnsupportedError: [^\n]*\n  hint: .*lake\.stream_sink\('{sink}'\)"
        ):
            writer.option("checkpointLocation", "/dev/null/none").toTable(name)
    for name in ("t", "v"):
        with pytest.raises(
            AnalysisException, match=rf"UnsupportedError: .*\n  hint: use lake\.stream\('main\.{name}'\)"
        ):
            sql.readStream.table(name)
    lake.refresh()
    assert len(lake.snapshots()) == before
    assert not sql.streams.active


def test_an_unknown_format_is_an_error_in_the_first_statement(store: Store, own: SparkSession, lake: Lake) -> None:
    """Before Spark has loaded the catalog; a data source in Python is still one."""
    store.attach(own, use=False)
    with pytest.raises(AnalysisException, match="UnsupportedError: Spark has no format 'delta'"):
        own.range(1).write.format("delta").saveAsTable("dev.main.u")
    with pytest.raises(AnalysisException, match="UnsupportedError: a lake has no OPTIMIZE"):
        own.sql("OPTIMIZE dev.main.t")
    own.range(1).write.format("noop").mode("overwrite").save()
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        own.read.format("delta").load("x")


NEW = StructType([StructField("a", IntegerType())])
CATALOG: dict[str, tuple[Callable[[Any], object], object]] = {
    "currentCatalog": (lambda c: c.currentCatalog(), "dev"),
    "currentDatabase": (lambda c: c.currentDatabase(), "main"),
    "setCurrentDatabase": (lambda c: (c.setCurrentDatabase("raw"), c.currentDatabase())[1], "raw"),
    "listCatalogs": (lambda c: [each.name for each in c.listCatalogs("dev*")], ["dev"]),
    "listDatabases": (lambda c: [each.name for each in c.listDatabases()], ["main", "raw"]),
    "getDatabase": (lambda c: c.getDatabase("dev.raw").catalog, "dev"),
    "databaseExists": (lambda c: [c.databaseExists(name) for name in ("raw", "dev.raw", "no")], [True, True, False]),
    "listTables": (lambda c: [each.name for each in c.listTables("dev.raw", "e*")], ["e"]),
    "getTable": (lambda c: (c.getTable("dev.raw.e").namespace, c.getTable("e").description), (["raw"], "some")),
    "tableExists": (
        lambda c: [c.tableExists(name) for name in ("e", "dev.raw.e", "v", "no")],
        [True, True, True, False],
    ),
    "listColumns": (
        lambda c: [(each.name, each.dataType, each.isPartition) for each in c.listColumns("dev.main.t")],
        [("id", "bigint", False), ("name", "string", False), ("p", "int", True)],
    ),
    "listFunctions": (lambda c: "upper" in {each.name for each in c.listFunctions("dev.raw")}, True),
    "functionExists": (
        lambda c: [c.functionExists(name) for name in ("upper", "dev.raw.no", "no")],
        [True, False, False],
    ),
    "cacheTable": (lambda c: (c.cacheTable("e"), c.isCached("dev.raw.e"))[1], True),
    "refreshTable": (lambda c: c.refreshTable("e"), None),
    "uncacheTable": (lambda c: (c.uncacheTable("e"), c.isCached("e"))[1], False),
    "dropTempView": (lambda c: c.dropTempView("e"), False),
    "createTable": (lambda c: c.createTable("new", schema=NEW).columns, ["a"]),
}


def test_the_catalog_of_a_session_knows_the_lake(sql: SparkSession, lake: Lake) -> None:
    lake.create_table("raw.e", {"id": "BIGINT"}, comment="some")
    lake.create_view("raw.v", "SELECT 1 AS one")
    answers = {name: use(sql.catalog) for name, (use, _) in CATALOG.items()}
    assert answers == {name: expected for name, (_, expected) in CATALOG.items()}
    for statement in ("SELECT nothing(1)", "SELECT dev.raw.nothing(1)"):
        with pytest.raises(PySparkException, match="ROUTINE"):
            sql.sql(statement)
    assert sql.sql("SHOW FUNCTIONS IN dev.raw LIKE 'upper'").count() == 1
