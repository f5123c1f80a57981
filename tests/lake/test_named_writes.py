"""Spark's SQL changes tables by name: each statement is one snapshot, with the rows that DuckDB would have."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from jvm_calls import planned_files
from lake_parts import catalog_of
from local_stores import config_of, rows, store_of
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import lakeconf
from lakeconf.catalog.table_options import TableOptions, table_options
from lakeconf.catalog.tables import load_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from lakeconf import Lake, Store

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as lake:
        yield lake


COLUMNS = "id BIGINT, name STRING, day DATE, amt DECIMAL(10,2)"
# Statements that mean the same in Spark and in DuckDB, each on the state that the one before has left.
STATEMENTS = (
    "INSERT INTO t VALUES (1, 'a', DATE '2026-01-01', 1.5), (2, NULL, DATE '2026-01-02', NULL), (3, 'c', NULL, 3)",
    "INSERT INTO t SELECT id + 10, upper(name), day, amt * 2 FROM t",
    "INSERT INTO t (name, id, amt, day) SELECT 'named', 40 + i, NULL, NULL FROM (VALUES (1), (2), (3)) AS v(i)",
    "UPDATE t SET name = 'x'",
    "UPDATE t SET amt = amt + id, name = concat(name, CAST(id AS VARCHAR(9))) WHERE id % 2 = 1 OR day IS NULL",
    "UPDATE t SET amt = (SELECT max(amt) FROM t), id = id + 100 WHERE id IN (SELECT id - 10 FROM t)",
    "DELETE FROM t WHERE day = DATE '2026-01-02' AND amt IS NULL",
    "DELETE FROM t WHERE id % 10 = 2",
    "DELETE FROM t WHERE name LIKE 'x4%' AND id NOT IN (SELECT id FROM t WHERE id < 43)",
    "MERGE INTO t USING (SELECT id, 'm' AS name FROM t WHERE id < 50 UNION ALL SELECT 999, 'new') AS s ON t.id = s.id "
    "WHEN MATCHED AND t.id = 13 THEN DELETE WHEN MATCHED AND t.id < 12 THEN UPDATE SET name = concat(s.name, t.name) "
    "WHEN NOT MATCHED AND s.id > 3 THEN INSERT (id, name) VALUES (s.id, s.name)",
    "MERGE INTO t USING (SELECT 101 AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET amt = NULL "
    "WHEN NOT MATCHED BY SOURCE AND t.id > 900 THEN UPDATE SET name = 'left' WHEN NOT MATCHED BY SOURCE AND "
    "t.day IS NULL THEN DELETE",
    "MERGE INTO t USING (SELECT 999 AS id, 'star' AS name, DATE '2026-02-02' AS day, 7 AS amt) AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "DELETE FROM t WHERE id > 5 AND id < 3",
    "TRUNCATE TABLE t",
)


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (day)"], ids=["plain", "partitioned"])
def test_statements_leave_the_rows_of_duckdb(sql: SparkSession, lake: Lake, partitioned: str) -> None:
    sql.sql(f"CREATE TABLE t ({COLUMNS}) {partitioned}")
    with duckdb.connect() as twin:
        twin.execute(f"CREATE TABLE t ({COLUMNS})")
        for statement in STATEMENTS:
            before = len(lake.snapshots())
            expected = twin.execute(statement.replace("SET *", "").replace("INSERT *", "INSERT")).fetchall()
            sql.sql(statement)
            left = sorted(rows(lake, "FROM t"), key=str)
            assert left == sorted(twin.execute("FROM t").fetchall(), key=str), statement
            changed = bool(expected and expected[0][0])
            assert len(lake.snapshots()) - before <= 1, statement
            assert not changed or len(lake.snapshots()) - before == 1, statement


@pytest.mark.needs_spark("4.1")
def test_columns_that_an_insert_does_not_name_are_null(sql: SparkSession, lake: Lake) -> None:
    sql.sql(f"CREATE TABLE t ({COLUMNS})")
    sql.sql("INSERT INTO t (name, id) VALUES ('a', 1)")
    assert rows(lake, "SELECT id, name, day, amt FROM t") == [(1, "a", None, None)]


# With `same`, a function in Python, also around the statements of a WITH.
IN_PYTHON = (
    "INSERT INTO t (id, name, more) SELECT same(id), concat('n', same(id)), NULL FROM range(30)",
    "UPDATE t SET name = 'low' WHERE same(id) < 3 AND id % 2 = 0",
    "UPDATE t SET name = concat('u', same(id)), id = same(id) + 100 WHERE id IN (SELECT same(id) FROM t WHERE id < 2)",
    "DELETE FROM t WHERE id = same(6) OR same(id) = 7 AND name = 'n7'",
    "MERGE INTO t USING (SELECT same(id) AS id FROM t WHERE id < 10) AS s ON t.id = s.id AND same(t.id) = same(s.id) "
    "WHEN MATCHED AND same(t.id) = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET name = concat('m', same(s.id)) "
    "WHEN NOT MATCHED BY SOURCE AND same(t.id) = 20 THEN DELETE",
    "WITH c AS (SELECT same(50) AS id) MERGE INTO t USING c ON t.id = c.id WHEN NOT MATCHED AND same(c.id) > 0 "
    "THEN INSERT (id, name) VALUES (same(c.id), 'cte')",
    "WITH c AS (SELECT 9 AS id) DELETE FROM t WHERE same(id) IN (SELECT id FROM c)",
    "UPDATE t SET name = 'before' WHERE EXISTS (SELECT 1 FROM t s WHERE s.id = t.id + 1 AND same(s.id) = 12)",
)


def test_statements_call_functions_in_python(sql: SparkSession, lake: Lake) -> None:
    sql.sql("CREATE TABLE t (id BIGINT, name STRING, more INT)")
    sql.udf.register("same", lambda value: value, "long")
    with duckdb.connect() as twin:
        twin.execute("CREATE TABLE t (id BIGINT, name VARCHAR, more INTEGER)")
        twin.execute("CREATE MACRO same(value) AS value")
        for statement in IN_PYTHON:
            sql.sql(statement)
            twin.execute(statement.replace("FROM range(30)", "FROM range(30) AS r(id)"))
            left = sorted(rows(lake, "FROM t"), key=str)
            assert left == sorted(twin.execute("FROM t").fetchall(), key=str), statement


def test_overwrites(sql: SparkSession, lake: Lake) -> None:
    sql.sql("CREATE TABLE t (id INT, part STRING) PARTITIONED BY (part)")
    start = "SELECT * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')"

    def after(statement: str) -> list[tuple[Any, ...]]:
        sql.sql(f"INSERT OVERWRITE t {start}")
        before = len(lake.snapshots())
        sql.sql(statement)
        assert len(lake.snapshots()) == before + 1, statement
        return sorted(rows(lake, "SELECT id, part FROM t"))

    assert after("INSERT OVERWRITE t SELECT 9, 'z'") == [(9, "z")]
    assert after("INSERT OVERWRITE t SELECT id + 1, part FROM t WHERE id < 3") == [(2, "a"), (3, "b")]
    assert after("INSERT OVERWRITE t PARTITION (part = 'b') SELECT 9") == [(1, "a"), (3, "c"), (9, "b")]
    assert after("INSERT INTO t REPLACE WHERE part = 'a' OR id = 3 SELECT 4, 'a'") == [(2, "b"), (4, "a")]
    sql.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    assert after("INSERT OVERWRITE t SELECT 9, 'b'") == [(1, "a"), (3, "c"), (9, "b")]
    sql.sql("CREATE TABLE plain (id INT)")
    for statement, left in (
        ("INSERT OVERWRITE plain VALUES (1), (2)", [1, 2]),
        ("INSERT OVERWRITE plain SELECT id + 1 FROM plain", [2, 3]),
        ("INSERT OVERWRITE plain SELECT id FROM plain WHERE id > 3", []),
    ):
        sql.sql(statement)
        assert sorted(row.id for row in sql.table("plain").collect()) == left, statement


def test_frames_are_written_by_name(sql: SparkSession, lake: Lake) -> None:
    frame = sql.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(id, part)")
    frame.write.partitionBy("part").saveAsTable("dev.raw.t")
    assert len(lake.snapshots()) == 2  # with that of the empty lake: the table and its rows are one
    frame.write.mode("append").saveAsTable("dev.raw.t")
    frame.select("part", "id").writeTo("dev.raw.t").append()
    frame.write.insertInto("dev.raw.t")
    frame.write.format("lakeconf").mode("append").saveAsTable("dev.raw.t")
    assert rows(lake, "SELECT count(*), sum(id) FROM raw.t") == [(10, 15)]
    frame.where("id = 2").writeTo("dev.raw.t").overwritePartitions()
    assert rows(lake, "SELECT part, count(*) FROM raw.t GROUP BY ALL ORDER BY 1") == [("a", 5), ("b", 1)]
    frame.writeTo("dev.raw.t").partitionedBy(frame.id).createOrReplace()
    frame.write.mode("overwrite").saveAsTable("dev.raw.u")
    frame.selectExpr("id AS other").write.mode("overwrite").saveAsTable("dev.raw.u")
    assert rows(lake, "SELECT * FROM raw.u ORDER BY 1") == [(1,), (2,)]
    assert rows(lake, "SELECT count(*) FROM raw.t") == [(2,)]
    with pytest.raises(AnalysisException, match="already exists"):
        frame.write.saveAsTable("dev.raw.u")


def test_tables_are_defined_and_changed(sql: SparkSession, lake: Lake) -> None:
    sql.sql(
        "CREATE TABLE raw.t (id BIGINT NOT NULL COMMENT 'the key', ts TIMESTAMP, tags ARRAY<STRUCT<k: STRING>>) "
        "USING lakeconf PARTITIONED BY (days(ts), bucket(4, id)) COMMENT 'some table'"
    )
    table = lake.table("raw.t")
    lake.refresh()
    assert table.schema == {"id": "BIGINT", "ts": "TIMESTAMP WITH TIME ZONE", "tags": "STRUCT(k VARCHAR)[]"}
    assert (table.comment, table.column_comments) == ("some table", {"id": "the key"})
    for statement in (
        "INSERT INTO raw.t VALUES (1, TIMESTAMP '2026-01-01 10:00:00', array(named_struct('k', 'x')))",
        "ALTER TABLE raw.t ADD COLUMNS (n INT, tags.element.v INT)",
        "ALTER TABLE raw.t RENAME COLUMN n TO number",
        "ALTER TABLE raw.t ALTER COLUMN number TYPE BIGINT",
        "ALTER TABLE raw.t DROP COLUMN number",
        "ALTER TABLE raw.t RENAME COLUMN tags.element.v TO w",
        "ALTER TABLE raw.t ALTER COLUMN tags.element.w TYPE BIGINT",
        "ALTER TABLE raw.t DROP COLUMN tags.element.k",
        "COMMENT ON TABLE raw.t IS 'another'",
        "ALTER TABLE raw.t ALTER COLUMN ts COMMENT 'when'",
        "ALTER TABLE raw.t RENAME TO raw.u",
    ):
        before = len(lake.snapshots())
        sql.sql(statement)
        assert len(lake.snapshots()) == before + 1, statement
    lake.refresh()
    renamed = lake.table("raw.u")
    assert renamed.schema["tags"] == "STRUCT(w BIGINT)[]"
    assert (renamed.comment, renamed.column_comments["ts"]) == ("another", "when")
    keys = [row.data_type for row in sql.sql("DESCRIBE TABLE EXTENDED raw.u").collect() if row.col_name == "Comment"]
    assert keys == ["another"]
    sql.sql("DROP TABLE raw.u")
    sql.sql("DROP TABLE IF EXISTS raw.u")
    assert rows(lake, "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'u'") == [(0,)]


def test_partition_keys_have_any_name(sql: SparkSession, lake: Lake, store: Store) -> None:
    sql.sql(
        'CREATE TABLE t (`c d` STRING, `a.b` INT, `q``t` DATE, `u"v` INT) '
        'PARTITIONED BY (`c d`, bucket(3, `a.b`), days(`q``t`), `u"v`)'
    )
    sql.sql("INSERT INTO t VALUES ('x', 3, DATE '2026-01-02', 4)")
    lake.refresh()
    info = load_table(catalog_of(lake), "t", lake.snapshot_id)
    names = {column.field_id: column.name for column in info.columns}
    assert [(key.transform, names[key.field_id]) for key in info.partition_fields] == [
        ("identity", "c d"),
        ("bucket(3)", "a.b"),
        ("year", "q`t"),
        ("month", "q`t"),
        ("day", "q`t"),
        ("identity", 'u"v'),
    ]
    assert rows(lake, "FROM t") == [("x", 3, date(2026, 1, 2), 4)]
    with store.connect() as connection:
        connection.execute('ALTER TABLE t SET PARTITIONED BY ("a.b")')
    assert [row.partition for row in sql.sql("SHOW PARTITIONS t").collect()] == ["a.b=3"]


def test_a_table_is_created_like_another(sql: SparkSession, lake: Lake, store: Store, tmp_path: Path) -> None:
    columns = {"id": "UUID NOT NULL", "n": "HUGEINT", "day": "DATE", "s": "STRUCT(a UTINYINT, b TIME)"}
    table = lake.create_table(
        "raw.t",
        columns,
        partitioned_by=["bucket(4, n)", "year(day)"],
        sorted_by=["n DESC"],
        comment="some table",
        column_comments={"n": "a number"},
    )
    with store.connect() as connection:
        connection.execute("ALTER TABLE raw.t ALTER n SET DEFAULT 7")
        connection.execute("INSERT INTO raw.t VALUES (uuid(), 1, NULL, NULL)")
    lake.refresh()
    before = len(lake.snapshots())
    sql.sql("CREATE TABLE raw.u LIKE raw.t")
    sql.sql("CREATE TABLE IF NOT EXISTS raw.u LIKE raw.t")
    lake.refresh()
    assert len(lake.snapshots()) == before + 1
    reader, like = catalog_of(lake), lake.table("raw.u")
    assert (like.schema, like.comment, like.column_comments) == (table.schema, "some table", {"n": "a number"})
    infos = [load_table(reader, name, lake.snapshot_id) for name in ("raw.t", "raw.u")]
    assert infos[0].partition_fields == infos[1].partition_fields
    assert [table_options(reader, info, lake.snapshot_id) for info in infos] == [
        TableOptions(("n DESC NULLS LAST",), {"n": "7"}, ()) for _ in infos
    ]
    assert [[column.nullable for column in info.columns] for info in infos] == [[False, True, True, True]] * 2
    assert rows(lake, "SELECT count(*) FROM raw.u") == [(0,)]
    lake.create_view("raw.v", "SELECT uuid() AS id, DATE '2026-01-02' AS day")
    other = store_of(tmp_path / "other").replace(alias="other")
    with other.open() as second:
        second.create_table("t", {"id": "BIGINT NOT NULL", "day": "DATE"}, partitioned_by=["day"], comment="second")
    other.attach(sql, use=False)
    for source, types in {"raw.v": ["VARCHAR", "DATE"], "other.t": ["BIGINT", "DATE"]}.items():
        sql.sql(f"CREATE TABLE raw.w LIKE {source} USING lakeconf")
        lake.refresh()
        assert list(lake.table("raw.w").schema.values()) == types
        assert lake.table("raw.w").comment == ("second" if source == "other.t" else None)
        sql.sql("DROP TABLE raw.w")


def test_a_schema_is_created_once(sql: SparkSession, lake: Lake) -> None:
    before = len(lake.snapshots())
    for _ in range(2):
        sql.sql("CREATE SCHEMA IF NOT EXISTS dev.`new one`")
    assert len(lake.snapshots()) == before + 1
    assert "`new one`" in [row.namespace for row in sql.sql("SHOW NAMESPACES IN dev").collect()]
    sql.sql("CREATE TABLE dev.`new one`.t AS SELECT 1 AS id")
    assert rows(lake, 'FROM "new one".t') == [(1,)]


REFUSED = {
    "CREATE TABLE u LIKE nothing": "",
    "CREATE TABLE t LIKE t": "already exists",
    "CREATE TABLE u LIKE t USING iceberg": "no tables USING iceberg",
    "CREATE TABLE u LIKE t TBLPROPERTIES ('x' = 'y')": "no property or option 'x'",
    "CREATE TABLE u LIKE t LOCATION '/tmp/u'": "no LOCATION",
    "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT *, 2 AS more FROM t) s ON t.id = s.id WHEN MATCHED THEN "
    "UPDATE SET *": "cannot add the column more",
    "ANALYZE TABLES IN dev.main COMPUTE STATISTICS": "no ANALYZE TABLES",
    "CREATE TABLE u (a VARCHAR(3))": "DuckLake checks no lengths",
    "CREATE TABLE u (a INT CHECK (a > 3))": "",
    "CREATE TABLE u (a INT) LOCATION '/tmp/u'": "no LOCATION",
    "CREATE TABLE u (a INT) USING iceberg": "no tables USING iceberg",
    "CREATE TABLE u (a INT) TBLPROPERTIES ('x' = 'y')": "no property or option 'x'",
    "CREATE TABLE u (a STRING) PARTITIONED BY (truncate(2, a))": "no partition key truncate",
    "CREATE TABLE u PARTITIONED BY (b) AS SELECT 1 AS a": "",
    "CREATE TABLE u AS SELECT INTERVAL '1' DAY AS a": "DuckLake does not support",
    "CREATE NAMESPACE s COMMENT 'a'": "a schema of a lake has no comment",
    "CREATE NAMESPACE dev.a.b": "names of one part",
    "CREATE NAMESPACE dev.lakeconf": "belongs to lakeconf",
    "CREATE NAMESPACE main": "exists",
    "DROP NAMESPACE main": "cannot change or drop a schema",
    "ALTER TABLE t SET TBLPROPERTIES ('x' = 'y')": "cannot change this: the property 'x'",
    "ALTER TABLE t ADD COLUMN a INT FIRST": "NOT NULL or a position",
    "ALTER TABLE t ALTER COLUMN id TYPE STRING": "",
    "ALTER TABLE t ADD PARTITION FIELD id": "",
    "ALTER TABLE t ADD COLUMN a INT NOT NULL": "NOT NULL",
    "ALTER TABLE t ALTER COLUMN name AFTER s": "cannot change this",
    "ALTER TABLE t ALTER COLUMN name SET NOT NULL": "",
    "ALTER TABLE t ALTER COLUMN id DROP NOT NULL": "cannot change this",
    "ALTER TABLE t UNSET TBLPROPERTIES ('x')": "",
    "ALTER TABLE t SET LOCATION '/tmp/x'": "cannot change this",
    "ALTER TABLE t REPLACE COLUMNS (id BIGINT)": "",
    "ALTER TABLE t RENAME COLUMN name TO id": "",
    "ALTER TABLE t ADD COLUMN s.a INT": "",
    "ALTER TABLE t DROP COLUMN s.nothing": "",
    "ALTER TABLE t ALTER COLUMN s.a TYPE STRING": "",
    "ALTER TABLE t CLUSTER BY (id)": "",
    "ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0)": "",
    "CREATE TABLE u (id INT) CLUSTER BY (id)": "",
    "CREATE TABLE u (id BIGINT GENERATED ALWAYS AS IDENTITY)": "",
    "CREATE TABLE u (id BIGINT, n BIGINT GENERATED ALWAYS AS (id + 1))": "",
    "ALTER TABLE t DROP COLUMN nothing": "",
    "ALTER TABLE t RENAME TO other.t": "schema",
    "INSERT INTO t VALUES (NULL, 'a', NULL, NULL)": "is NOT NULL",
    "INSERT INTO t VALUES (1)": "",
    "UPDATE t SET id = NULL": "",
    "UPDATE t SET s.a = 1": "set the whole column",
    "UPDATE t SET nothing = 1": "",
    "MERGE INTO t USING (SELECT 1 AS id UNION ALL SELECT 1) s ON t.id = s.id WHEN MATCHED THEN DELETE": "match one row",
    "REPLACE TABLE nothing AS SELECT 1 AS a": "",
    "INSERT INTO t REPLACE WHERE upper(name) = 'A' SELECT 2, 'a', NULL, NULL": "cannot overwrite by this condition",
    "UPDATE t SET name = 'a', NAME = 'b'": "twice",
    "UPDATE t SET s2 = named_struct('b', 'x', 'a', 'y')": "or in another order",
    "UPDATE t SET s2 = named_struct('x', 'x', 'y', 'y') WHERE id = 1": "or in another order",
    "MERGE INTO t USING (SELECT 1 AS id, 'a' AS name, s, named_struct('b', name, 'a', name) AS s2 FROM t) v "
    "ON t.id = v.id WHEN MATCHED THEN UPDATE SET *": "or in another order",
    "MERGE INTO t USING (SELECT 5 AS id, named_struct('b', name, 'a', name) AS s2 FROM t) v "
    "ON t.id = v.id WHEN NOT MATCHED THEN INSERT (id, s2) VALUES (id, s2)": "or in another order",
    "DROP TABLE nothing": "",
    "CREATE TABLE t (id INT)": "already exists",
    "CREATE TABLE v (id INT)": "view",
    "DROP TABLE v": "view",
}


def test_what_a_lake_cannot_do_is_an_error_before_anything_changes(sql: SparkSession, lake: Lake) -> None:
    lake.create_table("t", {"id": "BIGINT NOT NULL", "name": "VARCHAR", "s": "STRUCT(a INTEGER)"})
    lake.table("t").evolve(add={"s2": "STRUCT(a VARCHAR, b VARCHAR)"})
    lake.execute("INSERT INTO t VALUES (1, 'a', NULL, NULL)")
    lake.create_view("v", "SELECT 1 AS one")
    wrong = {}
    for statement, text in REFUSED.items():
        before = len(lake.snapshots())
        try:
            sql.sql(statement)
            wrong[statement] = "no error"
            sql.sql("DROP TABLE IF EXISTS u")
        except Exception as error:  # noqa: BLE001 - Spark has many
            if text not in str(error) or "Py4J" in type(error).__name__ or len(lake.snapshots()) != before:
                wrong[statement] = f"{type(error).__name__}: {error}"[:300]
    assert wrong == {}


def test_a_statement_conflicts_with_a_commit_after_its_query_was_analyzed(sql: SparkSession, lake: Lake) -> None:
    lake.create_table("t", {"id": "BIGINT"})
    lake.execute("INSERT INTO t VALUES (1)")
    from lakeconf.lake import named_lake

    rows_of = named_lake.METHODS["rows"]

    def late(*arguments: Any) -> Any:
        lake.execute("UPDATE t SET id = 7")
        return rows_of(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(named_lake.METHODS, "rows", late)
        with pytest.raises(AnalysisException, match="CommitConflictError"):
            sql.sql("UPDATE t SET id = id + 1")
    assert rows(lake, "FROM t") == [(7,)]
    sql.sql("UPDATE t SET id = id + 1")
    assert rows(lake, "FROM t") == [(8,)]


def test_an_overwrite_does_not_lose_rows_that_others_add_while_it_runs(
    sql: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    sql.sql(f"CREATE TABLE t ({COLUMNS})")
    sql.sql("INSERT INTO t VALUES (1, 'a', NULL, 1)")
    config = config_of(tmp_path)

    def late(text: str) -> str:
        """Another writer adds a row while the query runs."""
        with lakeconf.init(config).get_store("dev").open() as other:
            other.execute("INSERT INTO t (id) VALUES (99)")
        return text

    sql.udf.register("late", late)
    for statement in (
        "INSERT OVERWRITE t SELECT id, late(name), day, amt FROM t WHERE id = 1",
        "INSERT INTO t REPLACE WHERE id = 1 SELECT id, late(name), day, amt FROM t WHERE id = 1",
        "CREATE OR REPLACE TABLE t AS SELECT id, late(name) AS name, day, amt FROM t WHERE id = 1",
    ):
        before = len(rows(lake, "SELECT id FROM t"))
        with pytest.raises(AnalysisException, match="CommitConflictError"):
            sql.sql(statement)
        lake.refresh()
        assert len(rows(lake, "SELECT id FROM t")) == before + 1, statement


def test_an_older_frame_does_not_replace_rows_that_it_has_not_read(sql: SparkSession, lake: Lake) -> None:
    """The frame keeps its snapshot, and other writers have added rows since."""
    lake.create_table("t", {"id": "BIGINT", "p": "BIGINT"}, partitioned_by=["p"])
    lake.create_table("u", {"id": "BIGINT", "p": "BIGINT"})
    lake.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    frame, cached = sql.table("t").where("id = 1"), sql.table("t").where("id <> 1")
    cached.cache().count()
    lake.execute("INSERT INTO t VALUES (99, 1)")
    for write in (
        lambda: frame.write.mode("overwrite").saveAsTable("t"),
        lambda: frame.writeTo("T").overwritePartitions(),
        lambda: frame.writeTo("t").overwrite(F.col("id") == 1),
        lambda: frame.write.mode("overwrite").insertInto("t"),
        lambda: frame.writeTo("t").createOrReplace(),
        lambda: cached.write.mode("overwrite").insertInto("t"),
        lambda: sql.table("u").where(F.col("id").isin([1])).union(frame).write.mode("overwrite").saveAsTable("t"),
    ):
        with pytest.raises(AnalysisException, match="CommitConflictError"):
            write()
        assert rows(lake, "SELECT id FROM t") == [(1,), (2,), (99,)]
    lake.execute("INSERT INTO u VALUES (5, 5)")
    frame.where("id < 0").write.insertInto("t")  # an append replaces nothing
    frame.write.mode("overwrite").saveAsTable("u")  # another table
    newer = sql.table("t")
    lake.refresh()
    lake.execute("INSERT INTO u VALUES (6, 6)")
    newer.where("id > 1").write.mode("overwrite").insertInto("t")
    assert rows(lake, "SELECT id FROM t") == [(2,), (99,)]
    cached.unpersist()
    dropped = sql.table("t")
    sql.sql("DROP TABLE t")
    dropped.write.saveAsTable("t")
    assert rows(lake, "SELECT id FROM t") == [(2,), (99,)]


def test_a_merge_of_an_older_frame_of_its_table_is_a_conflict(sql: SparkSession, lake: Lake) -> None:
    """A counter would otherwise lose what others have added to it since."""
    for name in ("t", "u"):
        lake.create_table(name, {"id": "BIGINT", "n": "BIGINT"})
        lake.execute(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    older, cached, other = sql.table("t"), sql.table("t").where("n > 0"), sql.table("u")
    cached.cache().count()

    def merge(source: DataFrame, name: str = "t") -> None:
        writer = source.alias("s").mergeInto(name, F.expr(f"{name}.id = s.id"))
        writer.whenMatched().update({"n": F.expr("s.n + 1")}).merge()

    merge(older, "u")
    merge(older)
    lake.refresh()
    lake.execute("UPDATE t SET n = 100")
    before = rows(lake, "SELECT * FROM t")
    mixed = other.where(F.col("id").isin([1])).union(older.where("id = 2"))
    for source in (older, older.where("id = 1"), cached, mixed):
        with pytest.raises(AnalysisException, match=r"CommitConflictError: main\.t was read at snapshot"):
            merge(source)
        lake.refresh()
        assert rows(lake, "SELECT * FROM t") == before
    cached.unpersist()
    merge(other)  # the rows of another table are what they were
    merge(sql.table("t").where("id = 2"))
    lake.refresh()
    assert rows(lake, "SELECT * FROM t") == [(1, 2), (2, 4)]


def test_a_view_in_a_lake_is_refused(sql: SparkSession, lake: Lake) -> None:
    lake.create_table("t", {"id": "BIGINT"})
    for statement in ("CREATE VIEW v AS SELECT * FROM t", "CREATE OR REPLACE VIEW main.v (x) AS SELECT * FROM t"):
        with pytest.raises(AnalysisException, match="views"):
            sql.sql(statement)
    sql.sql("CREATE TEMPORARY VIEW v AS SELECT * FROM t")


def test_a_cached_table_is_read_again_after_a_statement_that_changes_it(sql: SparkSession, lake: Lake) -> None:
    lake.create_table("t", {"id": "BIGINT", "n": "BIGINT"}, partitioned_by=["id"])
    lake.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    sql.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    for statement, left in (
        ("DELETE FROM t WHERE id = 1", [2, 3]),
        ("DELETE FROM t WHERE id % 2 = 0", [3]),
        ("INSERT OVERWRITE t VALUES (3, 4)", [4]),
        ("INSERT INTO t VALUES (5, 5)", [4, 5]),
        ("TRUNCATE TABLE t", []),
    ):
        sql.sql("CACHE TABLE t")
        sql.sql(statement)
        assert sorted(n for (n,) in sql.sql("SELECT n FROM t").collect()) == left, statement
        sql.sql("UNCACHE TABLE IF EXISTS t")


FILES_READ = {
    "UPDATE t SET name = 'u' WHERE day = DATE '2026-01-02' AND id % 2 = 0": 1,
    "UPDATE t SET name = 'u' WHERE day IS NULL OR day = DATE '2026-01-01'": 2,
    "UPDATE t SET name = 'u' WHERE id IN (SELECT id FROM t WHERE id < 5) AND day > '2026-01-02'": 1,
    "UPDATE t SET name = 'u' WHERE upper(name) = 'N1'": 4,
    "DELETE FROM t WHERE day = DATE '2026-01-02' AND id % 7 = 0": 1,
    "MERGE INTO t USING (SELECT 4 AS id, DATE '2026-01-03' AS day) s ON t.id = s.id AND t.day = DATE '2026-01-02' "
    "WHEN MATCHED THEN UPDATE SET name = 'm' WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')": 1,
    # A condition on the source, and one on rows of the target that have no match.
    "MERGE INTO t USING (SELECT 4 AS id, DATE '2026-01-03' AS day) s ON t.id = s.id AND s.day = DATE '2026-01-03' "
    "WHEN MATCHED THEN UPDATE SET name = 'm'": 4,
    "MERGE INTO t USING (SELECT 4 AS id) s ON t.id = s.id AND t.day = DATE '2026-01-03' "
    "WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN DELETE": 4,
}


def test_a_statement_reads_the_files_that_its_condition_may_match(sql: SparkSession, lake: Lake) -> None:
    from lakeconf.lake import named_lake

    rows_of, files = named_lake.METHODS["rows"], list[int]()

    def reading(*arguments: Any) -> Any:
        frame = rows_of(*arguments)
        files.extend(planned_files(frame))
        return frame

    filled = (
        "DELETE FROM t",
        "INSERT INTO t SELECT i, 'n' || i, DATE '2026-01-01' + (i % 3)::INT FROM range(90) t(i)",
        "INSERT INTO t SELECT 1000 + i, 'x', NULL FROM range(20) t(i)",
    )
    columns = {"id": "BIGINT", "name": "VARCHAR", "day": "DATE"}
    lake.create_table("t", columns, partitioned_by=["day"])
    with duckdb.connect() as twin, pytest.MonkeyPatch.context() as patch:
        patch.setitem(named_lake.METHODS, "rows", reading)
        twin.execute("CREATE TABLE t (id BIGINT, name VARCHAR, day DATE)")
        for statement, expected in FILES_READ.items():
            lake.refresh()
            for fill in filled:
                lake.execute(fill)
                twin.execute(fill)
            files.clear()
            sql.sql(statement)
            twin.execute(statement)
            assert sum(files) == expected, statement
            assert sorted(rows(lake, "FROM t"), key=str) == sorted(twin.execute("FROM t").fetchall(), key=str), (
                statement
            )
