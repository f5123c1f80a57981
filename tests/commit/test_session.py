"""Each open lake has one session, and only `Session.advance` changes the snapshot that reads use."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from source_tree import sources

import lakeconf
from lakeconf.commit.session import Session
from lakeconf.errors import CommitError, LakeconfError
from lakeconf.lake.run_journal import ModelRun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    backends = {
        "metadata_backend": {"type": "sqlite", "uri": str(tmp_path / "catalog")},
        "storage_backend": {"type": "local", "path": str(tmp_path / "data")},
    }
    return lakeconf.init({"stores": {"dev": backends}}).get_store("dev")


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
        yield lake


def assigned(node: ast.AST) -> list[str]:
    """The attributes that a node assigns, deletes or sets with `setattr`."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return [node.attr]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
        return [
            argument.value
            for argument in node.args
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
    return []


def writers(source: str, attribute: str) -> list[str]:
    """The functions that assign an attribute."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return [function.name for function in functions for node in ast.walk(function) if attribute in assigned(node)]


def test_only_advance_assigns_the_snapshot_id() -> None:
    found = {name: writers(path.read_text(), "_snapshot_id") for name, path in sources().items()}
    # `__post_init__` sets the initial snapshot.
    assert {name: names for name, names in found.items() if names} == {
        "lakeconf.commit.session": ["__post_init__", "advance"]
    }


@pytest.mark.parametrize(
    "statement", ["self._snapshot_id = 1", "session._snapshot_id += 1", "setattr(session, '_snapshot_id', 1)"]
)
def test_writers_detects_every_kind_of_assignment(statement: str) -> None:
    assert writers(f"def move():\n    {statement}", "_snapshot_id") == ["move"]


def test_snapshot_id_is_a_read_only_property(lake: Lake) -> None:
    assigning: Any = lake._session
    with pytest.raises(AttributeError):
        assigning.snapshot_id = 7
    assert isinstance(Session.snapshot_id, property)


def test_advance_never_moves_to_an_older_snapshot(lake: Lake) -> None:
    session = lake._session
    latest = session.snapshot_id
    assert session.advance(latest - 1) == session.advance(latest) == latest
    assert (session.advance(latest - 1, refresh=True), session.base.snapshot_id) == (latest, latest)


def test_transactions_and_past_versions_share_the_session_of_the_lake(lake: Lake) -> None:
    with lake.transaction() as tx:
        past = tx.at(version=0)
        assert tx._session is past._session is lake._session
        assert (tx.snapshot_id, past.snapshot_id, tx._scope.is_pinned, past._scope.is_pinned) == (1, 0, True, True)
        lake.create_table("other", {"id": "BIGINT"})
        assert (lake.snapshot_id, tx.snapshot_id, past.snapshot_id) == (2, 1, 0)


def test_rejected_write_reports_the_reason(lake: Lake, store: Store) -> None:
    past = lake.at(version=1)
    with lake.transaction() as ended:
        pass
    with past.transaction() as in_the_past, pytest.raises(LakeconfError, match="the lake is pinned at snapshot 1"):
        in_the_past.table("t").delete("id = 1")
    with pytest.raises(LakeconfError, match="nothing can be written: the lake is pinned at snapshot 1"):
        past.table("t").delete("id = 1")
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


def test_transaction_rejects_a_key_used_twice(lake: Lake) -> None:
    rows = pa.table({"id": [1]})
    with lake.transaction() as tx:
        tx.table("t").append(rows, idempotency_key="first")
        assert tx.table("t").idempotency_keys("first") == []  # not committed yet
        with pytest.raises(CommitError, match=r"already contains a write to main\.t with the idempotency key 'first'"):
            tx.table("T").append(rows, idempotency_key="first")
    assert lake.table("t").idempotency_keys("f") == ["first"]
    assert lake.table("t").scan().collect("pyarrow").rows() == [(1,)]


def test_closing_a_transaction_or_past_version_keeps_the_session_open(lake: Lake) -> None:
    with lake.at(version=1) as past:
        assert past.tables() == ["main.t"]
    with lake.transaction() as tx:
        with tx:
            tx.table("t").append(pa.table({"id": [1]}))
        tx.table("t").append(pa.table({"id": [2]}))
    assert sorted(lake.table("t").scan().collect("pyarrow").rows()) == [(1,), (2,)]


def test_fork_moves_by_itself_and_shares_the_connections(lake: Lake) -> None:
    session = lake._session
    fork = session.fork()
    lake.table("t").append(pa.table({"id": [1]}))
    assert (fork.snapshot_id, fork.base.snapshot_id, fork.base.own) == (1, 1, {})
    assert session.snapshot_id == 2
    assert (fork.reader, fork.writer, fork.guard, fork.writer_lock) == (
        session.reader,
        session.writer,
        session.guard,
        session.writer_lock,
    )
    assert fork._snapshot_lock is not session._snapshot_lock
    fork.advance(2, own=2)
    assert fork.base.own.keys() == {2}
    assert session.base.own.keys() == {1, 2}
