"""Texts and values in files that DuckDB would guess, lose or round."""

from __future__ import annotations

import duckdb
import pytest

from lakeconf.pipelines.file_rows import is_guessed

ZONED = "TIMESTAMP WITH TIME ZONE"


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("2024-01-02", "DATE", False),
        (" 2024-1-2", "DATE", False),
        ("2024/01/02", "DATE", False),
        ("12024-01-02", "DATE", False),
        ("0044-03-15 (BC)", "DATE", False),
        ("-infinity", "DATE", False),
        ("Infinity", ZONED, False),
        ("epoch", "TIMESTAMP", False),
        ("2024-01-02T03:04:05.123+01:00", ZONED, False),
        ("2024-01-02 03:04:05 Europe/Berlin", ZONED, False),
        (None, ZONED, False),
        ("03/04/2024", "DATE", True),
        ("   1-02-2024", "DATE", True),
        ("24/01/02", "DATE", True),
        ("24-01-02", "TIMESTAMP", True),
        ("01.02.2024 10:00", "TIMESTAMP", True),
        ("2024", "TIMESTAMP_S", True),
        ("20240102", "TIMESTAMP_NS", True),
        ("03/04/2024", ZONED, True),
        ("2024-13-01", ZONED, True),
        ("x", "TIME WITH TIME ZONE", True),
        ("10:00:00+01", "TIME WITH TIME ZONE", False),
    ],
)
def test_text_without_a_date_in_iso_8601_is_guessed(text: str | None, wanted: str, expected: bool) -> None:
    condition = is_guessed("v", "VARCHAR", wanted)
    found = duckdb.execute(f"SELECT {condition} FROM (SELECT CAST(? AS VARCHAR) AS v)", [text]).fetchall()
    assert found == [(expected,)]
