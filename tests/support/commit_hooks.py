"""Hooks that run when a lake sends COMMIT or another statement, to disturb its commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lake_parts import session_of

from lakeconf.connection.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from lakeconf import Lake


def at_commit(
    patch: pytest.MonkeyPatch, *, before: Callable[[], object] | None = None, after: Callable[[], object] | None = None
) -> None:
    """Calls a function once, immediately before or after a lake sends COMMIT."""
    _at(patch, "execute", "COMMIT", before, after)


def at_staged_commit(
    patch: pytest.MonkeyPatch, *, before: Callable[[], object] | None = None, after: Callable[[], object] | None = None
) -> None:
    """Calls a function once, immediately before or after a lake calls `ducklake_commit`."""
    _at(patch, "rows", "ducklake_commit(", before, after)


def _at(patch: pytest.MonkeyPatch, method: str, text: str, before: Any, after: Any) -> None:
    original, fired = getattr(Connection, method), list[str]()

    def calling(self: Connection, sql: str, parameters: Any = None) -> Any:
        strikes = text in sql and not fired
        if strikes:
            fired.append(sql)
        if strikes and before:
            before()
        found = original(self, sql, parameters)
        if strikes and after:
            after()
        return found

    patch.setattr(Connection, method, calling)


def during(lake: Lake, monkeypatch: pytest.MonkeyPatch, statement: str, look: Any = None) -> list[Any]:
    """Collects the results of `look` before each statement of the writer that contains a text; by default, these."""
    seen: list[Any] = []
    connection = type(session_of(lake).writer)
    for name in ("execute", "rows"):
        original = getattr(connection, name)

        def spied(self: Any, sql: str, *rest: Any, original: Any = original) -> Any:
            if statement in sql:
                seen.append(look() if look else sql)
            return original(self, sql, *rest)

        monkeypatch.setattr(connection, name, spied)
    return seen
