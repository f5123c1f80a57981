"""Hooks that run when a lake sends COMMIT, to disturb its commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeconf.connection.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def at_commit(
    patch: pytest.MonkeyPatch, *, before: Callable[[], object] | None = None, after: Callable[[], object] | None = None
) -> None:
    """Calls a function once, immediately before or after a lake sends COMMIT."""
    execute, fired = Connection.execute, list[str]()

    def executing(self: Connection, sql: str, parameters: Any = None) -> Any:
        strikes = sql == "COMMIT" and not fired
        if strikes:
            fired.append(sql)
        if strikes and before:
            before()
        done = execute(self, sql, parameters)
        if strikes and after:
            after()
        return done

    patch.setattr(Connection, "execute", executing)
