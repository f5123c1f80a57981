"""Cursors that transactions take in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.reader import Cursor, Cursors
from lakeconf.connection.connection import Connection, connect
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connect() as made:
        yield made


def use(cursors: Cursors, *, is_clean: bool = True) -> Cursor:
    with cursors.taken() as cursor:
        cursor.connection.execute("SELECT 1")
        cursor.is_clean = is_clean
    return cursor


def is_closed(cursor: Cursor) -> bool:
    try:
        cursor.connection.execute("SELECT 1")
    except LakeconfError:
        return True
    return False


def test_cursor_with_an_open_transaction_is_closed(connection: Connection) -> None:
    cursors = Cursors(connection)
    first = use(cursors, is_clean=False)
    assert is_closed(first)
    assert use(cursors) is not first


@pytest.mark.parametrize("error", [LakeconfError, KeyboardInterrupt])
def test_cursor_of_a_failed_transaction_is_closed(connection: Connection, error: type[BaseException]) -> None:
    cursors = Cursors(connection)
    block = cursors.taken()
    failed = block.__enter__()
    failed.is_clean = True
    assert not block.__exit__(error, error("it failed"), None)
    assert is_closed(failed)
    assert use(cursors) is not failed


def test_transactions_at_the_same_time_have_their_own_cursors(connection: Connection) -> None:
    cursors = Cursors(connection)
    with cursors.taken() as one, cursors.taken() as other:
        assert one is not other
        one.connection.execute("BEGIN")
        other.connection.execute("BEGIN")  # it would fail on the same cursor


def test_closing_the_connection_closes_the_cursors() -> None:
    """An idle cursor would keep the catalog's file open."""
    with connect() as made:
        cursor = use(Cursors(made))
    assert is_closed(cursor)


def test_statement_that_failed_runs_again(connection: Connection) -> None:
    with Cursors(connection).taken() as cursor:
        cursor.set_up("database", "USE memory")
        with pytest.raises(LakeconfError):
            cursor.set_up("database", "USE missing")
        connection.execute("ATTACH ':memory:' AS missing")
        cursor.set_up("database", "USE missing")
        assert cursor.connection.database == "missing"
