"""Conditions for values that a type would round."""

from __future__ import annotations

import duckdb
import pytest

from lakeconf.pipelines.file_rows import read_as, rounds


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("BIGINT", "VARCHAR"),
        ("DECIMAL(10,2)", "VARCHAR"),
        ("DATE", "VARCHAR"),
        ("TIMESTAMP", "VARCHAR"),
        ("DOUBLE", "DOUBLE"),
        ("BOOLEAN", "BOOLEAN"),
        ("BIGINT[]", "DOUBLE[]"),
        ('STRUCT(a DECIMAL(10,2), "INT" VARCHAR, b UTINYINT[])', 'STRUCT(a DOUBLE, "INT" VARCHAR, b DOUBLE[])'),
    ],
)
def test_values_are_read_with_all_their_digits(kind: str, expected: str) -> None:
    assert read_as(kind) == expected


@pytest.mark.parametrize(
    ("value", "given", "wanted", "expected"),
    [
        ("'2.70'", "VARCHAR", "DECIMAL(4,1)", False),
        ("'2.71'", "VARCHAR", "DECIMAL(4,1)", True),
        ("' -1e-1 '", "VARCHAR", "INTEGER", True),
        ("'10e-1'", "VARCHAR", "INTEGER", False),
        ("'.50'", "VARCHAR", "DECIMAL(4,1)", False),
        # The cast itself refuses a text that is no number.
        ("'a.55'", "VARCHAR", "DECIMAL(4,1)", False),
        ("NULL", "VARCHAR", "INTEGER", False),
        ("'2024-01-01 00:00'", "VARCHAR", "DATE", False),
        ("'2024-01-01 00:00:01'", "VARCHAR", "DATE", True),
        ("'12:00:00.1234567'", "VARCHAR", "TIME", True),
        ("'2024-01-01 00:00:00.5'", "VARCHAR", "TIMESTAMP_S", True),
        ("[9223372036854775807]", "DOUBLE[]", "BIGINT[]", False),
        ("[0.5]", "DOUBLE[]", "BIGINT[]", True),
        ("{'a': 2.555}", "STRUCT(a DOUBLE)", "STRUCT(a DECIMAL(10,2))", True),
        ("0.1", "DOUBLE", "FLOAT", True),
        ("NULL", "DOUBLE", "FLOAT", False),
    ],
)
def test_values_that_a_type_would_round(value: str, given: str, wanted: str, expected: bool) -> None:
    condition = rounds("v", given, wanted)
    assert duckdb.sql(f"SELECT {condition} FROM (SELECT CAST({value} AS {given}) AS v)").fetchall() == [(expected,)]


@pytest.mark.parametrize(("given", "wanted"), [("BIGINT", "BIGINT"), ("DOUBLE", "VARCHAR"), ("VARCHAR", "DOUBLE")])
def test_types_that_round_no_value(given: str, wanted: str) -> None:
    assert rounds("v", given, wanted) is None
