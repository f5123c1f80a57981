"""The recorded runs of models, and what later commits changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plain_sql import run_plain

from lakeconf.commit.journal import ModelRun
from lakeconf.errors import LakeconfError, SnapshotNotFoundError, TableNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store

RUN = ModelRun("main.t", "definition", "run", inputs={"main.u": 1}, files=("a.csv",))


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """A lake with the tables `t` and `u` at snapshot 2."""
    with store.open() as lake:
        for name in ("t", "u"):
            lake.create_table(name, {"id": "BIGINT"})
        yield lake


def test_recorded_runs_are_committed_with_their_transaction(lake: Lake) -> None:
    assert lake.runs.committed("main.t") == []
    with lake.transaction() as tx:
        tx.runs.record(RUN)
        assert tx.runs.committed("main.t") == []
    (found,) = lake.runs.committed("main.t")
    assert (found.model, found.definition, found.run, found.inputs) == ("main.t", "definition", "run", {"main.u": 1})
    assert lake.runs.committed("main.u") == []


def test_run_is_recorded_only_in_an_open_transaction(lake: Lake) -> None:
    with pytest.raises(LakeconfError) as caught:
        lake.runs.record(RUN)
    assert caught.value.message == "a model run must be recorded in a transaction"
    assert caught.value.hint == "with lake.transaction() as tx: …"
    with lake.transaction() as ended:
        pass
    with pytest.raises(LakeconfError, match="the transaction has ended"):
        ended.runs.record(RUN)
    assert lake.runs.committed("main.t") == []


def test_changes_since_a_snapshot_end_at_the_snapshot_of_the_lake(lake: Lake) -> None:
    run_plain(lake, "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)", "DELETE FROM t", "DROP TABLE u")
    assert lake.runs.changes_since("t", 0) == [1]
    assert lake.refresh() == 6
    assert lake.runs.changes_since("T", 0) == [1, 3, 5]
    assert lake.runs.changes_since("t", 3) == [5]
    assert lake.runs.changes_since("t", 6) == []
    assert lake.at(version=4).runs.changes_since("t", 0) == [1, 3]
    with pytest.raises(TableNotFoundError, match="no table"):
        lake.runs.changes_since("u", 0)
    assert lake.at(version=5).runs.changes_since("u", 2) == [4]
    run_plain(lake, "CALL ducklake_expire_snapshots('dev', versions => [4])")
    with pytest.raises(SnapshotNotFoundError, match="some of the snapshots after 3 have expired"):
        lake.runs.changes_since("t", 3)
    assert lake.runs.changes_since("t", 4) == [5]


def test_commit_info_of_a_lakeconf_commit(lake: Lake) -> None:
    with lake.transaction(extra={"batch": 7}) as tx:
        tx.table("t").append(lake.sql("SELECT 1 AS id"))
    info = lake.runs.commit_info(3)
    assert (info["engine"], info["rows"], info["extra"]) == ("duckdb", 1, {"batch": 7})
    with pytest.raises(SnapshotNotFoundError):
        lake.runs.commit_info(4)


@pytest.mark.parametrize(
    "info", [None, "", "text", "[1]", "7", "{not JSON", '{"a": 1', "null", "[" * 100_000], ids=repr
)
def test_commit_info_of_another_writer_is_empty(info: str | None, lake: Lake) -> None:
    text = "NULL" if info is None else f"'{info}'"
    message = f"CALL ducklake_set_commit_message('dev', NULL, NULL, extra_info => {text})"
    run_plain(lake, "BEGIN", "INSERT INTO t VALUES (1)", message, "COMMIT")
    assert lake.runs.commit_info(3) == {}
