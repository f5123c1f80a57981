"""Only an engine with executors sorts positions."""

from __future__ import annotations

from lakeconf.engines.base import FILE_ID, FILE_ROW_NUMBER, FILENAME, POSITION_TYPES, PositionEngine
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.schema_check import RESERVED


def test_duckdb_sorts_no_positions() -> None:
    assert not issubclass(DuckDBEngine, PositionEngine)


def test_names_of_columns_are_reserved() -> None:
    assert list(POSITION_TYPES) == [FILENAME, FILE_ID, FILE_ROW_NUMBER]
    assert all(name.startswith(RESERVED) for name in POSITION_TYPES)
