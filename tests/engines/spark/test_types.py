"""Every DuckLake type, in files and inlined, and the table of Spark types in the docs."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from source_tree import REPOSITORY
from spark_rows import assert_alike, scan

from lakeconf.engines.spark.versions import reads_file_with
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import DataFrame, SparkSession

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


def test_every_type_in_files_and_inlined(spark: SparkSession, usual: Lake) -> None:
    # Spark 4.0 reads no file with a VARIANT, and DuckDB cannot pass it on.
    types = {name: fact for name, fact in TYPES.items() if name != "VARIANT" or reads_file_with(["variant"])}
    usual.run(f"CREATE TABLE lake.t (i INTEGER, {', '.join(f'{column(name)} {name}' for name in types)})")
    listed = [[*pairs, *["NULL"] * (ROWS - len(pairs))] for *_, pairs in types.values()]
    rows = ", ".join(f"({', '.join(map(str, row))})" for row in zip(range(ROWS), *listed, strict=True))
    usual.run(f"INSERT INTO lake.t VALUES {rows}")
    inlined = [name for name in types if name not in NOT_INLINED]
    assert_values(scan(spark, usual, "t", columns=["i", *map(column, inlined)]), inlined)
    usual.run("CALL ducklake_flush_inlined_data('lake')")
    assert usual.metadata("SELECT count(*) > 0 FROM ducklake_data_file WHERE end_snapshot IS NULL") == [(True,)]
    assert_values(scan(spark, usual, "t"), list(types))
    assert_alike(spark, usual, "t", row_ids=False)
    found = dict(usual.metadata("SELECT column_name, column_type FROM ducklake_column WHERE parent_column IS NULL"))
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


@pytest.mark.parametrize("in_file", [True, False])
def test_nanoseconds_that_spark_cannot_represent_are_rejected(spark: SparkSession, usual: Lake, in_file: bool) -> None:
    usual.run("CREATE TABLE lake.t (x TIMESTAMP_NS, l TIMESTAMP_NS[])")
    usual.run("INSERT INTO lake.t VALUES ('2024-01-01 00:00:00.123456789', ['2024-01-01 00:00:00.000000001'])")
    if in_file:
        usual.run("CALL ducklake_flush_inlined_data('lake')")
    for column in ("x", "l"):
        with pytest.raises(Exception, match="TIMESTAMP_NS has more digits than Spark's microseconds"):
            scan(spark, usual, "t", columns=[column]).collect()


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("HUGEINT", "170141183460469231731687303715884105727", "an inlined row has a value that Spark cannot hold"),
        ("TIMETZ", "'12:00:00+02'", "'x' holds TIMETZ in the catalog"),
        ("VARIANT", "5::VARIANT", "VARIANT column 'x'"),
    ],
)
def test_inlined_values_that_spark_lacks_are_rejected(
    spark: SparkSession, usual: Lake, kind: str, value: str, message: str
) -> None:
    usual.run(f"CREATE TABLE lake.t (i INTEGER, x {kind})", f"INSERT INTO lake.t VALUES (1, {value})")
    with pytest.raises(UnsupportedError, match=message):
        scan(spark, usual, "t")
    assert scan(spark, usual, "t", columns=["i"]).collect() == [(1,)]


def test_integers_of_more_than_38_digits_in_a_file_are_rejected(spark: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (x HUGEINT)", "INSERT INTO lake.t VALUES (150000000000000000000000000000000000000)")
    with pytest.raises(Exception, match=r"NUMERIC_VALUE_OUT_OF_RANGE|ARITHMETIC_OVERFLOW|CAST_OVERFLOW"):
        scan(spark, files, "t").collect()


def test_inlined_negative_interval_is_read(spark: SparkSession, usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t (x INTERVAL)", "INSERT INTO lake.t VALUES (INTERVAL '-1 month 2 days -26 hours')")
    assert scan(spark, usual, "t").collect() == [("-1 month 2 days -26:00:00",)]


def test_every_type_nested_in_other_types(spark: SparkSession, files: Lake) -> None:
    names = [name for name in TYPES if name not in ("VARIANT", "GEOMETRY")]
    columns = [f"c{n} STRUCT(l {name}[], m MAP(INTEGER, {name}))" for n, name in enumerate(names)]
    literals = [[f"CAST({value} AS {name})" for value in [*TYPES[name][2], "NULL"]] for name in names]
    row = ", ".join(f"{{'l': [{', '.join(found)}], 'm': MAP {{1: {found[0]}, 2: NULL}}}}" for found in literals)
    files.run(f"CREATE TABLE lake.t ({', '.join(columns)})", f"INSERT INTO lake.t VALUES ({row})")
    files.run(f"INSERT INTO lake.t VALUES ({', '.join(['NULL'] * len(names))})")
    assert_alike(spark, files, "t")
