"""Time intervals: which there are, which are done, which are missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TypeAlias

from lakeconf.pipelines.kinds import Incremental, Interval

Range: TypeAlias = tuple[datetime, datetime]


@dataclass(frozen=True)
class Batch:
    """Intervals that are done in one snapshot.

    Attributes:
        start: When the first begins.
        end: When the last ends, or where it is cut off.
        done_until: When the last complete one ends.
        redone: True where all of them were done before.
    """

    start: datetime
    end: datetime
    done_until: datetime
    redone: bool = False

    def __str__(self) -> str:
        return f"{_short(self.start)} to {_short(self.end)}"


def moment(value: date | datetime) -> datetime:
    """A date or a time as a time in UTC, without a zone."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
    return datetime(value.year, value.month, value.day)


def floor(value: datetime, interval: Interval) -> datetime:
    """The beginning of the interval that a time is in."""
    if interval == "hour":
        return value.replace(minute=0, second=0, microsecond=0)
    day = value.replace(hour=0, minute=0, second=0, microsecond=0)
    if interval == "day":
        return day
    return day.replace(day=1) if interval == "month" else day.replace(month=1, day=1)


def step(start: datetime, interval: Interval, count: int = 1) -> datetime:
    """The beginning of a later interval, or of an earlier one."""
    if interval in ("hour", "day"):
        return start + count * timedelta(hours=1 if interval == "hour" else 24)
    months = start.year * 12 + start.month - 1 + count * (12 if interval == "year" else 1)
    return start.replace(year=months // 12, month=months % 12 + 1)


def batches(kind: Incremental, start: datetime, end: datetime, done: Iterable[Range], *, late: bool) -> list[Batch]:
    """The intervals that a run has to do, in the order of time.

    Args:
        kind: The kind of the model.
        start: When the first interval begins.
        end: When the range ends; an interval that it cuts off belongs to it only where the kind takes partial ones.
        done: The ranges that are done.
        late: True where rows may have come for intervals that are done, so that the last of them are done again.

    Returns:
        Batches of neighbouring intervals.
    """
    known = _merged(done)
    wanted = list(_intervals(kind, floor(start, kind.interval), end))
    missing = {one for one in wanted if not _covered(one, known)}
    ends = missing or ({step(wanted[-1], kind.interval)} if late and wanted else set())
    again = {step(one, kind.interval, -count) for one in ends for count in range(1, kind.lookback + 1)} & set(wanted)
    chosen = sorted(missing | again)
    return list(_batched(kind, chosen, end, missing))


def _intervals(kind: Incremental, start: datetime, end: datetime) -> Iterator[datetime]:
    while start < end and (kind.partial or step(start, kind.interval) <= end):
        yield start
        start = step(start, kind.interval)


def _batched(kind: Incremental, chosen: Sequence[datetime], end: datetime, missing: set[datetime]) -> Iterator[Batch]:
    group: list[datetime] = []
    for one in chosen:
        if group and (step(group[-1], kind.interval) != one or len(group) == kind.batch):
            yield _batch(kind, group, end, missing)
            group = []
        group.append(one)
    if group:
        yield _batch(kind, group, end, missing)


def _batch(kind: Incremental, group: Sequence[datetime], end: datetime, missing: set[datetime]) -> Batch:
    last = step(group[-1], kind.interval)
    return Batch(group[0], min(last, end), last if last <= end else group[-1], redone=missing.isdisjoint(group))


def _merged(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def _covered(start: datetime, ranges: Sequence[Range]) -> bool:
    return any(first <= start < last for first, last in ranges)


def _short(value: datetime) -> str:
    return value.date().isoformat() if value == floor(value, "day") else value.isoformat(" ")
