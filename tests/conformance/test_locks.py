"""Locks for every pair of backends: maintenance waits for writers, and its error names them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lakeconf.errors import CommitError
from lakeconf.guard import locks
from lakeconf.guard.guard import locks_of, reader_of
from lakeconf.store import open_connection

if TYPE_CHECKING:
    from lakeconf.store import Store


def test_maintenance_waits_for_writers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr(locks, "_ATTEMPT_SECONDS", 0.2)
    with open_connection(store) as connection:
        reader = reader_of(store.metadata_backend, store.names, connection)
        one, other = (locks_of(store.metadata_backend, store.names, reader) for _ in range(2))
        assert one is not None
        assert other is not None
        with one.shared() as held, other.shared():
            held.check()
        with one.shared(), pytest.raises(CommitError, match=f"held by .*process {os.getpid()}"), other.exclusive():
            raise AssertionError
        with other.exclusive():
            pass
