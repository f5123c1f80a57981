"""What cannot be replaced with the ids of its rows, and the table that a replacement reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plain_sql import run_plain

from lakeconf.lake.rewriting import newest, replacement_refusal

if TYPE_CHECKING:
    from lakeconf import Lake


def refusal(lake: Lake, name: str = "t", *, encrypted: bool = False) -> str | None:
    session = lake._session
    return replacement_refusal(session, newest(session, name), session.snapshot_id, encrypted=encrypted)


def test_tables_whose_ids_cannot_be_kept_are_refused(two_tables: Lake) -> None:
    lake = two_tables
    assert refusal(lake) is None
    assert refusal(lake, encrypted=True) == "the files are encrypted"
    run_plain(lake, "CREATE TABLE hides (rowid BIGINT)")
    assert refusal(lake, "hides") == "a column hides the row ids"
    lake._session.committer = "staged"
    assert refusal(lake) is None
    lake._session.committer = "public"
    assert refusal(lake) == "the store's committer is public, which cannot register row ids"
