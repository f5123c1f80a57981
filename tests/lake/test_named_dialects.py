"""Statements and options of Delta Lake, Iceberg and Hive on a lake by name: they work, or say what to do instead."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from local_stores import rows
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812 - its usual name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from lakeconf import Lake, Store

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """The lake `dev` with a partitioned table and a view."""
    with store.open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT", "name": "VARCHAR", "p": "INTEGER"}, partitioned_by=["p"])
        lake.execute("INSERT INTO raw.t VALUES (1, 'a', 1), (2, 'b', 2)")
        lake.create_view("raw.v", "SELECT id, name FROM raw.t")
        yield lake


SORTED = r"ALTER TABLE raw.t SET SORTED BY \(…\)"
REPLACED = r"CREATE OR REPLACE TABLE dev.raw.t PARTITIONED BY \(…\) AS SELECT \* FROM dev.raw.t"
VIEW = r"lake.create_view\('raw.[vw]', 'SELECT …'\)"
REFUSED = {
    "OPTIMIZE t": r"CALL dev.system.compact\('raw.t'\)",
    "optimize dev.raw.`t` ZORDER BY (id);": r"CALL dev.system.compact\('raw.t'\)",
    '/* {"app": "dbt"} */ -- twice\n OPTIMIZE t WHERE p = 1': r"CALL dev.system.compact\('raw.t'\)",
    "/* a /* b */ it's */ OPTIMIZE -- c\\\n OPTIMIZE\n dev /**/ . raw/*.x*/.t--": r"CALL dev.system.compact\('raw.t'\)",
    "EXECUTE IMMEDIATE 'OPTIMIZE t'": r"CALL dev.system.compact\('raw.t'\)",
    "OPTIMIZE `t-- /*`": re.escape("CALL dev.system.compact('raw.`t-- /*`')"),
    "REORG TABLE t APPLY (PURGE)": r"CALL dev.system.compact\('raw.t'\)",
    "VACUUM t": r"CALL dev.system.cleanup",
    "VACUUM raw.t RETAIN 168 HOURS DRY RUN": r"CALL dev.system.expire_snapshots",
    "RESTORE TABLE t TO VERSION AS OF 1": r"CALL dev.system.restore\('raw.t', version => …\)",
    "RESTORE `a b`.`c'd` TO TIMESTAMP AS OF '2026-01-01'": re.escape(r"restore('`a b`.`c\'d`', version => …)"),
    "UNDROP TABLE t": r"CALL dev.system.restore\('raw.t'",
    "DESCRIBE DETAIL t": r"DESCRIBE EXTENDED dev.raw.t, or SELECT \* FROM dev.raw.t.files",
    "CREATE TABLE u SHALLOW CLONE t": r"CREATE TABLE dev.raw.u AS SELECT",
    "CREATE OR REPLACE TABLE u DEEP CLONE t": "lakeconf branch",
    "CREATE TABLE IF NOT EXISTS u CLONE t VERSION AS OF 1": "lakeconf branch",
    "CONVERT TO DELTA parquet.`/tmp/x`": "lake.adopt",
    "GENERATE symlink_format_manifest FOR TABLE t": "omit it",
    "FSCK REPAIR TABLE t": "lakeconf verify raw.t",
    "MSCK REPAIR TABLE t": "omit it",
    "ALTER TABLE t RECOVER PARTITIONS": "omit it",
    "ANALYZE TABLE t COMPUTE STATISTICS": "omit it",
    "ANALYZE TABLE t PARTITION (p = 1) COMPUTE STATISTICS FOR COLUMNS id": "omit it",
    "ANALYZE TABLES IN dev.raw COMPUTE STATISTICS": "omit it",
    "ANALYZE TABLES COMPUTE STATISTICS": "omit it",
    "LOAD DATA LOCAL INPATH '/tmp/x' INTO TABLE t": r"INSERT INTO dev.raw.t SELECT \* FROM parquet",
    "LOAD DATA INPATH '/tmp/x' OVERWRITE INTO TABLE t PARTITION (p = 1)": "lake.adopt",
    "COPY INTO t FROM '/tmp/x' FILEFORMAT = PARQUET": r"INSERT INTO dev.raw.t SELECT \* FROM parquet",
    "CREATE VIEW w AS SELECT 1 AS one": VIEW,
    "CREATE OR REPLACE VIEW dev.raw.w (a COMMENT 'x') AS SELECT 1": VIEW,
    "ALTER VIEW v AS SELECT 1 AS one": VIEW,
    "DROP VIEW IF EXISTS v": r"lake.drop_view\('raw.v'\)",
    "SHOW VIEWS": "lake.views",
    "SHOW VIEWS IN dev.raw LIKE 'v*'": "lake.views",
    "CREATE MATERIALIZED VIEW w AS SELECT 1 AS one": "pipeline",
    "CREATE OR REFRESH STREAMING TABLE w": "pipeline",
    "ALTER TABLE t ADD PARTITION FIELD bucket(4, id)": REPLACED,
    "ALTER TABLE t DROP PARTITION FIELD p": REPLACED,
    "ALTER TABLE t REPLACE PARTITION FIELD p WITH bucket(3, p)": REPLACED,
    "ALTER TABLE t WRITE ORDERED BY id": SORTED,
    "ALTER TABLE t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id": SORTED,
    "ALTER TABLE t CLUSTER BY (id)": SORTED,
    "ALTER TABLE t SET IDENTIFIER FIELDS id": "MERGE INTO dev.raw.t t USING",
    "ALTER TABLE t CREATE BRANCH b": "lakeconf branch",
    "ALTER TABLE t DROP TAG x": "lakeconf branch",
    "ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0)": "WHERE assert_true",
    "ALTER TABLE t DROP CONSTRAINT c": "WHERE assert_true",
    "ALTER TABLE t REPLACE COLUMNS (id BIGINT)": "ALTER TABLE dev.raw.t with ADD COLUMN, DROP COLUMN and RENAME COLUMN",
    "ALTER TABLE t SET SERDEPROPERTIES ('a' = 'b')": "omit it",
    "ALTER TABLE t SET TAGS ('a' = 'b')": "COMMENT ON TABLE dev.raw.t",
    "ALTER TABLE t OWNER TO me": "omit it",
    "ALTER TABLE t DROP FEATURE deletionVectors": "omit it",
    "ALTER TABLE t ADD PARTITION (p = 3)": "DELETE FROM",
    "ALTER TABLE t PARTITION (p = 1) RENAME TO PARTITION (p = 4)": "DELETE FROM",
    "TRUNCATE TABLE t PARTITION (p = 1)": "DELETE FROM",
    "CREATE INDEX i ON t (id)": REPLACED,
    "DROP INDEX i ON TABLE t": REPLACED,
    "DROP TABLE t PURGE": r"CALL dev.system.expire_snapshots",
    "CREATE TABLE u (id INT) STORED AS PARQUET": "omit it: files are Parquet",
    "CREATE TABLE u (id INT) USING delta": "omit USING",
    "CREATE TABLE u (id INT) TBLPROPERTIES ('format-version' = '2')": "omit TBLPROPERTIES",
    "CALL dev.system.rewrite_data_files(table => 'raw.t')": "call system.compact",
    "SELECT * FROM t WITH (`snapshot-id` = 1)": "no option 'snapshot-id'",
    "INSERT INTO t WITH (`x` = 'y') VALUES (3, 'c', 3)": "no option 'x'",
}
# Spark 4.0 does not parse these options.
NEWER = ("SELECT * FROM t WITH", "INSERT INTO t WITH", "ALTER TABLE t ADD CONSTRAINT")


def test_a_statement_of_others_says_what_to_do(sql: SparkSession, lake: Lake) -> None:
    sql.sql("USE dev.raw")
    before, wrong = len(lake.snapshots()), {}
    for statement, hint in REFUSED.items():
        try:
            sql.sql(statement).collect()
            wrong[statement] = "no error"
        except AnalysisException as error:
            if isinstance(error, ParseException) and statement.startswith(NEWER):
                continue
            if re.search(rf"UnsupportedError: .*\n  hint: .*{hint}|{hint}", str(error)) is None:
                wrong[statement] = str(error)[:300]
    assert wrong == {}
    lake.refresh()
    assert len(lake.snapshots()) == before


def test_the_same_words_elsewhere_are_sparks(sql: SparkSession, lake: Lake) -> None:
    sql.sql("CREATE TEMPORARY VIEW v AS SELECT 1 AS vacuum, 2 AS optimize")
    assert sql.table("v").selectExpr("vacuum v", "optimize t").columns == ["v", "t"]
    sql.sql("ALTER VIEW v AS SELECT 3 AS n")
    sql.sql("CACHE TABLE v")
    sql.sql("ANALYZE TABLE v COMPUTE STATISTICS FOR COLUMNS n")
    sql.sql("DROP VIEW v")
    for statement in ("OPTIMIZE spark_catalog.default.t", "VACUUM '/tmp/x'", "RESTORE"):
        with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
            sql.sql(statement)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql.sql("DESCRIBE HISTORY spark_catalog.default.t")
    sql.sql("USE spark_catalog")
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        sql.sql("OPTIMIZE t")
    with pytest.raises(AnalysisException, match=r"CALL dev\.system\.compact"):
        sql.sql("OPTIMIZE dev.raw.t")


# Each with the rows that it returns, or its error. Texts and names may hold the words of statements.
WRAPPED = {
    "SELECT 'OPTIMIZE t', name AS restore FROM t WHERE name <> 'VACUUM t -- /*' AND id = :id AND session.other = 3": [
        ("OPTIMIZE t", "a")
    ],
    "EXECUTE IMMEDIATE 'INSERT INTO t VALUES (?, ?, 3)' USING 3, 'VACUUM t'": [],
    "EXECUTE IMMEDIATE 'SELECT count(*) > 0 FROM (DESCRIBE HISTORY t)'": "PARSE_SYNTAX_ERROR",
    "DELETE FROM t WHERE id = :id AND name = 'x'": [],
    "UPDATE t SET name = concat(name, :id) WHERE id = ${my.number} OR id = 3": [],
}
# Spark resolves variables in every clause since 4.3.
SCRIPTS = {
    "BEGIN DECLARE n BIGINT DEFAULT 10; WHILE n < 12 DO INSERT INTO t VALUES (n, 'loop', 1); SET n = n + 1; END WHILE; "
    "MERGE INTO t USING (SELECT 11L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE; "
    "FOR r AS SELECT id FROM t WHERE id = 10 DO UPDATE t SET p = 10 WHERE id = r.id; END FOR; "
    "SELECT id, p FROM t WHERE name = 'loop'; END": [(10, 10)],
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'handled'; INSERT INTO t VALUES (5); END": [("handled",)],
}


def test_statements_within_others_have_variables_and_arguments(sql: SparkSession, lake: Lake) -> None:
    sql.sql("USE dev.raw")
    sql.sql("SET my.number=2")
    sql.sql("DECLARE OR REPLACE VARIABLE other BIGINT DEFAULT 3")
    for statement, expected in WRAPPED.items():
        arguments = {"id": 1} if ":id" in statement else None
        if isinstance(expected, str):
            with pytest.raises(AnalysisException, match=expected):
                sql.sql(statement, arguments)
        else:
            assert [tuple(row) for row in sql.sql(statement, arguments).collect()] == expected, statement
    assert rows(lake, "FROM raw.t") == [(1, "a", 1), (2, "b1", 2), (3, "VACUUM t1", 3)]


@pytest.mark.needs_spark("4.3")
def test_scripts_change_tables(sql: SparkSession, lake: Lake) -> None:
    sql.sql("USE dev.raw")
    for script, expected in SCRIPTS.items():
        assert [tuple(row) for row in sql.sql(script).collect()] == expected, script
    assert rows(lake, "FROM raw.t") == [(1, "a", 1), (10, "loop", 10), (2, "b", 2)]


def test_sessions_made_from_another_know_the_statements_at_once(sql: SparkSession, lake: Lake) -> None:
    """Before a query has named the lake, in several threads."""

    def first(_: int) -> int:
        own = sql.newSession()
        with pytest.raises(AnalysisException, match=r"CALL dev\.system\.compact"):
            own.sql("OPTIMIZE dev.raw.t")
        return own.sql("SELECT * FROM table_changes('dev.raw.t', 0)").count()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(first, range(6))) == [2] * 6


def test_describe_history_lists_the_snapshots_of_a_table(sql: SparkSession, lake: Lake) -> None:
    sql.sql("USE dev.raw")
    expected = [change.snapshot_id for change in lake.table("raw.t").history()]
    assert len(expected) > 1
    for statement in (
        "DESCRIBE HISTORY t",
        "/* x */ desc history dev.raw.`t` ;",
        "DESCRIBE\nHISTORY raw.t LIMIT 10",
        "DESC HISTORY /* a */ t -- b",
    ):
        frame = sql.sql(statement)
        assert [row.snapshot_id for row in frame.collect()] == sorted(expected, reverse=True), statement
    assert sql.sql("DESCRIBE HISTORY t LIMIT 1").collect()[0].snapshot_id == max(expected)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql.sql("DESCRIBE HISTORY nothing")


OPTIONS: dict[str, Callable[[SparkSession, DataFrame], object]] = {
    "replacewhere": lambda _, frame: (
        frame.write.option("replaceWhere", "p = 1").mode("overwrite").saveAsTable("dev.raw.t")
    ),
    "partitionoverwritemode": lambda _, frame: (
        frame.write.option("partitionOverwriteMode", "dynamic").mode("overwrite").insertInto("dev.raw.t")
    ),
    "overwriteschema": lambda _, frame: (
        frame.write.option("overwriteSchema", "true").mode("overwrite").saveAsTable("dev.raw.t")
    ),
    "mergeschema": lambda _, frame: frame.writeTo("dev.raw.t").option("mergeSchema", "true").append(),
    "overwrite-mode": lambda _, frame: (
        frame.writeTo("dev.raw.t").option("overwrite-mode", "dynamic").overwrite(F.expr("true"))
    ),
    "fanout-enabled": lambda _, frame: frame.writeTo("dev.raw.u").option("fanout-enabled", "true").create(),
    "branch": lambda _, frame: frame.writeTo("dev.raw.t").option("branch", "b").createOrReplace(),
    "readchangefeed": lambda spark, _: spark.read.option("readChangeFeed", "true").table("dev.raw.t").collect(),
    "snapshot-id": lambda spark, _: spark.read.option("snapshot-id", 1).table("dev.raw.t").collect(),
    "as-of-timestamp": lambda spark, _: spark.read.option("as-of-timestamp", "1").table("dev.raw.t").collect(),
}


def test_an_option_of_others_is_an_error(sql: SparkSession, lake: Lake) -> None:
    """Ignoring one would replace or read other rows than those that it names."""
    frame = sql.sql("SELECT 3L AS id, 'c' AS name, 1 AS p")
    before = len(lake.snapshots())
    for option, use in OPTIONS.items():
        with pytest.raises(
            AnalysisException, match=rf"UnsupportedError: .* has no option '{option}'\n  hint: omit it, or"
        ):
            use(sql, frame)
    lake.refresh()
    assert len(lake.snapshots()) == before
    assert rows(lake, "FROM raw.t ORDER BY id") == [(1, "a", 1), (2, "b", 2)]
    version = lake.snapshot_id
    assert sql.read.option("versionAsOf", version).table("dev.raw.t").count() == 2
