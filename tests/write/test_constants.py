"""Python values as SQL: a value that its column would change is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import numpy as np
import pytest

from lakeconf.errors import SchemaError
from lakeconf.write.ddl import constant

TWO_HOURS = dt.timezone(dt.timedelta(hours=2))


def test_constant_has_its_type() -> None:
    assert constant(None, "DATE") == "NULL"
    assert constant("it's", "VARCHAR") == "CAST('it''s' AS VARCHAR)"
    assert constant(dt.date(2026, 1, 31), "DATE") == "CAST('2026-01-31' AS DATE)"
    with pytest.raises(SchemaError, match=r"the value contains \{SNAPSHOT_ID\}"):
        constant("{SNAPSHOT_ID}", "VARCHAR")


@pytest.mark.parametrize(
    ("value", "type_name", "expected"),
    [
        (b"\x00a'\xff", "BLOB", b"\x00a'\xff"),
        (["a", None, "it's, b", ""], "VARCHAR[]", ["a", None, "it's, b", ""]),
        ([[1], None], "INTEGER[][]", [[1], None]),
        ({"A": None}, "STRUCT(a VARCHAR, b INTEGER)", {"a": None, "b": None}),
        ({"a": 1, "b": None}, "MAP(VARCHAR, INTEGER)", {"a": 1, "b": None}),
        (dt.timedelta(hours=1, milliseconds=5), "INTERVAL", dt.timedelta(hours=1, milliseconds=5)),
        (dt.datetime(2026, 1, 1, 5), "TIMESTAMP_S", dt.datetime(2026, 1, 1, 5)),
        (Decimal("1.500"), "DECIMAL(10, 2)", Decimal("1.50")),
        (10**35, "DECIMAL(38, 2)", Decimal(10**35)),
        (1.0, "BIGINT", 1),
        (0.5, "FLOAT", 0.5),
        (float("inf"), "FLOAT", float("inf")),
        (2**53, "HUGEINT", 2**53),
        (7, "VARIANT", 7),
        (True, "BOOLEAN", True),
        ("[1, 2]", "INTEGER[]", [1, 2]),
    ],
)
def test_constant_is_the_value(value: object, type_name: str, expected: object) -> None:
    with duckdb.default_connection().cursor() as cursor:
        assert cursor.execute(f"SELECT {constant(value, type_name)}").fetchone() == (expected,)


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (2**53 + 1, "HUGEINT"),
        (10**30 + 1, "HUGEINT"),
        (2**53 + 1, "DOUBLE"),
        (1e300, "FLOAT"),
        ("1e400", "DOUBLE"),
        (1.6, "TINYINT"),
        ("1.6", "BIGINT"),
        (Decimal("1.005"), "DECIMAL(10, 2)"),
        (b"a", "VARCHAR"),
        (dt.datetime(2026, 1, 1, 5), "DATE"),
        ("2026-01-01 05:00:00", "DATE"),
        (dt.datetime(2026, 1, 1, 5, tzinfo=TWO_HOURS), "TIMESTAMP"),
        ("2026-01-01 05:00:00+02", "TIMESTAMP"),
        (dt.datetime(2026, 1, 1, 5), "TIMESTAMPTZ"),
        (dt.datetime(2026, 1, 1, 5), "TIME"),
        (dt.time(5, tzinfo=TWO_HOURS), "TIME"),
        (dt.datetime(2026, 1, 1, 5, 0, 0, 5), "TIMESTAMP_MS"),
        ("05:00:00.1234567", "TIME"),
        (dt.timedelta(microseconds=1), "INTERVAL"),
        (dt.timedelta(days=50), "INTERVAL"),
        ("3000 hours", "INTERVAL"),
        ([None], "VARCHAR"),
        ({"a": 1}, "JSON"),
        ({"c": 1}, "STRUCT(a INTEGER)"),
        (np.array(["a", "b"]), "VARCHAR[]"),
        ([1.6], "INTEGER[]"),
    ],
)
def test_value_that_its_column_would_change_is_refused(value: object, type_name: str) -> None:
    with pytest.raises(SchemaError, match=r"cannot hold .* exactly"):
        constant(value, type_name)
