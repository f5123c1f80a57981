"""Statements that are tried leave no trace, also if one of them fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from local_stores import store_of

from lakeconf.commit.session import described
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from pathlib import Path


def test_columns_after_statements_that_are_rolled_back(tmp_path: Path) -> None:
    with store_of(tmp_path).open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
        before, session = lake.snapshot_id, lake._session
        added = ("ALTER TABLE dev.t ADD COLUMN s VARCHAR", "CREATE TABLE dev.other (n INTEGER NOT NULL)")
        assert described(session, added, "dev.t") == [("id", "BIGINT", True), ("s", "VARCHAR", True)]
        assert described(session, added, "dev.other") == [("n", "INTEGER", False)]
        with pytest.raises(LakeconfError, match="zzz"):
            described(session, ("ALTER TABLE dev.t DROP COLUMN zzz",), "dev.t")
        assert described(session, (), "dev.t") == [("id", "BIGINT", True)]
        assert lake.refresh() == before
