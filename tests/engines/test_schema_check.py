"""Type compatibility: a column accepts a type only if no value can be changed without an error."""

from __future__ import annotations

import duckdb
import pytest

from lakeconf.engines.schema_check import fits

FITS = [
    *(("TINYINT", "BIGINT"), ("UINTEGER", "BIGINT"), ("BIGINT", "HUGEINT"), ("UTINYINT", "USMALLINT")),
    *(("INTEGER", "DOUBLE"), ("UINTEGER", "DOUBLE"), ("FLOAT", "DOUBLE"), ("SMALLINT", "FLOAT")),
    *(("DATE", "TIMESTAMP"), ("TIMESTAMP_S", "TIMESTAMP_MS"), ("UUID", "VARCHAR"), ("JSON", "VARCHAR")),
    *(("DECIMAL(9, 2)", "DECIMAL(10, 2)"), ("DECIMAL(9, 2)", "DECIMAL(11, 4)"), ("INTEGER", "DECIMAL(10, 0)")),
    *(
        ("INTEGER[]", "BIGINT[]"),
        ("STRUCT(a INTEGER)", "STRUCT(a BIGINT)"),
        ("MAP(DATE, DATE)", "MAP(DATE, TIMESTAMP)"),
    ),
    # A value that does not fit raises an error when it is written.
    *(
        ("DECIMAL(38, 2)", "DECIMAL(9, 2)"),
        ("HUGEINT", "BIGINT"),
        ("DECIMAL(38, 0)", "HUGEINT"),
        ("VARCHAR", "TIME"),
        ('"NULL"', "DATE"),
    ),
]
LOSE = [
    # The first lost value is the first integer that the target type cannot represent.
    *(("BIGINT", "DOUBLE"), ("UBIGINT", "DOUBLE"), ("INTEGER", "FLOAT"), ("UINTEGER", "FLOAT"), ("DOUBLE", "FLOAT")),
    *(("BIGINT", "INTEGER"), ("UBIGINT", "BIGINT"), ("UINTEGER", "INTEGER"), ("INTEGER", "UINTEGER")),
    *(("TINYINT", "UBIGINT"), ("HUGEINT", "UHUGEINT"), ("DOUBLE", "BIGINT"), ("BOOLEAN", "INTEGER")),
    *(("DECIMAL(9, 3)", "DECIMAL(10, 2)"), ("DECIMAL(9, 2)", "DECIMAL(10, 4)")),
    *(
        ("INTEGER", "DECIMAL(9, 0)"),
        ("INTEGER", "DECIMAL(10, 1)"),
        ("UINTEGER", "DECIMAL(9, 0)"),
        ("DOUBLE", "DECIMAL(38, 2)"),
    ),
    *(("TIMESTAMP", "DATE"), ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"), ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP")),
    *(
        ("TIMESTAMP_NS", "TIMESTAMP"),
        ("TIME_NS", "TIME"),
        ("VARCHAR", "BLOB"),
        ("INTEGER", "VARCHAR"),
        ("VARCHAR", "DATE"),
    ),
    *(("BIGINT[]", "INTEGER[]"), ("INTEGER", "INTEGER[]"), ("STRUCT(a BIGINT)", "STRUCT(a INTEGER)")),
    *(("STRUCT(a INTEGER, b INTEGER)", "STRUCT(a INTEGER)"), ("STRUCT(a INTEGER)", "STRUCT(a INTEGER, b INTEGER)")),
    *(("STRUCT(b INTEGER)", "STRUCT(a INTEGER)"), ("MAP(BIGINT, DATE)", "MAP(INTEGER, DATE)")),
    ("MAP(DATE, TIMESTAMP)", "MAP(DATE, DATE)"),
]


@pytest.mark.parametrize(("given", "wanted"), FITS)
def test_fits_accepts_types_without_silent_loss(given: str, wanted: str) -> None:
    assert fits(duckdb.sqltype(given), duckdb.sqltype(wanted))


@pytest.mark.parametrize(("given", "wanted"), LOSE)
def test_fits_rejects_types_that_lose_values(given: str, wanted: str) -> None:
    assert not fits(duckdb.sqltype(given), duckdb.sqltype(wanted))
