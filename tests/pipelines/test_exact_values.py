"""Values of DuckDB that Python cannot represent, at the top and inside other values."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from lakeconf.pipelines.row_comparison import MapValue, exact_sql, exact_value

NAME = 'odd "name"'


def read(expression: str) -> Any:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Kolkata'")
        relation = connection.sql(f"""SELECT {expression} AS "odd ""name\"\"\"""")
        (kind,) = relation.types
        ((value,),) = relation.select(duckdb.SQLExpression(exact_sql(NAME, kind))).fetchall()
        return exact_value(value, kind)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0.1::FLOAT", 0.1),
        ("'-inf'::FLOAT", -math.inf),
        ("TIMESTAMP '2024-01-01 01:02:03.5'", datetime(2024, 1, 1, 1, 2, 3, 500_000)),
        ("TIMESTAMP_NS '2024-01-01 00:00:00.123456'", datetime(2024, 1, 1, 0, 0, 0, 123_456)),
        ("TIMESTAMP_NS '2024-01-01 00:00:00.000000001'", "2024-01-01 00:00:00.000000001"),
        ("TIMESTAMP_S '2024-01-01'", datetime(2024, 1, 1)),
        ("TIMESTAMP_MS '2024-01-01'", datetime(2024, 1, 1)),
        ("TIMESTAMPTZ '2024-01-01 02:00:00+02'", datetime(2024, 1, 1, tzinfo=UTC)),
        ("TIMESTAMPTZ '-infinity'", "-infinity"),
        ("TIMESTAMP '290000-01-01'", "290000-01-01 00:00:00"),
        ("DATE '2024-02-29'", date(2024, 2, 29)),
        ("DATE 'infinity'", "infinity"),
        ("DATE '-2000-01-01'", "2001-01-01 (BC)"),
        ("NULL::FLOAT", None),
        ("[0.1::FLOAT, NULL]", [0.1, None]),
        ("[0.1, 0.2]::FLOAT[2]", [0.1, 0.2]),
        (
            "{'x': TIMESTAMP_NS '2024-01-01 00:00:00.000000001', 'y \"': [DATE 'infinity'], 'z': 1::DECIMAL(10, 2)}",
            {"x": "2024-01-01 00:00:00.000000001", 'y "': ["infinity"], "z": Decimal(1)},
        ),
        ("MAP{DATE '2024-01-01': [0.1::FLOAT], DATE 'infinity': NULL}", {date(2024, 1, 1): [0.1], "infinity": None}),
        ("{'a': 'x'::ENUM('x', 'it''s'), 'f': 1::FLOAT}", {"a": "x", "f": 1.0}),
        ("[union_value(k := 1)]", [1]),
        ("row(1, 'x')", (1, "x")),
        ("MAP{{'a': 1}: 2}", {"key": [{"a": 1}], "value": [2]}),
        ("[MAP{[1::FLOAT]: 2::FLOAT}]", [{"key": [[1.0]], "value": [2.0]}]),
        ("{'r': row(1), 'f': 1::FLOAT}", {"r": (1,), "f": 1.0}),
    ],
)
def test_value_is_exact(expression: str, value: Any) -> None:
    found = read(expression)
    assert (found, type(found) is MapValue) == (value, expression.startswith("MAP{DATE"))


def test_nan_is_a_number() -> None:
    assert math.isnan(read("'nan'::FLOAT"))
