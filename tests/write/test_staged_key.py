"""A staged commit records the key of its write in the same snapshot, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lake_parts import session_of
from local_stores import store_of
from plain_sql import plain_rows, run_plain
from staged_changes import COLUMNS, staged, with_key

from lakeconf.write.capabilities import key_obstacle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake

ROW = "SELECT * REPLACE ('t' AS token, 'k' AS idempotency_key, committed_at < now() AS committed_at)"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with store_of(tmp_path).open() as lake:
        lake.create_table("t", COLUMNS)
        run_plain(lake, "INSERT INTO t SELECT i, 'old' FROM range(9) AS r(i)")
        lake.refresh()
        yield lake


@pytest.fixture
def keyed(lake: Lake) -> Lake:
    """The lake after a write with the key `first`."""
    lake.table("t").delete("id = 8", idempotency_key="first")
    return lake


def test_key_is_recorded_like_that_of_other_writes(keyed: Lake) -> None:
    before = keyed.snapshot_id
    made = with_key(keyed, staged(keyed, {4: "new"}), "it's").commit()
    assert made == before + 1
    assert keyed.table("t").idempotency_keys() == ["first", "it's"]
    assert keyed.table("t").delete("id >= 0", idempotency_key="it's") == made
    first, staged_row = plain_rows(keyed, f"{ROW} FROM dev.lakeconf.commits")
    assert staged_row == first


def test_key_that_was_committed_meanwhile_skips_the_write(keyed: Lake) -> None:
    late = with_key(keyed, staged(keyed, {4: "late"}), "k")
    made = with_key(keyed, staged(keyed, {4: "new"}), "k").commit()
    assert late.commit() == made
    assert plain_rows(keyed, "SELECT name FROM dev.t WHERE id = 4") == [("new",)]


def test_key_survives_maintenance(keyed: Lake) -> None:
    made = with_key(keyed, staged(keyed, {4: "new"}), "k").commit()
    run_plain(keyed, "CALL ducklake_flush_inlined_data('dev')", "CALL ducklake_merge_adjacent_files('dev')")
    keyed.refresh()
    assert keyed.table("t").idempotency_keys() == ["first", "k"]
    assert keyed.table("t").delete("id >= 0", idempotency_key="k") == made


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DROP TABLE lakeconf.commits", "the lake does not have the table lakeconf.commits yet"),
        ("ALTER TABLE lakeconf.commits SET PARTITIONED BY (token)", "the partitions of lakeconf.commits"),
    ],
)
def test_table_of_keys_that_needs_statements(keyed: Lake, statement: str, reason: str) -> None:
    run_plain(keyed, statement)
    keyed.refresh()
    assert key_obstacle(session_of(keyed), keyed.snapshot_id) == reason
