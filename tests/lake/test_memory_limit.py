"""DuckDB's memory is limited inside a block only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.errors import LakeconfError
from lakeconf.lake.limits import limited_memory

if TYPE_CHECKING:
    from lakeconf import Lake

SETTING = "SELECT system.main.current_setting('memory_limit')"


@pytest.mark.parametrize(("given", "of_the_store"), [("1GiB", None), (None, "1GiB"), ("1GiB", "2GiB")])
def test_limit_holds_in_the_block(two_tables: Lake, given: str | None, of_the_store: str | None) -> None:
    session = two_tables._session
    before = session.writer.rows(SETTING)
    session.memory_limit = of_the_store
    with limited_memory(session, given):
        assert session.writer.rows(SETTING) == [("1.0 GiB",)]
    assert session.writer.rows(SETTING) == before


def test_no_limit_changes_nothing(two_tables: Lake) -> None:
    session = two_tables._session
    before = session.writer.rows(SETTING)
    with limited_memory(session, None):
        assert session.writer.rows(SETTING) == before


def test_limit_that_is_no_size_is_refused(two_tables: Lake) -> None:
    session = two_tables._session
    before = session.writer.rows(SETTING)
    with pytest.raises(LakeconfError, match="the memory_limit 'much' is not a size"), limited_memory(session, "much"):
        pytest.fail("the block ran")
    assert session.writer.rows(SETTING) == before
