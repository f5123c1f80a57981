"""Stores whose commits are disturbed, and what disturbs them at the moment at which they send COMMIT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lakeconf
from lakeconf.connection.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from servers import PostgresServer

    from lakeconf import Store


def at_commit(
    patch: pytest.MonkeyPatch, *, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None
) -> None:
    """Does something once, right before or right after a lake sends COMMIT."""
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


def on_postgres(server: PostgresServer, database: str, port: int) -> dict[str, Any]:
    place = {"type": "postgres", "host": server.host, "port": port, "database": database}
    return {**place, "user": server.user, "password": server.password}


def store_of(folder: Path, catalog: dict[str, Any], **attach_options: Any) -> Store:
    backends = {"metadata_backend": catalog, "storage_backend": {"type": "local", "path": str(folder / "data")}}
    options = {"attach_options": attach_options} if attach_options else {}
    return lakeconf.init({"stores": {"dev": backends | options}}).get_store("dev")
