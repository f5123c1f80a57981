"""DuckDB's types of values, and their names in Spark."""

from __future__ import annotations

import pytest
from sqlglot import exp

from lakeconf.engines.spark.sql.value_types import ValueType, spark_cast, spark_name, value_type


@pytest.mark.parametrize(
    ("name", "found", "spark"),
    [
        ("TINYINT", ValueType("TINYINT", 3), "TINYINT"),
        ("INTEGER", ValueType("INTEGER", 10), "INT"),
        ("HUGEINT", ValueType("HUGEINT", 19), "BIGINT"),
        ("DECIMAL(15,2)", ValueType("DECIMAL(15,2)", 15, 2), "DECIMAL(15,2)"),
        ("VARCHAR", ValueType("VARCHAR"), "STRING"),
        ("TIMESTAMP", ValueType("TIMESTAMP"), "TIMESTAMP_NTZ"),
        ("TIMESTAMP WITH TIME ZONE", ValueType("TIMESTAMP WITH TIME ZONE"), "TIMESTAMP_LTZ"),
        ("UINTEGER", ValueType("UINTEGER", 10), "BIGINT"),
        ("UBIGINT", ValueType("UBIGINT", 20), "DECIMAL(20,0)"),
        ('"NULL"', ValueType('"NULL"'), "VOID"),
    ],
)
def test_type_has_its_digits_and_its_name_in_spark(name: str, found: ValueType, spark: str) -> None:
    assert value_type(name) == found
    assert found.is_known
    assert spark_name(found) == spark


@pytest.mark.parametrize("name", ["UUID", "TIME", "STRUCT(a INTEGER)", "INTEGER[]", "INTERVAL", "UHUGEINT", "JSON"])
def test_other_types_are_unknown(name: str) -> None:
    assert not value_type(name).is_known
    assert not value_type(name).is_number


def test_kinds_of_numbers() -> None:
    integer, decimal, double = map(value_type, ("BIGINT", "DECIMAL(4,1)", "DOUBLE"))
    assert [one.is_integer for one in (integer, decimal, double)] == [True, False, False]
    assert [one.is_decimal for one in (integer, decimal, double)] == [False, True, False]
    assert [one.is_exact for one in (integer, decimal, double)] == [True, True, False]
    assert all(one.is_number for one in (integer, decimal, double))
    assert not value_type("BOOLEAN").is_number


def test_cast_has_the_type_of_spark() -> None:
    value = exp.Literal.number(1)
    assert spark_cast(value, value_type("TIMESTAMP")).sql(dialect="spark") == "CAST(1 AS TIMESTAMP_NTZ)"
    assert spark_cast(value, value_type("VARCHAR")).sql(dialect="spark") == "CAST(1 AS STRING)"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("STRUCT(a INTEGER, b DECIMAL(9,2)[])", True),
        ("INTEGER[]", True),
        ("STRUCT(a UUID)", False),
        ("MAP(INTEGER, VARCHAR)", False),
        ("DATE", True),
        ("JSON", False),
    ],
)
def test_nested_values_can_be_compared_for_equality(name: str, *, found: bool) -> None:
    assert value_type(name).is_equatable is found
