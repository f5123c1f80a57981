"""Added, dropped, renamed and promoted columns at every level, and their initial defaults as Spark SQL."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from random_lakes import LEAVES
from spark_rows import assert_alike, scan

from lakeconf.catalog.tables import Column
from lakeconf.engines.spark.read.column_reader import _day, default_sql
from lakeconf.errors import LakeconfError
from lakeconf.sql import identifier, literal

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession


def test_filter_on_a_name_that_was_dropped_and_added_again(spark: SparkSession, files: Lake) -> None:
    """Spark pushes filters down to Parquet by name, but reads columns by field id."""
    files.run("CREATE TABLE lake.t (a INTEGER, b VARCHAR)", "INSERT INTO lake.t SELECT i, 'old' FROM range(100) r(i)")
    files.run("ALTER TABLE lake.t DROP b", "ALTER TABLE lake.t ADD COLUMN b VARCHAR")
    files.run("INSERT INTO lake.t SELECT i, 'new' FROM range(100, 200) r(i)")
    frame = scan(spark, files, "t")
    assert frame.where("b IS NULL").count() == 100
    assert frame.where("b = 'new'").count() == 100
    assert frame.where("b = 'old'").count() == 0


def test_filter_on_swapped_names_of_columns_and_fields(spark: SparkSession, files: Lake) -> None:
    files.run(
        "CREATE TABLE lake.t (a INTEGER, b INTEGER)", "INSERT INTO lake.t SELECT i, i + 1000 FROM range(100) r(i)"
    )
    files.run(*(f"ALTER TABLE lake.t RENAME {old} TO {new}" for old, new in (("a", "c"), ("b", "a"), ("c", "b"))))
    files.run("INSERT INTO lake.t (b, a) SELECT i, i + 1000 FROM range(100, 200) r(i)")
    frame = scan(spark, files, "t")
    assert frame.where("b < 1000").count() == 200
    assert frame.where("a >= 1000").count() == 200
    assert_alike(spark, files, "t")
    files.run("CREATE TABLE lake.u (s STRUCT(x INTEGER, y INTEGER))")
    files.run("INSERT INTO lake.u SELECT {'x': i, 'y': i + 1000} FROM range(100) r(i)")
    swaps = (("x", "z"), ("y", "x"), ("z", "y"))
    files.run(*(f"ALTER TABLE lake.u RENAME COLUMN s.{old} TO {new}" for old, new in swaps))
    assert [scan(spark, files, "u").where(where).count() for where in ("s.x >= 1000", "s.y < 1000")] == [100, 100]
    assert_alike(spark, files, "u")


def test_filters_on_unchanged_names_are_pushed_down_to_parquet(spark: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (a INTEGER, s STRUCT(x INTEGER))", "INSERT INTO lake.t VALUES (1, {'x': 2})")
    plan = scan(spark, files, "t").where("a = 1 AND s.x = 2")._jdf.queryExecution().executedPlan().toString()
    assert "EqualTo(a,1)" in plan
    assert "EqualTo(s.x,2)" in plan


DEFAULTS = {kind: values[-1] for kind, values in LEAVES.items()} | {
    "SMALLINT": "300",
    "INTEGER": "70000",
    "UTINYINT": "200",
    "USMALLINT": "60000",
    "DECIMAL(38,10)": "-1234567890123456789.5",
    "VARCHAR": "'it''s \\\"\\\\n ü'",
    "BLOB": "'\\xAA\\x00b'",
    "TIMESTAMP_NS": "'2024-01-01 12:34:56.123456'",
    "INTERVAL": "'3 days'",
}
INTEGER = f"c{list(DEFAULTS).index('INTEGER')}"


def test_initial_defaults_of_every_type(spark: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (i INTEGER)", "INSERT INTO lake.t SELECT i FROM range(10) r(i)")
    for number, (type_name, default) in enumerate(DEFAULTS.items()):
        files.run(f"ALTER TABLE lake.t ADD COLUMN c{number} {type_name} DEFAULT {default}")
    files.run("INSERT INTO lake.t (i) VALUES (100)", f"INSERT INTO lake.t (i, {INTEGER}) VALUES (101, NULL)")
    assert_alike(spark, files, "t", newest=3)
    frame = scan(spark, files, "t", columns=["i", INTEGER])
    assert frame.where(f"{INTEGER} = 70000").count() == 11
    assert frame.where(f"{INTEGER} IS NULL").count() == 1


def test_default_that_was_changed_or_dropped_later(spark: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (i INTEGER)", "INSERT INTO lake.t VALUES (1)")
    files.run("ALTER TABLE lake.t ADD COLUMN c INTEGER DEFAULT 7", "INSERT INTO lake.t (i) VALUES (2)")
    files.run("ALTER TABLE lake.t ALTER c SET DEFAULT 8", "INSERT INTO lake.t (i) VALUES (3)")
    files.run("ALTER TABLE lake.t ALTER c DROP DEFAULT", "INSERT INTO lake.t (i) VALUES (4)")
    assert sorted(scan(spark, files, "t").collect()) == [(1, 7), (2, 7), (3, 8), (4, None)]
    assert_alike(spark, files, "t")


NESTED = {
    "s": (
        "STRUCT(x INTEGER, y VARCHAR)",
        ["{'x': 1, 'y': 'a'}", "NULL", "{'x': NULL, 'y': NULL}", "{'x': 2, 'y': 'b'}"],
    ),
    "l": ("STRUCT(x INTEGER)[]", ["[{'x': 1}, NULL]", "NULL", "[]", "[NULL]"]),
    "m": ("MAP(VARCHAR, STRUCT(x INTEGER))", ["MAP {'k': {'x': 1}}", "NULL", "MAP {}", "MAP {'k': NULL}"]),
}
# Each change has its own column, named as in the template plus the number of the change.
NESTED_CHANGES = {
    "add to a struct": ["ADD COLUMN {s}.z INTEGER"],
    "add to a struct with a default": ["ADD COLUMN {s}.z INTEGER DEFAULT 5"],
    "add to elements": ["ADD COLUMN {l}.element.z VARCHAR DEFAULT 'q'"],
    "add to map values": ["ADD COLUMN {m}.value.z UUID DEFAULT '550e8400-e29b-41d4-a716-446655440000'"],
    "rename in a struct": ["RENAME COLUMN {s}.x TO xx"],
    "rename in elements": ["RENAME COLUMN {l}.element.x TO xx"],
    "rename in map values": ["RENAME COLUMN {m}.value.x TO xx"],
    "drop from a struct": ["DROP COLUMN {s}.x"],
    "drop and add again": ["DROP COLUMN {s}.x", "ADD COLUMN {s}.x INTEGER DEFAULT 9"],
    "drop all that there was": ["ADD COLUMN {s}.z INTEGER", "DROP COLUMN {s}.x", "DROP COLUMN {s}.y"],
    "promote in a struct": ["ALTER {s} SET DATA TYPE STRUCT(x BIGINT, y VARCHAR)"],
    "promote in elements": ["ALTER {l} SET DATA TYPE STRUCT(x DOUBLE)[]"],
    "promote in map values": ["ALTER {m} SET DATA TYPE MAP(VARCHAR, STRUCT(x HUGEINT))"],
    "add a struct within a struct": ["ADD COLUMN {s}.n STRUCT(q INTEGER)", "ADD COLUMN {s}.n.r INTEGER DEFAULT 4"],
}


def test_nested_schema_changes(spark: SparkSession, files: Lake) -> None:
    changed = [next(name for name in NESTED if f"{{{name}}}" in alters[0]) for alters in NESTED_CHANGES.values()]
    columns = ", ".join(f"{name}{number} {NESTED[name][0]}" for number, name in enumerate(changed))
    rows = ", ".join("(" + ", ".join(NESTED[name][1][row] for name in changed) + ")" for row in range(4))
    files.run(f"CREATE TABLE lake.t ({columns})", f"INSERT INTO lake.t VALUES {rows}")
    for number, alters in enumerate(NESTED_CHANGES.values()):
        names = {name: f"{name}{number}" for name in NESTED}
        files.run(*(f"ALTER TABLE lake.t {alter.format(**names)}" for alter in alters))
    assert_alike(spark, files, "t", newest=1)
    files.run("INSERT INTO lake.t SELECT * FROM lake.t", "DELETE FROM lake.t WHERE rowid = 5")
    assert_alike(spark, files, "t", newest=3)


PROMOTIONS = {
    "TINYINT": ["SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,0)"],
    "SMALLINT": ["INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(20,4)"],
    "INTEGER": ["BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(20,4)", "DECIMAL(38,0)"],
    "BIGINT": ["HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(38,0)"],
    "HUGEINT": ["FLOAT", "DOUBLE", "DECIMAL(38,0)"],
    "UTINYINT": ["SMALLINT", "USMALLINT", "BIGINT", "UBIGINT", "HUGEINT", "DOUBLE", "DECIMAL(5,2)"],
    "USMALLINT": ["INTEGER", "UINTEGER", "UHUGEINT", "FLOAT"],
    "UINTEGER": ["BIGINT", "UBIGINT", "DOUBLE", "DECIMAL(20,4)"],
    "UBIGINT": ["HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL(38,0)"],
    "BOOLEAN": ["TINYINT", "UBIGINT", "HUGEINT"],
    "FLOAT": ["DOUBLE"],
    "DECIMAL(5,2)": ["DECIMAL(10,2)", "DECIMAL(20,4)", "FLOAT", "DOUBLE"],
    "DECIMAL(18,3)": ["DECIMAL(38,10)", "DOUBLE"],
    "DATE": ["TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"],
    "TIMESTAMP": ["TIMESTAMP_NS", "TIMESTAMPTZ"],
    "TIMESTAMP_S": ["TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_NS"],
    "TIMESTAMP_MS": ["TIMESTAMP", "TIMESTAMP_NS"],
}
VALUES: dict[str, list[object]] = {
    "TINYINT": [-128, 0, 127],
    "SMALLINT": [-32768, 32767],
    "INTEGER": [-(2**31), 16777217, 2**31 - 1],
    "BIGINT": [-(2**63), 9007199254740993, 2**63 - 1],
    "HUGEINT": ["'170000000000000000000000000000000000'", -5],
    "UTINYINT": [0, 255],
    "USMALLINT": [0, 65535],
    "UINTEGER": [0, 2**32 - 1],
    "UBIGINT": ["0", "'18446744073709551615'"],
    "BOOLEAN": ["true", "false"],
    "FLOAT": ["0.1", "'nan'", "'-inf'"],
    "DECIMAL(5,2)": ["0.10", "-999.99", "123.45"],
    "DECIMAL(18,3)": ["0.1", "999999999999999.999", "-123456789.125"],
    "DATE": ["'2024-03-10'", "'1899-12-31'"],
    "TIMESTAMP": ["'2024-03-10 02:30:00.123456'", "'2024-11-03 01:30:00'", "'1970-01-01'"],
    "TIMESTAMP_S": ["'2024-03-10 02:30:00'"],
    "TIMESTAMP_MS": ["'2024-03-10 02:30:00.123'"],
}


def test_type_promotions(spark: SparkSession, files: Lake) -> None:
    pairs = [(old, new) for old, news in PROMOTIONS.items() for new in news]
    columns = ", ".join(f"c{number} {old}" for number, (old, _) in enumerate(pairs))
    values = [[*map(str, VALUES[old]), *["NULL"] * 3] for old, _ in pairs]
    rows = ", ".join("(" + ", ".join(value[row] for value in values) + ")" for row in range(4))
    files.run(f"CREATE TABLE lake.t ({columns})", f"INSERT INTO lake.t VALUES {rows}")
    files.run(*(f"ALTER TABLE lake.t ALTER c{number} TYPE {new}" for number, (_, new) in enumerate(pairs)))
    files.run("INSERT INTO lake.t SELECT * FROM lake.t")
    assert_alike(spark, files, "t", newest=2)


def test_promotion_to_timestamptz_in_another_time_zone(spark: SparkSession, files: Lake) -> None:
    files.run(
        "CREATE TABLE lake.t (a TIMESTAMP, b DATE)", "INSERT INTO lake.t VALUES ('2024-03-10 02:30:00', '2024-03-10')"
    )
    files.run("INSERT INTO lake.t VALUES ('2024-11-03 01:30:00', '1850-01-01')")
    files.run("ALTER TABLE lake.t ALTER a TYPE TIMESTAMPTZ", "ALTER TABLE lake.t ALTER b TYPE TIMESTAMPTZ")
    files.run("SET TimeZone = 'America/New_York'")
    assert_alike(spark, files, "t", row_ids=False)


def test_promotion_before_a_compaction(spark: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)", "INSERT INTO lake.t VALUES (2)")
    files.run("ALTER TABLE lake.t ALTER a TYPE BIGINT", "INSERT INTO lake.t VALUES (3000000000)")
    files.run("DELETE FROM lake.t WHERE a = 2", "CALL ducklake_merge_adjacent_files('lake')")
    files.run("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.0)")
    assert_alike(spark, files, "t")


ODD_NAMES = ["a b", "a.b", "a`b", 'a"b', "a,b;c", "ü", "=", "(x)", "rowid2", "a\nb", "%", "A"]


def test_unusual_column_names(spark: SparkSession, files: Lake) -> None:
    columns = ", ".join(f"{identifier(name)} INTEGER" for name in ODD_NAMES)
    struct = ", ".join(f"{literal(name)}: {number}" for number, name in enumerate(ODD_NAMES))
    files.run(
        f"CREATE TABLE lake.t ({columns}, s STRUCT({columns}))",
        f"INSERT INTO lake.t VALUES ({', '.join(map(str, range(len(ODD_NAMES))))}, {{{struct}}})",
    )
    assert scan(spark, files, "t").columns == [*ODD_NAMES, "s"]
    assert_alike(spark, files, "t")
    for number, name in enumerate(ODD_NAMES):
        files.run(
            f"ALTER TABLE lake.t RENAME {identifier(name)} TO plain{number}",
            f"ALTER TABLE lake.t ADD COLUMN {identifier(name)} INTEGER DEFAULT {number + 100}",
        )
    assert_alike(spark, files, "t", newest=1)


def test_default_that_the_spark_type_cannot_hold_is_rejected() -> None:
    with pytest.raises(LakeconfError, match="170141183460469231731687303715884105727"):
        default_sql(Column(1, "c", "int128", nullable=True, initial_default="170141183460469231731687303715884105727"))


def test_days_are_those_of_the_gregorian_calendar() -> None:
    epoch = dt.date(1970, 1, 1)
    ends = [0, 1, 58, 59, 60, 364, 365, 366, 789, 1460, 1461, 10956, 10957, 36523, 36524, 36525, 146_096, 146_097]
    steps = [*range(1100), *range(0, 2_900_000, 997), *ends]
    for day in (sign * step for step in steps for sign in (1, -1)):
        if -719_162 <= day <= 2_932_896:
            assert _day(day) == (epoch + dt.timedelta(days=day)).isoformat()


@pytest.mark.parametrize(
    ("day", "text"),
    [
        (-719_162, "0001-01-01"),
        (-719_163, "0000-12-31"),
        (-719_528, "0000-01-01"),
        (-719_529, "-0001-12-31"),
        (-719_894, "-0002-12-31"),
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
        (-719_468, "0000-03-01"),
        (-719_469, "0000-02-29"),
    ],
)
def test_years_that_python_lacks(day: int, text: str) -> None:
    assert _day(day) == text
