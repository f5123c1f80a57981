"""Types that a column accepts, and fingerprints of columns."""

from __future__ import annotations

import duckdb
import pytest

from lakeconf.engines.engine import fingerprint_sql, fingerprints
from lakeconf.engines.schema_check import check_distinct, check_fit, fits
from lakeconf.errors import SchemaError

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


@pytest.mark.parametrize(("given", "wanted"), FITS + LOSE)
def test_fits_accepts_types_without_silent_loss(given: str, wanted: str) -> None:
    assert fits(duckdb.sqltype(given), duckdb.sqltype(wanted)) is ((given, wanted) in FITS)


@pytest.mark.parametrize("names", [["id", "n", "id"], ["id", "ID"]])
def test_columns_with_the_same_name_are_refused(names: list[str]) -> None:
    with pytest.raises(SchemaError, match="the frame has two columns") as caught:
        check_distinct(names)
    assert caught.value.hint == "rename one of them"
    check_distinct(names[:1])


def test_no_rows_are_written_to_a_column_that_files_cannot_store() -> None:
    with pytest.raises(SchemaError, match="files cannot store the column 'at' of the type TIME_NS"):
        check_fit("raw.t", {"at": "TIME_NS"}, {"at": "TIME_NS"})


ROWS = "(SELECT * FROM (VALUES (1, 'ab'), (2, 'b'), (3, NULL)) AS v (c0, c1))"


def row_of(source: str, columns: int = 2) -> tuple[int, ...]:
    with duckdb.default_connection().cursor() as con:
        found = con.execute(fingerprint_sql(columns, source)).fetchall()
    (row,) = found
    return tuple(row)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("SELECT * FROM rows ORDER BY c0 DESC", True),
        ("SELECT c0 + 1 AS c0, c1 FROM rows", False),
        ("SELECT c0, CASE WHEN c1 <> 'b' THEN c1 END AS c1 FROM rows", False),
        ("SELECT c0, coalesce(c1, '') AS c1 FROM rows", False),
        ("SELECT c0, reverse(c1) AS c1 FROM rows", False),
        ("FROM rows UNION ALL FROM rows", False),
    ],
)
def test_fingerprint_depends_on_values_and_not_on_their_order(change: str, same: bool) -> None:
    changed = row_of(f"(WITH rows AS (FROM {ROWS}) {change})")
    assert (fingerprints(changed) == fingerprints(row_of(ROWS))) is same


def test_fingerprints_of_parts_add_up_to_that_of_the_whole() -> None:
    parts = [row_of(f"(FROM {ROWS} WHERE c0 % 2 = {rest})") for rest in (0, 1)]
    assert fingerprints([sum(values) for values in zip(*parts, strict=True)]) == fingerprints(row_of(ROWS))


def test_fingerprint_holds_sums_above_64_bits() -> None:
    count, (numbers,) = fingerprints(row_of("(SELECT i AS c0 FROM range(1000) r(i))", columns=1))
    assert (count, numbers.values) == (1000, 1000)
    assert numbers.hash > 1 << 64
