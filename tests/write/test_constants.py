"""Python values as SQL."""

from __future__ import annotations

import datetime as dt

import pytest

from lakeconf.errors import SchemaError
from lakeconf.write.constants import constant


def test_constant_has_its_type() -> None:
    assert constant(None, "DATE") == "NULL"
    assert constant("it's", "VARCHAR") == "CAST('it''s' AS VARCHAR)"
    assert constant(dt.date(2026, 1, 31), "DATE") == "CAST('2026-01-31' AS DATE)"
    with pytest.raises(SchemaError, match=r"the value contains \{SNAPSHOT_ID\}"):
        constant("{SNAPSHOT_ID}", "VARCHAR")


@pytest.mark.parametrize("value", [2**53 + 1, 10**30 + 1])
def test_huge_integer_that_a_file_would_round_is_refused(value: int) -> None:
    assert constant(2**53, "HUGEINT") == "CAST('9007199254740992' AS HUGEINT)"
    with pytest.raises(SchemaError, match=f"files would round the value {value} of the type HUGEINT"):
        constant(value, "HUGEINT")
