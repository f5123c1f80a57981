"""Columns at every level that are added, dropped, renamed and promoted; initial defaults; every type."""

from __future__ import annotations

import datetime as dt
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from jvm_calls import execution_of
from random_lakes import LEAVES
from source_tree import REPOSITORY
from spark_rows import assert_alike, scan

from lakeconf.catalog.tables import Column
from lakeconf.engines.spark.read.column_reader import _day, default_sql
from lakeconf.engines.spark.read.primitive_types import casts_alike
from lakeconf.engines.spark.versions import reads_file_with
from lakeconf.errors import LakeconfError, UnsupportedError
from lakeconf.sql import identifier, literal

if TYPE_CHECKING:
    from catalog_lake import AttachedLake
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.slow
def test_filter_on_a_name_that_was_dropped_and_added_again(spark: SparkSession, file_lake: AttachedLake) -> None:
    """Spark pushes filters down to Parquet by name, but reads columns by field id."""
    file_lake.run(
        "CREATE TABLE lake.t (a INTEGER, b VARCHAR)", "INSERT INTO lake.t SELECT i, 'old' FROM range(100) r(i)"
    )
    file_lake.run("ALTER TABLE lake.t DROP b", "ALTER TABLE lake.t ADD COLUMN b VARCHAR")
    file_lake.run("INSERT INTO lake.t SELECT i, 'new' FROM range(100, 200) r(i)")
    frame = scan(spark, file_lake, "t")
    assert frame.where("b IS NULL").count() == 100
    assert frame.where("b = 'new'").count() == 100
    assert frame.where("b = 'old'").count() == 0


@pytest.mark.slow
def test_filter_on_swapped_names_of_columns_and_fields(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run(
        "CREATE TABLE lake.t (a INTEGER, b INTEGER)", "INSERT INTO lake.t SELECT i, i + 1000 FROM range(100) r(i)"
    )
    file_lake.run(*(f"ALTER TABLE lake.t RENAME {old} TO {new}" for old, new in (("a", "c"), ("b", "a"), ("c", "b"))))
    file_lake.run("INSERT INTO lake.t (b, a) SELECT i, i + 1000 FROM range(100, 200) r(i)")
    frame = scan(spark, file_lake, "t")
    assert frame.where("b < 1000").count() == 200
    assert frame.where("a >= 1000").count() == 200
    assert_alike(spark, file_lake, "t")
    file_lake.run("CREATE TABLE lake.u (s STRUCT(x INTEGER, y INTEGER))")
    file_lake.run("INSERT INTO lake.u SELECT {'x': i, 'y': i + 1000} FROM range(100) r(i)")
    swaps = (("x", "z"), ("y", "x"), ("z", "y"))
    file_lake.run(*(f"ALTER TABLE lake.u RENAME COLUMN s.{old} TO {new}" for old, new in swaps))
    assert [scan(spark, file_lake, "u").where(where).count() for where in ("s.x >= 1000", "s.y < 1000")] == [100, 100]
    assert_alike(spark, file_lake, "u")


def test_filters_on_unchanged_names_are_pushed_down_to_parquet(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER, s STRUCT(x INTEGER))", "INSERT INTO lake.t VALUES (1, {'x': 2})")
    plan = execution_of(scan(spark, file_lake, "t").where("a = 1 AND s.x = 2")).executedPlan().toString()
    assert "EqualTo(a,1)" in plan
    assert "EqualTo(s.x,2)" in plan


DEFAULTS = {kind: values[-1] for kind, values in LEAVES.items()} | {
    "BOOLEAN": "'true'",
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


@pytest.mark.slow
def test_initial_defaults_of_every_type(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (i INTEGER)", "INSERT INTO lake.t SELECT i FROM range(10) r(i)")
    for number, (type_name, default) in enumerate(DEFAULTS.items()):
        file_lake.run(f"ALTER TABLE lake.t ADD COLUMN c{number} {type_name} DEFAULT {default}")
    file_lake.run("INSERT INTO lake.t (i) VALUES (100)", f"INSERT INTO lake.t (i, {INTEGER}) VALUES (101, NULL)")
    assert_alike(spark, file_lake, "t", newest=3)
    frame = scan(spark, file_lake, "t", columns=["i", INTEGER])
    assert frame.where(f"{INTEGER} = 70000").count() == 11
    assert frame.where(f"{INTEGER} IS NULL").count() == 1


@pytest.mark.slow
def test_default_that_was_changed_or_dropped_later(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (i INTEGER)", "INSERT INTO lake.t VALUES (1)")
    file_lake.run("ALTER TABLE lake.t ADD COLUMN c INTEGER DEFAULT 7", "INSERT INTO lake.t (i) VALUES (2)")
    file_lake.run("ALTER TABLE lake.t ALTER c SET DEFAULT 8", "INSERT INTO lake.t (i) VALUES (3)")
    file_lake.run("ALTER TABLE lake.t ALTER c DROP DEFAULT", "INSERT INTO lake.t (i) VALUES (4)")
    assert sorted(scan(spark, file_lake, "t").collect()) == [(1, 7), (2, 7), (3, 8), (4, None)]
    assert_alike(spark, file_lake, "t")


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


@pytest.mark.slow
def test_nested_schema_changes(spark: SparkSession, file_lake: AttachedLake) -> None:
    changed = [next(name for name in NESTED if f"{{{name}}}" in alters[0]) for alters in NESTED_CHANGES.values()]
    columns = ", ".join(f"{name}{number} {NESTED[name][0]}" for number, name in enumerate(changed))
    rows = ", ".join("(" + ", ".join(NESTED[name][1][row] for name in changed) + ")" for row in range(4))
    file_lake.run(f"CREATE TABLE lake.t ({columns})", f"INSERT INTO lake.t VALUES {rows}")
    for number, alters in enumerate(NESTED_CHANGES.values()):
        names = {name: f"{name}{number}" for name in NESTED}
        file_lake.run(*(f"ALTER TABLE lake.t {alter.format(**names)}" for alter in alters))
    assert_alike(spark, file_lake, "t", newest=1)
    file_lake.run("INSERT INTO lake.t SELECT * FROM lake.t", "DELETE FROM lake.t WHERE rowid = 5")
    assert_alike(spark, file_lake, "t", newest=3)


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


@pytest.mark.slow
def test_type_promotions(spark: SparkSession, file_lake: AttachedLake) -> None:
    pairs = [(old, new) for old, news in PROMOTIONS.items() for new in news]
    columns = ", ".join(f"c{number} {old}" for number, (old, _) in enumerate(pairs))
    values = [[*map(str, VALUES[old]), *["NULL"] * 3] for old, _ in pairs]
    rows = ", ".join("(" + ", ".join(value[row] for value in values) + ")" for row in range(4))
    file_lake.run(f"CREATE TABLE lake.t ({columns})", f"INSERT INTO lake.t VALUES {rows}")
    file_lake.run(*(f"ALTER TABLE lake.t ALTER c{number} TYPE {new}" for number, (_, new) in enumerate(pairs)))
    file_lake.run("INSERT INTO lake.t SELECT * FROM lake.t")
    assert_alike(spark, file_lake, "t", newest=2)


@pytest.mark.slow
def test_promotion_to_timestamptz_in_another_time_zone(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run(
        "CREATE TABLE lake.t (a TIMESTAMP, b DATE)", "INSERT INTO lake.t VALUES ('2024-03-10 02:30:00', '2024-03-10')"
    )
    file_lake.run("INSERT INTO lake.t VALUES ('2024-11-03 01:30:00', '1850-01-01')")
    file_lake.run("ALTER TABLE lake.t ALTER a TYPE TIMESTAMPTZ", "ALTER TABLE lake.t ALTER b TYPE TIMESTAMPTZ")
    file_lake.run("SET TimeZone = 'America/New_York'")
    assert_alike(spark, file_lake, "t", row_ids=False)


@pytest.mark.slow
def test_promotion_before_a_compaction(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)", "INSERT INTO lake.t VALUES (2)")
    file_lake.run("ALTER TABLE lake.t ALTER a TYPE BIGINT", "INSERT INTO lake.t VALUES (3000000000)")
    file_lake.run("DELETE FROM lake.t WHERE a = 2", "CALL ducklake_merge_adjacent_files('lake')")
    file_lake.run("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.0)")
    assert_alike(spark, file_lake, "t")


ODD_NAMES = ["a b", "a.b", "a`b", 'a"b', "a,b;c", "ü", "=", "(x)", "rowid2", "a\nb", "%", "A"]


@pytest.mark.slow
def test_unusual_column_names(spark: SparkSession, file_lake: AttachedLake) -> None:
    columns = ", ".join(f"{identifier(name)} INTEGER" for name in ODD_NAMES)
    struct = ", ".join(f"{literal(name)}: {number}" for number, name in enumerate(ODD_NAMES))
    file_lake.run(
        f"CREATE TABLE lake.t ({columns}, s STRUCT({columns}))",
        f"INSERT INTO lake.t VALUES ({', '.join(map(str, range(len(ODD_NAMES))))}, {{{struct}}})",
    )
    assert scan(spark, file_lake, "t").columns == [*ODD_NAMES, "s"]
    assert_alike(spark, file_lake, "t")
    for number, name in enumerate(ODD_NAMES):
        file_lake.run(
            f"ALTER TABLE lake.t RENAME {identifier(name)} TO plain{number}",
            f"ALTER TABLE lake.t ADD COLUMN {identifier(name)} INTEGER DEFAULT {number + 100}",
        )
    assert_alike(spark, file_lake, "t", newest=1)


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


NAN, NIL = float("nan"), "00000000-0000-0000-0000-000000000000"
# DuckDB's type: DuckLake's type, Spark's type, and literals with the values that Spark must return.
TYPES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "BOOLEAN": ("boolean", "boolean", {"true": True, "false": False}),
    "TINYINT": ("int8", "tinyint", {"-128": -128, "127": 127}),
    "SMALLINT": ("int16", "smallint", {"-32768": -32768, "32767": 32767}),
    "INTEGER": ("int32", "int", {"-2147483648": -(2**31), "2147483647": 2**31 - 1}),
    "BIGINT": ("int64", "bigint", {"-9223372036854775808": -(2**63), "9223372036854775807": 2**63 - 1}),
    "HUGEINT": ("int128", "decimal(38,0)", {
        str(value): Decimal(value) for value in (-5, 2**100, 3 * 2**95, 10**22, 2**60 - 2**100, -(2**53))
    }),
    "UTINYINT": ("uint8", "smallint", {"0": 0, "255": 255}),
    "USMALLINT": ("uint16", "int", {"65535": 65535}),
    "UINTEGER": ("uint32", "bigint", {"4294967295": 2**32 - 1}),
    "UBIGINT": ("uint64", "decimal(20,0)", {"0": Decimal(0), "18446744073709551615": Decimal(2**64 - 1)}),
    "UHUGEINT": ("uint128", "decimal(38,0)", {"7": Decimal(7), "1267650600228229401496703205376": Decimal(2**100)}),
    "FLOAT": ("float32", "float", {"0.5": 0.5, "'nan'": NAN, "'-inf'": float("-inf")}),
    "DOUBLE": ("float64", "double", {"0.1": 0.1, "'nan'": NAN, "'inf'": float("inf"), "'-0.0'": -0.0}),
    "DECIMAL(9,2)": ("decimal(9,2)", "decimal(9,2)", {"-1234567.89": Decimal("-1234567.89")}),
    "DECIMAL(18,0)": ("decimal(18,0)", "decimal(18,0)", {"999999999999999999": Decimal(10**18 - 1)}),
    "DECIMAL(38,10)": ("decimal(38,10)", "decimal(38,10)", {"0.0000000001": Decimal("0.0000000001")}),
    "VARCHAR": ("varchar", "string", {"''": "", "'it''s ü€😀'": "it's ü€😀", "'NULL'": "NULL"}),
    "BLOB": ("blob", "binary", {"'\\x00\\xFFa'::BLOB": b"\x00\xffa", "''::BLOB": b""}),
    "JSON": ("json", "string", {"'{\"a\": [1, null]}'": '{"a": [1, null]}'}),
    "UUID": ("uuid", "string", {
        "'550E8400-e29b-41d4-a716-446655440000'": "550e8400-e29b-41d4-a716-446655440000", f"'{NIL}'": NIL,
    }),
    "DATE": ("date", "date", {"'0001-01-01'": date(1, 1, 1), "'1582-10-10'": date(1582, 10, 10)}),
    "TIME": ("time", "string", {
        "'00:00:00'": "00:00:00", "'23:59:59.999999'": "23:59:59.999999", "'01:02:03.5'": "01:02:03.5",
        "'00:59:59.000001'": "00:59:59.000001", "'00:01:00.1'": "00:01:00.1",
    }),
    "TIMETZ": ("timetz", "string", {"'12:34:56.5+00'": "12:34:56.5+00"}),
    "TIMESTAMP": ("timestamp", "timestamp_ntz", {
        "'1500-01-01 01:02:03.123456'": datetime(1500, 1, 1, 1, 2, 3, 123456),
        "'9999-12-31 23:59:59.999999'": datetime(9999, 12, 31, 23, 59, 59, 999999),
    }),
    "TIMESTAMP_S": ("timestamp_s", "timestamp_ntz", {"'2024-03-10 02:30:00'": datetime(2024, 3, 10, 2, 30)}),
    "TIMESTAMP_MS": ("timestamp_ms", "timestamp_ntz", {
        "'1969-12-31 23:59:59.999'": datetime(1969, 12, 31, 23, 59, 59, 999000),
    }),
    "TIMESTAMP_NS": ("timestamp_ns", "timestamp_ntz", {
        "'1969-12-31 23:59:59.999999'": datetime(1969, 12, 31, 23, 59, 59, 999999),
        "'1970-01-01'": datetime(1970, 1, 1), "'1823-11-12 00:52:36.854776'": datetime(1823, 11, 12, 0, 52, 36, 854776),
    }),
    "TIMESTAMPTZ": ("timestamptz", "timestamp", {
        "'2024-07-01 12:00:00+02'": 1719828000000000, "'1883-11-18 00:00:00+00'": -2717712000000000,
    }),
    "INTERVAL": ("interval", "string", {
        "INTERVAL '14 months 3 days 04:05:06.5'": "1 year 2 months 3 days 04:05:06.5",
        "INTERVAL '0 days'": "00:00:00", "INTERVAL '24 months'": "2 years", "INTERVAL '1 day'": "1 day",
        "INTERVAL '100 hours'": "100:00:00",
        "INTERVAL '255 months 65536 days 4:39:37.216'": "21 years 3 months 65536 days 04:39:37.216",
        f"to_months({2**31 - 1}) + to_days({2**31 - 1}) + to_milliseconds({2**31 - 1})": (
            "178956970 years 7 months 2147483647 days 596:31:23.647"
        ),
    }),
    "GEOMETRY": ("geometry", "binary", {"'POINT (1 2)'": bytes.fromhex("0101000000000000000000F03F0000000000000040")}),
    "VARIANT": ("variant", "variant", {
        "42::VARIANT": "42", "{'a': [1, 2], 'b': 'x'}::VARIANT": '{"a":[1,2],"b":"x"}', "'null'::JSON::VARIANT": None,
    }),
    "INTEGER[]": ("list", "array<int>", {"[1, NULL]": [1, None], "[]": []}),
    "STRUCT(a INTEGER, b VARCHAR[])": ("struct", "struct<a:int,b:array<string>>", {"{'a': 1, 'b': ['x']}": (1, ["x"])}),
    "MAP(VARCHAR, DOUBLE)": ("map", "map<string,double>", {"MAP {'k': 1.5}": {"k": 1.5}, "MAP {}": {}}),
}  # fmt: skip


NOT_INLINED = ("TIMETZ", "VARIANT")
ROWS = 1 + max(len(pairs) for *_, pairs in TYPES.values())


def column(type_name: str) -> str:
    return f"x{list(TYPES).index(type_name)}"


def assert_values(frame: DataFrame, names: list[str]) -> None:
    """The values and types of the columns of these types."""
    assert dict(frame.dtypes) == {"i": "int", **{column(name): TYPES[name][1] for name in names}}
    converted = {"timestamp": "unix_micros({})", "variant": "to_json({})"}
    selected = [converted.get(TYPES[name][1], "{}").format(column(name)) for name in names]
    rows = frame.orderBy("i").selectExpr(*selected).collect()
    for number, name in enumerate(names):
        found = [bytes(row[number]) if isinstance(row[number], bytearray) else row[number] for row in rows]
        expected = [*TYPES[name][2].values()]
        assert same(found, [*expected, *[None] * (ROWS - len(expected))]), name


def same(found: list[Any], expected: list[Any]) -> bool:
    """Compares values; NaN equals NaN, and 0.0 does not equal -0.0."""
    return len(found) == len(expected) and all(
        str(a) == str(b) if isinstance(b, float) else a == b for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.slow
def test_every_type_in_files_and_inlined(spark: SparkSession, inlining_lake: AttachedLake) -> None:
    # Spark 4.0 reads no file with a VARIANT, and DuckDB cannot pass it on.
    types = {name: fact for name, fact in TYPES.items() if name != "VARIANT" or reads_file_with(["variant"])}
    inlining_lake.run(f"CREATE TABLE lake.t (i INTEGER, {', '.join(f'{column(name)} {name}' for name in types)})")
    listed = [[*pairs, *["NULL"] * (ROWS - len(pairs))] for *_, pairs in types.values()]
    rows = ", ".join(f"({', '.join(map(str, row))})" for row in zip(range(ROWS), *listed, strict=True))
    inlining_lake.run(f"INSERT INTO lake.t VALUES {rows}")
    inlined = [name for name in types if name not in NOT_INLINED]
    assert_values(scan(spark, inlining_lake, "t", columns=["i", *map(column, inlined)]), inlined)
    inlining_lake.run("CALL ducklake_flush_inlined_data('lake')")
    assert inlining_lake.metadata("SELECT count(*) > 0 FROM ducklake_data_file WHERE end_snapshot IS NULL") == [(True,)]
    assert_values(scan(spark, inlining_lake, "t"), list(types))
    assert_alike(spark, inlining_lake, "t", row_ids=False)
    found = dict(
        inlining_lake.metadata("SELECT column_name, column_type FROM ducklake_column WHERE parent_column IS NULL")
    )
    assert found == {"i": "int32", **{column(name): in_lake for name, (in_lake, *_) in types.items()}}


def test_types_page_lists_every_type() -> None:
    lines = (REPOSITORY / "docs" / "types.md").read_text().splitlines()
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    nested = {"list": "array", "struct": "struct", "map": "map"}
    expected = {}
    for in_lake, in_spark, _ in TYPES.values():
        if in_lake.startswith("decimal"):
            expected["decimal(p,s)"] = "decimal(p,s)"
        else:
            expected[in_lake] = nested.get(in_lake, in_spark)
    assert {in_lake: in_spark for in_lake, in_spark, *_ in rows} == expected


def test_casts_that_give_the_values_of_duckdb() -> None:
    for stored, alike, others in (
        ("int32", ("int64", "decimal(12,2)", "boolean", "float64"), ("varchar", "date")),
        ("decimal(5,2)", ("decimal(9,2)",), ("float64", "int32")),
        ("float32", ("float64",), ("int32", "varchar")),
        ("date", ("timestamp", "timestamp_ms"), ("timestamptz", "varchar")),
        ("varchar", (), ("int32", "date")),
    ):
        assert all(casts_alike(stored, wanted) for wanted in alike), stored
        assert not any(casts_alike(stored, wanted) for wanted in others), stored


@pytest.mark.slow
@pytest.mark.parametrize("in_file", [True, False])
def test_nanoseconds_that_spark_cannot_represent_are_rejected(
    spark: SparkSession, inlining_lake: AttachedLake, in_file: bool
) -> None:
    inlining_lake.run("CREATE TABLE lake.t (x TIMESTAMP_NS, l TIMESTAMP_NS[])")
    inlining_lake.run("INSERT INTO lake.t VALUES ('2024-01-01 00:00:00.123456789', ['2024-01-01 00:00:00.000000001'])")
    if in_file:
        inlining_lake.run("CALL ducklake_flush_inlined_data('lake')")
    for column in ("x", "l"):
        with pytest.raises(Exception, match="TIMESTAMP_NS has more digits than Spark's microseconds"):
            scan(spark, inlining_lake, "t", columns=[column]).collect()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("HUGEINT", "170141183460469231731687303715884105727", "an inlined row has a value that Spark cannot hold"),
        ("TIMETZ", "'12:00:00+02'", "'x' holds TIMETZ in the catalog"),
        ("VARIANT", "5::VARIANT", "VARIANT column 'x'"),
    ],
)
def test_inlined_values_that_spark_lacks_are_rejected(
    spark: SparkSession, inlining_lake: AttachedLake, kind: str, value: str, message: str
) -> None:
    inlining_lake.run(f"CREATE TABLE lake.t (i INTEGER, x {kind})", f"INSERT INTO lake.t VALUES (1, {value})")
    with pytest.raises(UnsupportedError, match=message):
        scan(spark, inlining_lake, "t")
    assert scan(spark, inlining_lake, "t", columns=["i"]).collect() == [(1,)]


def test_integers_of_more_than_38_digits_in_a_file_are_rejected(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run(
        "CREATE TABLE lake.t (x HUGEINT)", "INSERT INTO lake.t VALUES (150000000000000000000000000000000000000)"
    )
    with pytest.raises(Exception, match=r"NUMERIC_VALUE_OUT_OF_RANGE|ARITHMETIC_OVERFLOW|CAST_OVERFLOW"):
        scan(spark, file_lake, "t").collect()


def test_inlined_negative_interval_is_read(spark: SparkSession, inlining_lake: AttachedLake) -> None:
    inlining_lake.run(
        "CREATE TABLE lake.t (x INTERVAL)", "INSERT INTO lake.t VALUES (INTERVAL '-1 month 2 days -26 hours')"
    )
    assert scan(spark, inlining_lake, "t").collect() == [("-1 month 2 days -26:00:00",)]


@pytest.mark.slow
def test_every_type_nested_in_other_types(spark: SparkSession, file_lake: AttachedLake) -> None:
    names = [name for name in TYPES if name not in ("VARIANT", "GEOMETRY")]
    columns = [f"c{n} STRUCT(l {name}[], m MAP(INTEGER, {name}))" for n, name in enumerate(names)]
    literals = [[f"CAST({value} AS {name})" for value in [*TYPES[name][2], "NULL"]] for name in names]
    row = ", ".join(f"{{'l': [{', '.join(found)}], 'm': MAP {{1: {found[0]}, 2: NULL}}}}" for found in literals)
    file_lake.run(f"CREATE TABLE lake.t ({', '.join(columns)})", f"INSERT INTO lake.t VALUES ({row})")
    file_lake.run(f"INSERT INTO lake.t VALUES ({', '.join(['NULL'] * len(names))})")
    assert_alike(spark, file_lake, "t")
