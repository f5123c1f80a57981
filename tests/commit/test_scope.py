"""The snapshot that a scope reads, the reads that it records, and the writes that it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.commit.scope import Scope
from lakeconf.commit.transaction import default_author
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from lakeconf import Lake, Store


@pytest.fixture
def scope(two_tables: Lake) -> Scope:
    return Scope(two_tables._session)


def test_scope_follows_the_session_the_past_or_the_transaction(scope: Scope) -> None:
    past = Scope(scope.session, at=1)
    first = Scope(scope.session, at=0)
    inside = Scope(scope.session, transaction=scope.begin())
    assert [one.snapshot_id for one in (scope, past, first, inside)] == [2, 1, 0, 2]
    scope.session.advance(3)
    assert [one.snapshot_id for one in (scope, past, first, inside)] == [3, 1, 0, 2]
    assert [one.is_pinned for one in (scope, past, first, inside)] == [False, True, True, True]


def test_transaction_begins_at_the_snapshot_of_its_scope(scope: Scope) -> None:
    scope.session.base.add_read("main.t", 2)
    made = scope.begin("why", "who", {"batch": 7}, explicit=True)
    assert (made.snapshot_id, made.message, made.author, made.extra, made.explicit) == (
        2,
        "why",
        "who",
        {"batch": 7},
        True,
    )
    assert made.session is scope.session
    assert made.base is not scope.session.base
    assert made.base.has_read("main.t")
    past = Scope(scope.session, at=1).begin()
    assert (past.snapshot_id, past.message, past.extra, past.explicit) == (1, None, {}, False)
    assert past.author == default_author()


def test_extra_is_the_callers_mapping(scope: Scope) -> None:
    extra: dict[str, object] = {}
    assert scope.begin(extra=extra).extra is extra


def test_reads_are_recorded_in_the_base_of_the_scope(scope: Scope) -> None:
    inside = Scope(scope.session, transaction=scope.begin())
    assert scope.base is scope.session.base
    assert inside.transaction is not None
    assert inside.base is inside.transaction.base
    scope.session.advance(5)
    inside.add_read("main.t")
    inside.base.own = {3: -1, 4: -1}
    assert inside.base.unseen("main.t") == {3, 4}, "the transaction reads snapshot 2"
    scope.add_read("main.u")
    scope.session.base.own = {4: -1, 5: -1, 6: -1}
    assert scope.base.unseen("main.u") == {6}, "the session reads snapshot 5"


def test_read_of_the_past_is_recorded_like_one_of_the_present(scope: Scope) -> None:
    """It causes no conflict with snapshots that the lake has seen."""
    Scope(scope.session, at=0).add_read(None)
    scope.session.base.own = {2: -1, 3: -1}
    assert scope.session.base.unseen("main.anything") == {3}


def test_only_a_scope_that_can_write_takes_the_lock_of_the_lake(scope: Scope, store: Store) -> None:
    with scope.writing() as held:
        assert held is not None
    with Scope(scope.session, transaction=scope.begin()).writing() as held:
        assert held is not None
    for at in (0, 1):
        with Scope(scope.session, at=at).writing() as held:
            assert held is None
    with store.open(read_only=True) as lake, Scope(lake._session).writing() as held:
        assert held is None


def test_refused_writes(scope: Scope, store: Store) -> None:
    scope.check_writable()
    transaction = scope.begin()
    inside = Scope(scope.session, transaction=transaction)
    inside.check_writable()
    transaction.end()
    with pytest.raises(LakeconfError, match="the transaction has ended"):
        inside.check_writable()
    for at in (0, 1):
        with pytest.raises(LakeconfError) as caught:
            Scope(scope.session, at=at).check_writable()
        assert caught.value.message == f"nothing can be written: the lake is pinned at snapshot {at}"
    with store.open(read_only=True) as lake, pytest.raises(LakeconfError, match="the store 'dev' is read-only"):
        Scope(lake._session).check_writable()


def test_refused_maintenance(scope: Scope) -> None:
    scope.check_maintainable()
    with pytest.raises(LakeconfError, match="pinned at snapshot 1"):
        Scope(scope.session, at=1).check_maintainable()
    with pytest.raises(LakeconfError) as caught:
        Scope(scope.session, transaction=scope.begin()).check_maintainable()
    assert caught.value.message == "a transaction is open, and maintenance cannot be a part of it"
    assert caught.value.hint == "call it after the `with` block"
