"""How columns are read: the types requested from Spark's reader, and the conversion to the types of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StructType

from lakeconf.catalog.column_types import columns_of
from lakeconf.catalog.tables import Column
from lakeconf.engines.spark.read.column_reader import Found, missing, quoted, reading, requested

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def column(type_name: str) -> Column:
    (found,) = columns_of({"c": type_name})
    return found


def place(wanted: Column, types: dict[str, str] | None = None, names: dict[str, str] | None = None) -> Found:
    """The location of a column by name: with other types by the name of a field, or under another name."""
    children = tuple(place(child, types, names) for child in wanted.children)
    name, stored = (names or {}).get(wanted.name, wanted.name), (types or {}).get(wanted.name, wanted.type)
    return Found(name, None, stored, children)


def read(spark: SparkSession, wanted: Column, found: Found, sql: str) -> tuple[str, Any]:
    """The type and the value of the column, if Spark's reader returns the value of some SQL."""
    how = reading(wanted, found)
    assert how is not None
    value = F.expr(sql).cast(how.type)
    frame = spark.range(1).select((value if how.convert is None else how.convert(value)).alias("c"))
    return frame.dtypes[0][1], frame.collect()[0][0]


def test_requested_field_has_its_id_and_its_default() -> None:
    field = requested(Found("a", 3, "int64"), LongType(), default="CAST(7 AS bigint)")
    assert (field.name, field.dataType, field.nullable) == ("a", LongType(), True)
    assert field.metadata == {"parquet.field.id": 3, "EXISTS_DEFAULT": "CAST(7 AS bigint)"}
    assert requested(Found("a", None, "int64"), LongType()).metadata == {}
    assert requested(Found("a", 0, "int64"), LongType()).metadata == {"parquet.field.id": 0}


def test_leaf_of_the_same_type_is_not_converted(spark: SparkSession) -> None:
    how = reading(column("BIGINT"), Found("c", 1, "int64"))
    assert how is not None
    assert (how.type.simpleString(), how.convert) == ("bigint", None)
    assert read(spark, column("BIGINT"), Found("c", 1, "int16"), "7") == ("bigint", 7)
    assert reading(column("BIGINT"), Found("c", 1, "varchar")) is None


def test_floats_by_name_are_not_used_to_filter_row_groups(spark: SparkSession) -> None:
    wanted, by_name = column("DOUBLE"), Found("c", None, "float64")
    how = reading(wanted, by_name)
    assert how is not None
    assert how.convert is not None
    assert read(spark, wanted, by_name, "-2.5") == ("double", -2.5)
    assert read(spark, wanted, Found("c", None, "float32"), "0.5") == ("double", 0.5)
    for found, can_filter in ((Found("c", 1, "float64"), True), (by_name, False)):
        unchanged = reading(wanted, found, can_filter=can_filter)
        assert unchanged is not None
        assert unchanged.convert is None
    inside = reading(column("DOUBLE[]"), Found("c", None, "list", (by_name,)))
    assert inside is not None
    assert inside.convert is None


def test_missing_column_is_its_default_or_null(spark: SparkSession) -> None:
    with_default = Column(1, "c", "int16", nullable=True, initial_default="7")
    frame = spark.range(1).select(missing(with_default).alias("a"), missing(column("DATE[]")).alias("b"))
    assert (frame.dtypes, frame.collect()) == ([("a", "smallint"), ("b", "array<date>")], [(7, None)])


def test_name_is_quoted() -> None:
    assert quoted("a.b`c") == "`a.b``c`"


NESTED = [
    ("STRUCT(x BIGINT, y VARCHAR)", "named_struct('x', 1, 'y', 'a')", (1, "a")),
    ("BIGINT[]", "array(1, NULL)", [1, None]),
    ("MAP(VARCHAR, BIGINT)", "map('k', 1)", {"k": 1}),
]


@pytest.mark.parametrize(("type_name", "sql", "expected"), NESTED)
def test_nested_value_of_the_same_type_is_not_converted(
    spark: SparkSession, type_name: str, sql: str, expected: Any
) -> None:
    wanted = column(type_name)
    how = reading(wanted, place(wanted))
    assert how is not None
    assert how.convert is None
    assert read(spark, wanted, place(wanted), sql)[1] == expected
    for kind in ("struct", "list", "map", "int64"):
        if kind != wanted.type:
            assert reading(wanted, Found("c", None, kind, place(wanted).children)) is None


CONVERTED = [
    ("STRUCT(x BIGINT, y TIME)", {"x": "int16", "y": "time"}, "named_struct('x', 1, 'y', 5L)", (1, "00:00:00.000005")),
    ("STRUCT(x STRUCT(x BIGINT))", {}, "named_struct('x', named_struct('x', 1L))", ((1,),)),
    ("TIME[]", {"element": "time"}, "array(0L, NULL)", ["00:00:00", None]),
    ("MAP(INTEGER, TIME)", {"value": "time"}, "map(1, 0L)", {1: "00:00:00"}),
    ("MAP(TIME, INTEGER)", {"key": "time"}, "map(0L, 1)", {"00:00:00": 1}),
    ("MAP(BIGINT, TIME)", {"key": "int16", "value": "time"}, "map(3, 0L)", {3: "00:00:00"}),
]


@pytest.mark.parametrize(("type_name", "types", "sql", "expected"), CONVERTED)
def test_nested_values_are_converted(
    spark: SparkSession, type_name: str, types: dict[str, str], sql: str, expected: Any
) -> None:
    wanted = column(type_name)
    found = read(spark, wanted, place(wanted, types), sql)[1]
    assert found == expected
    assert read(spark, wanted, place(wanted, types), "NULL")[1] is None


def test_map_keys_that_become_equal_are_accepted(spark: SparkSession) -> None:
    """As in DuckDB; Spark's `transform_keys` raises an error."""
    wanted = column("MAP(FLOAT, INTEGER)")
    kind, value = read(spark, wanted, place(wanted, {"key": "int32"}), "map(16777216, 1, 16777217, 2)")
    assert (kind, list(value)) == ("map<float,int>", [16777216.0])


def test_fields_of_a_struct_are_renamed_without_a_conversion_of_values(spark: SparkSession) -> None:
    wanted = column("STRUCT(x BIGINT, y VARCHAR)")
    found = place(wanted, names={"x": "old"})
    how = reading(wanted, found)
    assert how is not None
    assert isinstance(how.type, StructType)
    assert how.type.fieldNames() == ["old", "y"]
    assert read(spark, wanted, found, "named_struct('old', 1, 'y', 'a')") == ("struct<x:bigint,y:string>", (1, "a"))
    # A NULL struct stays NULL.
    assert read(spark, wanted, found, "NULL")[1] is None


def test_missing_field_of_a_struct_is_its_default(spark: SparkSession) -> None:
    x, y = column("STRUCT(x BIGINT, y VARCHAR)").children
    with_default = Column(y.field_id, "y", "varchar", nullable=True, initial_default="d")
    wanted = Column(1, "c", "struct", nullable=True, initial_default=None, children=(x, with_default))
    found = Found("c", None, "struct", (place(x), None))
    assert read(spark, wanted, found, "named_struct('x', 1)") == ("struct<x:bigint,y:string>", (1, "d"))
    assert read(spark, wanted, found, "NULL")[1] is None


def test_witness_shows_if_a_struct_without_requested_fields_is_null(spark: SparkSession) -> None:
    wanted = column("STRUCT(x BIGINT)")
    nothing = Found("c", None, "struct", (None,))
    assert reading(wanted, nothing) is None
    assert reading(wanted, Found("c", None, "struct", (None,), Found("w", 9, "INT32 TIME(MILLIS,false)"))) is None
    for stored, type_name in (("int32", "int"), ("uuid", "binary")):
        found = Found("c", None, "struct", (None,), Found("w", 9, stored))
        how = reading(wanted, found)
        assert how is not None
        assert how.type.simpleString() == f"struct<w:{type_name}>"
        assert isinstance(how.type, StructType)
        assert how.type["w"].metadata == {"parquet.field.id": 9}
        assert read(spark, wanted, found, "named_struct('w', NULL)") == ("struct<x:bigint>", (None,))
        assert read(spark, wanted, found, "NULL")[1] is None


@pytest.mark.parametrize("type_name", ["STRUCT(x BIGINT)", "BIGINT[]", "MAP(BIGINT, INTEGER)", "MAP(INTEGER, BIGINT)"])
def test_nested_value_that_spark_cannot_convert_is_not_read(type_name: str) -> None:
    wanted = column(type_name)
    bad = dict.fromkeys(("x", "element", "key", "value"), "varchar")
    assert reading(wanted, place(wanted, bad)) is None
    assert reading(column("STRUCT(s STRUCT(x BIGINT))"), place(column("STRUCT(s STRUCT(x BIGINT))"), bad)) is None


def test_list_or_map_without_its_elements_is_not_read() -> None:
    element, key = Found("element", None, "int64"), Found("key", None, "int64")
    assert reading(column("BIGINT[]"), Found("c", None, "list", (None,))) is None
    assert reading(column("BIGINT[]"), Found("c", None, "list", ())) is None
    assert reading(column("BIGINT[]"), Found("c", None, "list", (element,))) is not None
    assert reading(column("MAP(BIGINT, BIGINT)"), Found("c", None, "map", (key,))) is None
    assert reading(column("MAP(BIGINT, BIGINT)"), Found("c", None, "map", (key, None))) is None
