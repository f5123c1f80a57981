"""The source of a Structured Streaming query: the data source `lakeconf` for a table of an open lake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from lakeconf.commit.scope import Scope
from lakeconf.errors import LakeconfError, UnsupportedError


@runtime_checkable
class StreamingEngine(Protocol):
    """An engine that reads streams."""

    def stream(self, options: Mapping[str, str]) -> Any:
        """A streaming frame of the data source `lakeconf`.

        Args:
            options: The options of the data source.
        """
        ...


def stream(scope: Scope, table: str, since: int | None, snapshots_per_batch: int | None, *, changes: bool) -> Any:
    """A streaming frame of a table; see `Lake.stream`."""
    session = scope.session
    if not isinstance(session.engine, StreamingEngine):
        raise UnsupportedError(
            "a stream needs a Spark session, and this lake was opened without one",
            hint="open the lake with a session: store.open(spark)",
        )
    if session.config is None:
        raise UnsupportedError(
            f"the store {session.store!r} is not declared in a file, from which Spark's processes can read it",
            hint="declare the store in lakeconf.toml",
        )
    if scope.is_pinned:
        raise LakeconfError(
            "a stream follows the newest snapshot, and this lake stays at one",
            hint="call stream on the lake itself, with since=… for the changes of older snapshots",
        )
    options = {"table": table, "store": session.store, "config": session.config, "changes": str(changes).lower()}
    numbers = {"since": since, "snapshots_per_batch": snapshots_per_batch}
    return session.engine.stream(options | {name: str(value) for name, value in numbers.items() if value is not None})
