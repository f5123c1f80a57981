"""Predicates as data: their columns, and their SQL in DuckDB's dialect."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import pytest

from lakeconf.catalog.pruning.predicates import (
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    StartsWith,
    certainly,
    to_duckdb_sql,
    value_sql,
)
from lakeconf.catalog.tables import Column

if TYPE_CHECKING:
    from lakeconf.catalog.pruning.predicates import Predicate, Value


def column(name: str, type_name: str, field_id: int = 1, *, former: str = "", later: str = "") -> Column:
    return Column(
        field_id,
        name,
        type_name,
        nullable=True,
        initial_default=None,
        former_types=(former,) if former else (),
        later_types=(later,) if later else (),
    )


A, S = column("a", "int32"), column("s", "varchar", 2)


@pytest.mark.parametrize(
    ("wrapped", "plain"),
    [
        (column("a", "float64"), column("a", "decimal(9,2)")),
        (column("a", "float32"), column("a", "varchar")),
        (column("a", "blob"), column("a", "uuid")),
        (column("a", "timestamp", former="date"), column("a", "timestamp")),
        (column("a", "date", later="timestamp"), column("a", "date")),
        (column("a", "decimal(9,2)", former="int32"), column("a", "int64", former="int32")),
        (column("a", "float64", former="float32"), column("a", "int16", later="uint64")),
    ],
)
def test_column_that_duckdb_may_misread_in_files_is_wrapped(wrapped: Column, plain: Column) -> None:
    case = 'CASE WHEN "a" IS NOT NULL THEN "a" END'
    assert to_duckdb_sql(In(wrapped, (1,))).startswith(f"({case} IN (")
    assert to_duckdb_sql(Comparison(wrapped, "=", 1)).startswith(f"({case} = ")
    assert to_duckdb_sql(IsNull(wrapped)) == '("a" IS NULL)'
    assert to_duckdb_sql(Comparison(plain, "=", 1)).startswith('("a" = ')


def test_wrapped_column_can_be_tested_for_a_prefix() -> None:
    promoted = column("s", "varchar", former="json")
    sql = to_duckdb_sql(StartsWith(promoted, "x"))
    assert sql == """starts_with(CASE WHEN "s" IS NOT NULL THEN "s" END, CAST('x' AS VARCHAR))"""
    found = duckdb.connect().execute(f"SELECT {sql} FROM (VALUES ('xy'), ('y'), (NULL)) AS t(s)").fetchall()
    assert found == [(True,), (False,), (None,)]


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (True, "boolean"),
        (-128, "int8"),
        (2**127 - 1, "int128"),
        (Decimal("-99.99"), "decimal(4,2)"),
        (0.1, "float64"),
        (float("-inf"), "float64"),
        ("", "varchar"),
        ("it's \0 \\ é", "varchar"),
        (b"", "blob"),
        (bytes(range(256)), "blob"),
        (date(9999, 12, 31), "date"),
        (datetime(2026, 1, 31, 12, 0, 0, 1), "timestamp"),
        (datetime(2026, 1, 31, 12), "timestamp_s"),
        (datetime(2026, 1, 31, 12), "timestamp_ns"),
    ],
)
def test_duckdb_reads_the_same_value(value: Value, type_name: str) -> None:
    assert duckdb.connect().execute(f"SELECT {value_sql(value, type_name)}").fetchall() == [(value,)]


def test_time_in_utc_keeps_its_offset() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    same = f"SELECT {value_sql(noon, 'timestamptz')} = TIMESTAMPTZ '2026-01-31 14:00:00+02'"
    assert duckdb.connect().execute(same).fetchall() == [(True,)]


BOTH = (column("b", "boolean", 1), column("c", "boolean", 2))
IS_B, IS_C = (Comparison(each, "=", value=True) for each in BOTH)


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    "predicate",
    [
        IS_B,
        Not(IS_B),
        IsNull(BOTH[0]),
        Not(IsNull(BOTH[0])),
        In(BOTH[0], (True,)),
        And((IS_B, IS_C)),
        Or((IS_B, IS_C)),
        Not(And((IS_B, Not(IS_C)))),
        Or((And((IS_B, Not(IS_C))), Not(Or((IS_B, IsNull(BOTH[1])))))),
    ],
    ids=to_duckdb_sql,
)
def test_predicate_that_is_certainly_true_or_false_is_never_null(predicate: Predicate, value: bool) -> None:
    """The reference is DuckDB's IS TRUE and IS FALSE, for every pair of true, false and NULL."""
    word = "TRUE" if value else "FALSE"
    rows = "FROM (VALUES (true), (false), (NULL)) AS x(b), (VALUES (true), (false), (NULL)) AS y(c)"
    found, wanted = to_duckdb_sql(certainly(predicate, value=value)), f"({to_duckdb_sql(predicate)}) IS {word}"
    assert duckdb.sql(f"SELECT {found} {rows}").fetchall() == duckdb.sql(f"SELECT {wanted} {rows}").fetchall()
