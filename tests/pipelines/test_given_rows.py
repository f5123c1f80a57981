"""Rows of the configuration as SQL, in a temporary lake."""

from __future__ import annotations

import math
import tempfile
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from lakeconf.errors import PipelineError, SchemaError
from lakeconf.pipelines.models.declared import empty_lake
from lakeconf.pipelines.models.unit_tests import rows_sql

if TYPE_CHECKING:
    from pathlib import Path


def read(
    rows: list[dict[str, Any]], types: dict[str, str] | None = None
) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        relation = connection.sql(rows_sql(rows, types or {}))
        return dict(zip(relation.columns, map(str, relation.types), strict=True)), relation.fetchall()


def test_type_follows_the_value() -> None:
    values: list[tuple[Any, str]] = [
        (True, "BOOLEAN"),
        (-5, "BIGINT"),
        (2**63, "HUGEINT"),
        (0.1, "DOUBLE"),
        (math.inf, "DOUBLE"),
        ("it's '; DROP", "VARCHAR"),
        ("", "VARCHAR"),
        (date(2024, 2, 29), "DATE"),
        (datetime(2024, 2, 29, 1, 2, 3, 4), "TIMESTAMP"),
        (datetime(2024, 2, 29, 1, 2, tzinfo=UTC), "TIMESTAMP WITH TIME ZONE"),
        (time(1, 2, 3), "TIME"),
        ([1, 2], "BIGINT[]"),
        ({"a": 1, "it's": [date(2024, 1, 1)]}, 'STRUCT(a BIGINT, "it\'s" DATE[])'),
    ]
    row = {f'odd "name"; -- {number}': value for number, (value, _) in enumerate(values)}
    types, rows = read([row], {"other": "INTEGER"})
    assert types == {"other": "INTEGER", **dict(zip(row, (kind for _, kind in values), strict=True))}
    assert rows == [(None, *row.values())]


def test_missing_keys_are_null_and_names_ignore_case() -> None:
    assert read([{"a": 1}, {"A": 2, "b": "x"}, {}]) == (
        {"a": "BIGINT", "b": "VARCHAR"},
        [(1, None), (2, "x"), (None, None)],
    )
    with pytest.raises(PipelineError, match="has the column 'A' twice"):
        rows_sql([{"a": 1, "A": 2}], {})


def test_declared_types_are_exact() -> None:
    types = {"price": "decimal(38, 20)", "id": "UUID", "at": "TIMESTAMP_NS", "s": "STRUCT(a TINYINT, b VARCHAR)[]"}
    rows = [
        {"price": "0.12345678901234567890", "id": "00000000-0000-0000-0000-000000000001", "s": [{"a": 1, "b": "x"}]}
    ]
    found, values = read(rows, types)
    assert found["price"] == "DECIMAL(38,20)"
    assert values[0][0] == Decimal("0.12345678901234567890")
    assert values[0][3] == [{"a": 1, "b": "x"}]
    assert read([{"price": 9.99}], {"PRICE": "DECIMAL(10,2)"})[1] == [(Decimal("9.99"),)]
    for kind in ("BIGINT) AS x, (SELECT 1", "NOPE", ""):
        with pytest.raises(SchemaError):
            rows_sql([{"a": 1}], {"a": kind})


def test_numbers_and_times_of_two_types_have_the_wider_one() -> None:
    types, _ = read([{"n": 1, "t": date(2024, 1, 1)}, {"n": 0.5, "t": datetime(2024, 1, 1)}])
    assert types == {"n": "DOUBLE", "t": "TIMESTAMP"}


def test_table_without_rows_has_the_declared_columns() -> None:
    assert read([], {"id": "BIGINT", "day": "DATE"}) == ({"id": "BIGINT", "day": "DATE"}, [])
    with pytest.raises(PipelineError, match="without rows are unknown"):
        rows_sql([], {})


def test_empty_lake_has_no_tables_and_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with empty_lake("dev", alias="other") as lake:
        assert repr(lake).startswith("Lake('other' at snapshot 0")
        assert (lake.tables(), lake.runs.committed("raw.t")) == ([], [])
        lake.create_table("raw.t", {"id": "BIGINT"})
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
