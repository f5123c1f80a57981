"""Computes models in UTC, like their time ranges, and not in the time zone of the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError
from lakeconf.lake.lake import Lake
from lakeconf.sql import literal


@contextlib.contextmanager
def in_utc(lakes: Iterable[Lake]) -> Iterator[None]:
    """DuckDB computes in UTC within a `with` block, for the calling thread. Then it has its former time zone again.

    DuckDB casts between TIMESTAMP and TIMESTAMPTZ, and takes parts of a TIMESTAMPTZ, in the zone of the connection that
    runs a query. Frames are lazy, so run them in the block too.

    Args:
        lakes: The lakes; both connections of each, since audits run on the one that commits.
    """
    with contextlib.ExitStack() as stack:
        for lake in lakes:
            session = lake._session  # noqa: SLF001 - not for users
            for connection in (session.reader.connection, session.writer):
                stack.enter_context(_connection_in_utc(connection))
        yield


@contextlib.contextmanager
def _connection_in_utc(connection: Connection) -> Iterator[None]:
    ((before,),) = connection.rows("SELECT system.main.current_setting('TimeZone')")
    connection.execute("SET TimeZone = 'UTC'")
    try:
        yield
    finally:
        # A connection that was closed meanwhile has no settings.
        with contextlib.suppress(LakeconfError):
            connection.execute(f"SET TimeZone = {literal(str(before))}")
