"""A lake, its transactions and its past versions share one session; refused writes; statements that are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakeconf.errors import LakeconfError
from lakeconf.lake.run_journal import ModelRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
        yield lake


def test_rejected_write_reports_the_reason(lake: Lake, store: Store) -> None:
    past = lake.at(version=1)
    with lake.transaction() as ended:
        pass
    with past.transaction() as in_the_past, pytest.raises(LakeconfError, match="the lake is pinned at snapshot 1"):
        in_the_past.table("t").delete("id = 1")
    for write in (lambda: past.table("t").delete("id = 1"), lambda: past.execute("DELETE FROM t")):
        with pytest.raises(LakeconfError, match="nothing can be written: the lake is pinned at snapshot 1"):
            write()
    with pytest.raises(LakeconfError, match="nothing can be written: the transaction has ended"):
        ended.table("t").delete("id = 1")
    with (
        store.open(read_only=True) as read_only,
        pytest.raises(LakeconfError, match="nothing can be written: the store 'dev' is read-only"),
    ):
        read_only.table("t").delete("id = 1")


def test_ended_transaction_rejects_audits_and_runs(lake: Lake) -> None:
    with lake.transaction() as ended:
        pass
    with pytest.raises(LakeconfError, match="the transaction has ended"):
        ended.audit("no rows", "FROM t")
    with pytest.raises(LakeconfError, match="the transaction has ended"):
        ended.runs.record(ModelRun("main.t", "run", "code"))
    assert (ended._scope.transaction.audits, ended._scope.transaction.events) == ([], [])  # type: ignore[union-attr]


def test_stream_sink_is_rejected_in_a_transaction(lake: Lake) -> None:
    """Spark considers a batch written when the sink returns, but the transaction could still discard it."""
    with lake.transaction() as tx, pytest.raises(LakeconfError, match="the batches of a stream cannot be a part of it"):
        tx.stream_sink("t")


def test_closing_a_transaction_or_past_version_keeps_the_session_open(lake: Lake) -> None:
    with lake.at(version=1) as past:
        assert past.tables() == ["main.t"]
    with lake.transaction() as tx:
        with tx:
            tx.table("t").append(pa.table({"id": [1]}))
        tx.table("t").append(pa.table({"id": [2]}))
    assert sorted(lake.table("t").scan().collect("pyarrow").rows()) == [(1,), (2,)]
