"""TOML values that lakeconf writes parse to the same values."""

from __future__ import annotations

import datetime as dt
import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeconf.config.toml_text import toml_value

TEXTS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(value=VALUES)
def test_written_value_is_read_back(value: object) -> None:
    assert tomllib.loads(f"key = {toml_value(value)}") == {"key": value}


@pytest.mark.parametrize(
    "value", ["\x7f", {"\x7f": 1}, "\u2028", 'a "b" \\ c', dt.datetime(2024, 1, 2, 3, 4, 5), -math.inf]
)
def test_values_that_json_writes_differently(value: object) -> None:
    assert tomllib.loads(f"key = {toml_value(value)}")["key"] == value


def test_nan() -> None:
    assert math.isnan(tomllib.loads(f"key = {toml_value(math.nan)}")["key"])
