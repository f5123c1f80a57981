"""The time by which the ages of snapshots and files are measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from lakeconf.backends.base import MetadataBackend
from lakeconf.catalog.reader import CatalogReader
from lakeconf.logs import EventLogger

_log = EventLogger("maintenance")
_TOLERANCE_SECONDS = 60.0


class Clock:
    """Shows the earliest of several times.

    With a clock that is ahead, snapshots and files look older than they are, and would be removed too early. With a
    clock that is behind, they are only removed later. The times are those of this machine, of this machine if nobody
    had set its clock since the lake was opened, and of the catalog's server.

    Args:
        server_time: Asks the catalog's server for its time, in seconds since 1970; None if the catalog is a file.
    """

    def __init__(self, server_time: Callable[[], float] | None = None) -> None:
        self._server_time = server_time
        # The monotonic clock runs on evenly when the other one is set.
        self._offset = time.time() - time.monotonic()

    def now(self) -> datetime:
        """The earliest time, in UTC; see `span`."""
        return self.span()[0]

    def span(self) -> tuple[datetime, datetime]:
        """The earliest and the latest time, in UTC.

        Raises:
            LakeconfError: The catalog's server does not answer.
        """
        times = [time.time(), self._offset + time.monotonic()]
        if self._server_time is not None:
            times.append(self._server_time())
        earliest, latest = min(times), max(times)
        if latest - earliest > _TOLERANCE_SECONDS:
            _log.warning(
                "the clock of this machine was set, or differs from that of the catalog's server, by %.0f s: ages of "
                "snapshots and files are measured by the earlier time",
                latest - earliest,
            )
        return datetime.fromtimestamp(earliest, UTC), datetime.fromtimestamp(latest, UTC)


def clock_of(reader: CatalogReader, backend: MetadataBackend) -> Clock:
    """The clock of an attached lake, with the metadata backend of its store."""
    server = backend.server()
    if server is None:
        return Clock()
    query = server.clock(reader.metadata_database)

    def server_time() -> float:
        ((seconds,),) = reader.connection.rows(query)
        return float(seconds)

    return Clock(server_time)
