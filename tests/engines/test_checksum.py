"""Fingerprints of columns depend on their values only, and can be summed over parts of the rows."""

from __future__ import annotations

import duckdb
import pytest

from lakeconf.engines.engine import ColumnCheck, Fingerprint, fingerprint_sql, fingerprints

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


def test_fingerprint_is_the_number_of_values_and_the_sum_of_their_hashes() -> None:
    with duckdb.default_connection().cursor() as con:
        hashes = con.execute("SELECT md5_number_lower('1'), md5_number_lower('2'), md5_number_lower('3')").fetchone()
        text = con.execute("SELECT md5_number_lower('ab') + md5_number_lower('b')::HUGEINT").fetchone()
    assert hashes is not None
    assert text is not None
    assert fingerprints(row_of(ROWS)) == (3, [Fingerprint(3, sum(hashes)), Fingerprint(2, text[0])])


def test_fingerprint_of_no_rows_and_of_no_columns() -> None:
    assert fingerprints(row_of(f"(FROM {ROWS} WHERE c0 > 3)")) == (0, [Fingerprint(0, 0), Fingerprint(0, 0)])
    assert fingerprints(row_of(ROWS, columns=0)) == (3, [])


def test_fingerprints_of_parts_add_up_to_that_of_the_whole() -> None:
    parts = [row_of(f"(FROM {ROWS} WHERE c0 % 2 = {rest})") for rest in (0, 1)]
    assert fingerprints([sum(values) for values in zip(*parts, strict=True)]) == fingerprints(row_of(ROWS))


def test_fingerprint_holds_sums_above_64_bits() -> None:
    count, (numbers,) = fingerprints(row_of("(SELECT i AS c0 FROM range(1000) r(i))", columns=1))
    assert (count, numbers.values) == (1000, 1000)
    assert numbers.hash > 1 << 64


@pytest.mark.parametrize("row", [(3, 1), (3, 1, 2, 3)])
def test_incomplete_row_is_rejected(row: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="zip"):
        fingerprints(row)


@pytest.mark.parametrize(
    ("by_spark", "equal"), [(Fingerprint(2, 7), True), (Fingerprint(1, 7), False), (Fingerprint(2, 8), False)]
)
def test_columns_are_equal_if_both_engines_read_the_same_values(by_spark: Fingerprint, equal: bool) -> None:
    check = ColumnCheck("a", "int32", Fingerprint(2, 7), by_spark)
    assert (check.equal, check.is_hashed) == (equal, True)
