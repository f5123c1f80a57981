"""Spark's SQL gives a column that a statement leaves out the default that DuckDB gives it, or is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

    from lakeconf import Store

pytestmark = pytest.mark.slow

DEFAULTS = (
    "INTEGER DEFAULT 5",
    "INTEGER DEFAULT -3",
    "TINYINT DEFAULT -128",
    "BIGINT DEFAULT -9223372036854775808",
    "UBIGINT DEFAULT 18446744073709551615",
    "DECIMAL(9,2) DEFAULT 1",
    "DECIMAL(38,10) DEFAULT -1234567890123456789012345678.0123456789",
    "DOUBLE DEFAULT 1e300",
    "DOUBLE DEFAULT '-inf'",
    "DOUBLE DEFAULT 'nan'",
    "FLOAT DEFAULT 0.1",
    "BOOLEAN DEFAULT true",
    "VARCHAR DEFAULT 'plain text'",
    "VARCHAR DEFAULT ''",
    "VARCHAR DEFAULT 'it''s \\n ${x} \"é\" `日本`'",
    "VARCHAR DEFAULT 'NULL'",
    "JSON DEFAULT '{\"a\": 1}'",
    "UUID DEFAULT 'f47ac10b-58cc-4372-a567-0e02b2c3d479'",
    "BLOB DEFAULT '\\x00\\xFF'::BLOB",
    "DATE DEFAULT DATE '0001-01-01'",
    "DATE DEFAULT '9999-12-31'",
    "TIMESTAMP DEFAULT '1500-01-01 00:00:00.123456'",
    "TIMESTAMP_MS DEFAULT '2024-03-31 02:30:00.123'",
    "TIMESTAMPTZ DEFAULT '2024-07-01 12:00:00+02'",
    "TIMESTAMPTZ DEFAULT '1500-01-01 00:00:00Z'",
)
# Those that Spark cannot have: expressions, a time in the time zone of a session, dates out of its range.
EXPRESSIONS = (
    "TIMESTAMP DEFAULT now()",
    "DOUBLE DEFAULT 1 + 2",
    "VARCHAR DEFAULT concat('`', chr(10), '${x}')",
    "TIMESTAMPTZ DEFAULT '2024-07-01 12:00:00'",
    "DATE DEFAULT 'infinity'",
    "DATE DEFAULT '0044-03-15 (BC)'",
    "INTERVAL DEFAULT '1 day'",
)


@pytest.fixture
def plain(store: Store) -> Iterator[DuckDBPyConnection]:
    """Plain DuckDB, with the table `t`, which has a column for each default, and `u` for each expression."""
    with store.connect() as connection:
        for name, kinds in (("t", DEFAULTS), ("u", EXPRESSIONS)):
            columns = ", ".join(f'"C {number}" {kind}' for number, kind in enumerate(kinds))
            connection.execute(f"CREATE TABLE {name} (id BIGINT, {columns})")
        yield connection


@pytest.fixture
def sql(store: Store, plain: DuckDBPyConnection, own: SparkSession) -> SparkSession:
    store.attach(own)
    return own


def by_duckdb(plain: DuckDBPyConnection) -> list[str]:
    plain.execute("INSERT INTO t (id) VALUES (0)")
    return shown(plain)[0]


def shown(plain: DuckDBPyConnection) -> list[list[str]]:
    """The rows of the table without their ids; removes them."""
    rows = plain.execute("SELECT COLUMNS(* EXCLUDE id) FROM t ORDER BY id").fetchall()
    plain.execute("DELETE FROM t")
    return [list(map(repr, row)) for row in rows]


def newest(plain: DuckDBPyConnection) -> object:
    return plain.execute("SELECT max(snapshot_id) FROM ducklake_snapshots('dev')").fetchall()


# Each adds a row; on Spark 4.0, an INSERT must name all columns.
LEFT_OUT = (
    "INSERT INTO t (id) VALUES (1)",
    "INSERT INTO t (id) SELECT count(*) FROM t",
    "INSERT INTO t BY NAME SELECT 1 AS id",
    "INSERT INTO t (`c 0`, id) VALUES (DEFAULT, 1)",
    "INSERT OVERWRITE t (id) VALUES (1)",
    "INSERT OVERWRITE t (id) SELECT 1 FROM t RIGHT JOIN (SELECT 1) ON true",
)
IN_ALL = (
    f"INSERT INTO t VALUES (1{', DEFAULT' * len(DEFAULTS)})",
    "MERGE INTO t USING (SELECT 1 AS k) s ON t.id = s.k WHEN NOT MATCHED THEN INSERT (id) VALUES (k)",
    "MERGE INTO t USING (SELECT 1 AS k) s ON t.id = s.k WHEN NOT MATCHED THEN INSERT (id, `C 1`) VALUES (k, DEFAULT)",
    "MERGE INTO t USING t AS s ON false WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
)


def test_a_column_of_any_type_gets_its_default(sql: SparkSession, plain: DuckDBPyConnection) -> None:
    expected = by_duckdb(plain)
    wrong = {}
    for statement in IN_ALL:
        if "USING t" in statement:
            plain.execute("INSERT INTO t (id) VALUES (9)")
        sql.sql(statement)
        for row in shown(plain):
            if row != expected:
                wrong[statement] = [pair for pair in zip(DEFAULTS, row, expected, strict=True) if pair[1] != pair[2]]
    assert wrong == {}
    plain.execute('INSERT INTO t (id, "C 0", "C 14") VALUES (1, 77, \'other\'), (2, NULL, NULL)')
    sql.sql("UPDATE t SET `C 14` = DEFAULT, `C 0` = DEFAULT WHERE id = 1")
    sql.sql(
        "MERGE INTO t USING (SELECT 2 AS k) ON t.id = k WHEN MATCHED THEN UPDATE SET `C 14` = DEFAULT, `C 0` = DEFAULT"
    )
    assert shown(plain) == [expected] * 2


@pytest.mark.needs_spark("4.1")
def test_a_column_that_an_insert_leaves_out_gets_its_default(sql: SparkSession, plain: DuckDBPyConnection) -> None:
    expected = by_duckdb(plain)
    for statement in LEFT_OUT:
        sql.sql(statement)
        assert shown(plain) == [expected], statement
    frame = sql.sql("SELECT 1 AS id")
    frame.writeTo("t").append()
    assert shown(plain) == [expected]
    frame.write.mode("append").saveAsTable("t")
    assert shown(plain) == [expected]


SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.ansi.enforceReservedKeywords": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.defaultColumn.enabled": "false",
    "spark.sql.defaultColumn.useNullsForMissingDefaultValues": "false",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.storeAssignmentPolicy": "STRICT",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}


def test_no_setting_of_the_session_changes_a_default(sql: SparkSession, plain: DuckDBPyConnection) -> None:
    expected = by_duckdb(plain)
    for key, text in SETTINGS.items():
        sql.conf.set(key, text)
    sql.sql(IN_ALL[1])
    assert shown(plain) == [expected]


def test_a_default_that_spark_cannot_have_is_an_error(sql: SparkSession, plain: DuckDBPyConnection) -> None:
    plain.execute("INSERT INTO u (id) VALUES (1)")
    before = newest(plain)
    others = ", NULL" * len(EXPRESSIONS)
    for number in range(len(EXPRESSIONS)):
        values = others[: number * len(", NULL")] + ", DEFAULT" + others[(number + 1) * len(", NULL") :]
        for statement in (
            f"INSERT INTO u VALUES (2{values})",
            f"UPDATE u SET `C {number}` = DEFAULT",
            f"MERGE INTO u USING (SELECT 1 AS k) ON u.id = k WHEN MATCHED THEN UPDATE SET `C {number}` = DEFAULT",
        ):
            with pytest.raises(
                AnalysisException, match=r"UnsupportedError: Spark has no constant for .*give the column"
            ):
                sql.sql(statement)
    with pytest.raises(AnalysisException, match="UnsupportedError: Spark has no constant"):
        sql.sql("MERGE INTO u USING (SELECT 2 AS k) ON u.id = k WHEN NOT MATCHED THEN INSERT (id) VALUES (k)")
    assert newest(plain) == before
    sql.sql(f"INSERT INTO u VALUES (2{others})")
    sql.sql("DELETE FROM u WHERE id = 1")
    assert plain.execute("FROM u").fetchall() == [(2, *[None] * len(EXPRESSIONS))]
    assert sql.table("u").count() == 1


def test_a_copy_of_a_table_has_no_defaults(sql: SparkSession, plain: DuckDBPyConnection) -> None:
    """Its reader would take them for values of older files, or a query for those of its rows."""
    plain.execute("INSERT INTO t (id) VALUES (1)")
    plain.execute('INSERT INTO t (id, "C 0") VALUES (2, NULL)')
    for statement in ("CREATE TABLE copy AS SELECT * FROM t", "CREATE OR REPLACE TABLE copy AS SELECT * FROM t"):
        sql.sql(statement)
        assert plain.execute('SELECT count(*), count("C 0") FROM copy').fetchall() == [(2, 1)]
        plain.execute("INSERT INTO copy (id) VALUES (3)")
        assert plain.execute('SELECT "C 0" FROM copy WHERE id = 3').fetchall() == [(None,)]
    assert sql.sql("SELECT id FROM t WHERE `C 0` IS NULL").collect() == [(2,)]
    both = sql.table("t").select("id").unionByName(sql.table("t").select("id", "C 0"), allowMissingColumns=True)
    assert sorted(str(row["C 0"]) for row in both.collect()) == ["5", "None", "None", "None"]


def test_an_older_snapshot_has_its_own_defaults(sql: SparkSession, plain: DuckDBPyConnection) -> None:
    plain.execute("CREATE TABLE v (id BIGINT, n INTEGER DEFAULT 1)")
    for number in (2, 3):
        plain.execute(f"ALTER TABLE v ALTER n SET DEFAULT {number}")
        sql.sql(f"INSERT INTO v VALUES ({number}, DEFAULT)")
    plain.execute("ALTER TABLE v ALTER n DROP DEFAULT")
    sql.sql("INSERT INTO v VALUES (4, DEFAULT)")
    assert plain.execute("FROM v ORDER BY id").fetchall() == [(2, 2), (3, 3), (4, None)]
