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


# What Spark's SQL says of a column, and what DuckDB's does.
CONSTANTS = (
    ("INT DEFAULT 5", "INTEGER DEFAULT 5"),
    ("BIGINT DEFAULT -9223372036854775808", "BIGINT DEFAULT '-9223372036854775808'"),
    ("TINYINT DEFAULT -128", "TINYINT DEFAULT '-128'"),
    ("BIGINT DEFAULT CAST('7' AS INT)", "BIGINT DEFAULT 7"),
    ("DECIMAL(9,2) DEFAULT -0.05", "DECIMAL(9,2) DEFAULT '-0.05'"),
    (*["DECIMAL(38,10) DEFAULT 1234567890123456789012345678.0123456789"] * 2,),
    ("DECIMAL(38,10) DEFAULT 0", "DECIMAL(38,10) DEFAULT 0"),
    ("DOUBLE DEFAULT 1e300D", "DOUBLE DEFAULT 1e300"),
    ("DOUBLE DEFAULT CAST('-Infinity' AS DOUBLE)", "DOUBLE DEFAULT '-inf'"),
    ("DOUBLE DEFAULT CAST('NaN' AS DOUBLE)", "DOUBLE DEFAULT 'nan'"),
    ("DOUBLE DEFAULT -0.0D", "DOUBLE DEFAULT '-0.0'"),
    ("FLOAT DEFAULT 0.1F", "FLOAT DEFAULT 0.1"),
    ("BOOLEAN DEFAULT true", "BOOLEAN DEFAULT 'true'"),
    ("STRING DEFAULT ''", "VARCHAR DEFAULT ''"),
    ("STRING DEFAULT 'x $ \"é\" `日本` '", "VARCHAR DEFAULT 'x $ \"é\" `日本` '"),
    ("BINARY DEFAULT X'00FF'", "BLOB DEFAULT '\\x00\\xFF'"),
    ("DATE DEFAULT DATE '0001-01-01'", "DATE DEFAULT '0001-01-01'"),
    ("DATE DEFAULT DATE '9999-12-31'", "DATE DEFAULT '9999-12-31'"),
    (
        "TIMESTAMP_NTZ DEFAULT TIMESTAMP_NTZ '2024-03-31 02:30:00.123456'",
        "TIMESTAMP DEFAULT '2024-03-31 02:30:00.123456'",
    ),
    ("TIMESTAMP_LTZ DEFAULT TIMESTAMP_LTZ '1500-01-01 00:00:00Z'", "TIMESTAMPTZ DEFAULT '1500-01-01 00:00:00Z'"),
    ("TIMESTAMP_LTZ DEFAULT TIMESTAMP_LTZ '2024-07-01 12:00:00+02:00'", "TIMESTAMPTZ DEFAULT '2024-07-01 12:00:00+02'"),
    ("INT DEFAULT NULL", "INTEGER DEFAULT NULL"),
    ("INT NOT NULL DEFAULT 6", "INTEGER NOT NULL DEFAULT 6"),
)


@pytest.fixture
def twins(store: Store, own: SparkSession) -> Iterator[tuple[SparkSession, DuckDBPyConnection]]:
    """Spark's SQL and plain DuckDB, on an empty lake."""
    store.attach(own)
    with store.connect() as connection:
        yield own, connection


def test_a_default_by_spark_is_that_of_duckdb(twins: tuple[SparkSession, DuckDBPyConnection]) -> None:
    """Created, replaced, added and set: for new rows of both, and for the rows that a table had."""
    sql, plain = twins
    named = [(f"c {number}", *texts) for number, texts in enumerate(CONSTANTS)]
    added = [each for each in named if "NOT NULL" not in each[1]]
    spark_columns = ", ".join(f"`{name}` {text}" for name, text, _ in named)
    duckdb_columns = ", ".join(f'"{name}" {text}' for name, _, text in named)
    kept_columns = ", ".join(f'"{name}" {text}' for name, _, text in added)
    types = ", ".join(f'"{name}" {text.partition(" DEFAULT")[0]}' for name, _, text in added)
    statements = (
        *(f"CREATE TABLE d{number} (id BIGINT, {duckdb_columns})" for number in (1, 2)),
        *(f"CREATE TABLE d{number} (id BIGINT, {kept_columns})" for number in (3, 4)),
        f"CREATE TABLE s2 (a BIGINT); CREATE TABLE s3 (id BIGINT); CREATE TABLE s4 (id BIGINT, {types})",
        *(f"INSERT INTO {table} (id) VALUES (0)" for table in ("d3", "s3", "s4")),
        f"INSERT INTO d4 VALUES (0{', NULL' * len(added)})",
    )
    plain.execute(f"BEGIN; {'; '.join(statements)}; COMMIT")
    sql.sql(f"CREATE TABLE s1 (id BIGINT, {spark_columns})")
    sql.sql(f"CREATE OR REPLACE TABLE s2 (id BIGINT, {spark_columns})")
    sql.sql(f"ALTER TABLE s3 ADD COLUMNS ({', '.join(f'`{name}` {text}' for name, text, _ in added)})")
    changes = [f"`{name}` SET DEFAULT {text.partition(' DEFAULT')[2]}" for name, text, _ in added]
    sql.sql(f"ALTER TABLE s4 ALTER COLUMN {', '.join(changes)}")
    for number in range(1, 5):
        plain.execute(f"INSERT INTO d{number} (id) VALUES (1), (2), (3)")
        plain.execute(f"INSERT INTO s{number} (id) VALUES (1)")
        sql.sql(
            f"MERGE INTO s{number} t USING (SELECT 2 AS k) s ON t.id = k WHEN NOT MATCHED THEN INSERT (id) VALUES (k)"
        )
        sql.sql(f"INSERT INTO s{number} VALUES (3{', DEFAULT' * len(added if number > 2 else named)})")
        rows = [plain.execute(f"FROM {side}{number} ORDER BY id").fetchall() for side in "sd"]
        assert list(map(repr, rows[0])) == list(map(repr, rows[1])), number
    by_spark = [sql.table(f"{side}3").where("id = 0").collect() for side in "sd"]
    assert repr(by_spark[0]) == repr(by_spark[1])


def test_a_default_is_dropped(twins: tuple[SparkSession, DuckDBPyConnection]) -> None:
    sql, plain = twins
    sql.sql("CREATE TABLE v (id BIGINT, A INT DEFAULT 1, b INT DEFAULT 2, c INT DEFAULT 3)")
    before = len(plain.execute("FROM dev.snapshots()").fetchall())
    sql.sql("ALTER TABLE v ALTER COLUMN a DROP DEFAULT")
    sql.sql("ALTER TABLE v ALTER COLUMN b SET DEFAULT NULL")
    sql.sql("ALTER TABLE v ALTER COLUMN B SET DEFAULT 4")
    assert len(plain.execute("FROM dev.snapshots()").fetchall()) == before + 3
    plain.execute("INSERT INTO v (id) VALUES (1)")
    sql.sql("INSERT INTO v VALUES (2, DEFAULT, DEFAULT, DEFAULT)")
    assert plain.execute("FROM v ORDER BY id").fetchall() == [(1, None, 4, 3), (2, None, 4, 3)]


# Not constants, or not of the type.
REFUSED = {
    "CREATE TABLE u (a TIMESTAMP DEFAULT current_timestamp())": "UnsupportedError: the default of",
    "CREATE TABLE u (a DATE DEFAULT current_date)": "is an expression",
    "CREATE TABLE u (a INT DEFAULT 1 + 2)": "write a constant",
    "CREATE TABLE u (a DOUBLE DEFAULT rand())": "",
    "CREATE TABLE u (a STRING DEFAULT current_user())": "is an expression",
    "CREATE OR REPLACE TABLE t (a STRING DEFAULT upper('a'))": "is an expression",
    "CREATE TABLE u (a INT DEFAULT (SELECT 1))": "",
    "CREATE TABLE u (a INT DEFAULT 'x')": "",
    "CREATE TABLE u (a TINYINT DEFAULT 300)": "",
    "CREATE TABLE u (a STRING DEFAULT 'NULL')": "SchemaError",
    "CREATE TABLE u (a STRING DEFAULT CAST(X'610062' AS STRING))": "NUL",
    "CREATE TABLE u (a STRING DEFAULT CAST(X'FF' AS STRING))": "is not UTF-8",
    "CREATE TABLE u (a DATE DEFAULT DATE '-0044-03-15')": "years 1 to 9999",
    "CREATE TABLE u (a TIMESTAMP DEFAULT TIMESTAMP_LTZ '+10000-01-01 00:00:00Z')": "years 1 to 9999",
    "CREATE TABLE u (a ARRAY<INT> DEFAULT array(1))": "is an expression",
    "ALTER TABLE t ADD COLUMN a DATE DEFAULT current_date()": "is an expression",
    "ALTER TABLE t ADD COLUMN s.b INT DEFAULT 1": "a nested field of a lake has no default",
    "ALTER TABLE t ALTER COLUMN s.a SET DEFAULT 1": "a nested field of a lake has no default",
    "ALTER TABLE t ALTER COLUMN id SET DEFAULT id + 1": "",
    "ALTER TABLE t ALTER COLUMN id SET DEFAULT 'x'": "",
    "ALTER TABLE t ALTER COLUMN nothing SET DEFAULT 1": "",
    "ALTER TABLE t ALTER COLUMN u SET DEFAULT 'no uuid'": "SchemaError: the default of 'u' is no UUID",
    "ALTER TABLE t ALTER COLUMN big SET DEFAULT -1": "SchemaError",
    "ALTER TABLE t ALTER COLUMN s_ms SET DEFAULT TIMESTAMP_NTZ '2026-01-01 00:00:00.123456'": "exactly",
}


def test_a_default_that_is_no_constant_is_an_error(twins: tuple[SparkSession, DuckDBPyConnection]) -> None:
    sql, plain = twins
    plain.execute("CREATE TABLE t (id BIGINT, s STRUCT(a INTEGER), u UUID, big UBIGINT, s_ms TIMESTAMP_MS)")
    before, wrong = newest(plain), {}
    for statement, text in REFUSED.items():
        try:
            sql.sql(statement)
            wrong[statement] = "no error"
        except AnalysisException as error:
            if text not in str(error):
                wrong[statement] = f"{type(error).__name__}: {error}"[:300]
    assert wrong == {}
    assert newest(plain) == before
