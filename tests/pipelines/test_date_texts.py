"""Texts and values in files that DuckDB would guess, lose or round."""

from __future__ import annotations

import duckdb

from lakeconf.pipelines.file_values import is_guessed

ZONED = "TIMESTAMP WITH TIME ZONE"


def test_text_without_a_date_in_iso_8601_is_guessed() -> None:
    for wanted, text, expected in (
        *(("DATE", text, False) for text in ("2024-01-02", " 2024-1-2", "2024/01/02", "12024-01-02", "-infinity")),
        *(("DATE", text, True) for text in ("03/04/2024", "   1-02-2024", "24/01/02")),
        ("DATE", "0044-03-15 (BC)", False),
        ("TIMESTAMP", "epoch", False),
        *(("TIMESTAMP", text, True) for text in ("24-01-02", "01.02.2024 10:00")),
        *(("TIMESTAMP_S", "2024", True), ("TIMESTAMP_NS", "20240102", True)),
        *((ZONED, text, False) for text in ("Infinity", "2024-01-02T03:04:05.123+01:00", None)),
        (ZONED, "2024-01-02 03:04:05 Europe/Berlin", False),
        *((ZONED, text, True) for text in ("03/04/2024", "2024-13-01")),
        *(("TIME WITH TIME ZONE", "x", True), ("TIME WITH TIME ZONE", "10:00:00+01", False)),
    ):
        condition = is_guessed("v", "VARCHAR", wanted)
        found = duckdb.execute(f"SELECT {condition} FROM (SELECT CAST(? AS VARCHAR) AS v)", [text]).fetchall()
        assert found == [(expected,)], (wanted, text)
