"""What cannot be replaced with the ids of its rows, and the table that a replacement reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plain_sql import run_plain

from lakeconf.catalog.data_file import file_groups
from lakeconf.commit.scope import Scope
from lakeconf.engines.sorted_files import SortRequest
from lakeconf.errors import TableNotFoundError, UnsupportedError
from lakeconf.lake.rewriting import add_replacement, newest, replacement_refusal

if TYPE_CHECKING:
    from lakeconf import Lake
    from lakeconf.engines.engine import Engine


def refusal(lake: Lake, name: str = "t", *, encrypted: bool = False) -> str | None:
    session = lake._session
    return replacement_refusal(session, newest(session, name), session.snapshot_id, encrypted=encrypted)


def test_the_newest_table_is_read(two_tables: Lake) -> None:
    run_plain(two_tables, "ALTER TABLE t ADD COLUMN more INTEGER")
    assert [column.name for column in newest(two_tables._session, "t").columns] == ["id", "more"]
    assert two_tables.snapshot_id == 3
    run_plain(two_tables, "DROP TABLE t")
    with pytest.raises(TableNotFoundError):
        newest(two_tables._session, "t")


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


def test_engines_that_cannot_write_files_again_are_refused(two_tables: Lake) -> None:
    class Other:
        name = "other"

    run_plain(two_tables, "INSERT INTO t VALUES (1)")
    info, other = newest(two_tables._session, "t"), Other()
    version = two_tables.snapshot_id
    (group,) = file_groups(two_tables._session.reader, info, version)
    request = SortRequest(info, version, group, is_whole=True, keys=(), file_count=1, token="0a")
    transaction = Scope(two_tables._session).begin()
    engine: Engine = other  # type: ignore[assignment]
    with pytest.raises(UnsupportedError, match="the engine other cannot write files again"):
        add_replacement(transaction, engine, request)
    assert transaction.changes == []
