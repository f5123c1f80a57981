"""Computes the time intervals that a run of an incremental model has to process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias

from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.models.kinds import Incremental, Interval
from lakeconf.sql import literal

Range: TypeAlias = tuple[datetime, datetime]


@dataclass(frozen=True)
class Batch:
    """Consecutive intervals that one snapshot processes."""

    start: datetime  # start of the first interval
    end: datetime  # end of the last interval, or of the range if it cuts the interval off
    done_until: datetime  # end of the last complete interval
    redone: bool = False  # True if all of them were done before

    def __str__(self) -> str:
        return f"{short(self.start)} to {short(self.end)}"


def moment(value: date | datetime) -> datetime:
    """Converts a date or time to a time in UTC without a time zone."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return datetime(value.year, value.month, value.day)


def floor(value: datetime, interval: Interval) -> datetime:
    """Returns the start of the interval that contains a time."""
    if interval == "hour":
        return value.replace(minute=0, second=0, microsecond=0)
    day = value.replace(hour=0, minute=0, second=0, microsecond=0)
    if interval == "day":
        return day
    return day.replace(day=1) if interval == "month" else day.replace(month=1, day=1)


def step(start: datetime, interval: Interval, count: int = 1) -> datetime:
    """Returns the start of the interval that is `count` intervals later, or earlier if negative."""
    if interval in ("hour", "day"):
        return start + count * timedelta(hours=1 if interval == "hour" else 24)
    months = start.year * 12 + start.month - 1 + count * (12 if interval == "year" else 1)
    return start.replace(year=months // 12, month=months % 12 + 1)


def batches(kind: Incremental, start: datetime, end: datetime, done: Iterable[Range], *, late: bool) -> list[Batch]:
    """Returns the intervals that a run has to process, in chronological order."""
    done_ranges = merged(done)
    every = starts(kind, floor(start, kind.interval), end)
    possible = [begin for begin in every if kind.partial or step(begin, kind.interval) <= end]
    missing = {begin for begin in possible if not covered(begin, done_ranges)}
    ends = missing or ({step(possible[-1], kind.interval)} if late and possible else set())
    again = {step(begin, kind.interval, -count) for begin in ends for count in range(1, kind.lookback + 1)} & set(
        possible
    )
    groups: list[list[datetime]] = []
    for begin in sorted(missing | again):
        if not groups or step(groups[-1][-1], kind.interval) != begin or len(groups[-1]) == kind.batch:
            groups.append([])
        groups[-1].append(begin)
    return [_batch(kind, group, end, missing) for group in groups]


def starts(kind: Incremental, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yields the starts of the intervals that begin in a range."""
    while start < end:
        yield start
        start = step(start, kind.interval)


def _batch(kind: Incremental, group: Sequence[datetime], end: datetime, missing: set[datetime]) -> Batch:
    last = step(group[-1], kind.interval)
    return Batch(group[0], min(last, end), last if last <= end else group[-1], redone=missing.isdisjoint(group))


def without(ranges: Iterable[Range], removed: Iterable[Range]) -> list[Range]:
    """Subtracts ranges from ranges."""
    left = merged(ranges)
    for first, last in removed:
        left = [
            part
            for start, end in left
            for part in ((start, min(end, first)), (max(start, last), end))
            if part[0] < part[1]
        ]
    return left


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Sorts ranges and merges those that touch or overlap."""
    merged_ranges: list[Range] = []
    for start, end in sorted(ranges):
        if merged_ranges and start <= merged_ranges[-1][1]:
            merged_ranges[-1] = (merged_ranges[-1][0], max(end, merged_ranges[-1][1]))
        elif start < end:
            merged_ranges.append((start, end))
    return merged_ranges


def covered(start: datetime, ranges: Sequence[Range]) -> bool:
    """True if a time is in one of the ranges."""
    return any(first <= start < last for first, last in ranges)


def short(value: datetime) -> str:
    """Formats a time; midnight as its date only."""
    return value.date().isoformat() if value == floor(value, "day") else value.isoformat(" ")


@contextlib.contextmanager
def in_utc(lake: Lake) -> Iterator[None]:
    """DuckDB computes in UTC within a `with` block, for the calling thread. Then it has its former time zone again.

    DuckDB casts between TIMESTAMP and TIMESTAMPTZ, and takes parts of a TIMESTAMPTZ, in the zone of the connection that
    runs a query. Frames are lazy, so run them in the block too.
    """
    session = lake._session  # noqa: SLF001 - not for users
    with _connection_in_utc(session.reader.connection), _connection_in_utc(session.writer):
        yield


@contextlib.contextmanager
def _connection_in_utc(connection: Connection) -> Iterator[None]:
    before = connection.time_zone
    connection.execute("SET TimeZone = 'UTC'")
    try:
        yield
    finally:
        # A connection that was closed meanwhile has no settings.
        with contextlib.suppress(LakeconfError):
            connection.execute(f"SET TimeZone = {literal(before)}")
