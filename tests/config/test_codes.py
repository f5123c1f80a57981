"""The codes of problems: stable and unique. test_explain_code.py tests their explanations."""

from __future__ import annotations

from lakeconf.config.codes import Code


def test_codes_do_not_change() -> None:
    """Users ignore and search for them; this list only grows."""
    numbers = "001 002 003 004 010 011 012 013 020 021 022 023 030 031 032 040 041 050 051 052 053 054 055 056 057"
    warnings = "060 061 062 063 064"
    assert [code.code for code in Code] == [f"LC{number}" for number in f"{numbers} {warnings}".split()]
