"""Snapshots of a lake: the latest one, one by its version, the one of a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.errors import SnapshotNotFoundError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# The time as a number: fetching a zoned timestamp into Python needs another library, and SQLite keeps it as text.
_SNAPSHOTS = """
    SELECT snapshot_id, epoch_us(CAST(snapshot_time AS TIMESTAMPTZ)) AS microseconds, schema_version,
        changes_made, author, commit_message, commit_extra_info
    FROM ducklake_snapshot LEFT JOIN ducklake_snapshot_changes USING (snapshot_id)
"""
_NEWEST = " ORDER BY snapshot_id DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state of the lake that can be read.

    Attributes:
        snapshot_id: Its version.
        time: When it was committed, in UTC.
        schema_version: Moves whenever a table or a column changes.
        changes: What it changed, as DuckLake writes it, such as `inserted_into_table:1`.
        author: Who committed it; None where nobody said so.
        message: The commit message.
        extra_info: What else the commit says, often JSON.
    """

    snapshot_id: int
    time: datetime
    schema_version: int
    changes: str
    author: str | None = None
    message: str | None = None
    extra_info: str | None = None


def snapshots(reader: CatalogReader) -> tuple[Snapshot, ...]:
    """All snapshots that have not been expired, oldest first."""
    with reader.transaction() as transaction:
        return tuple(map(_snapshot, transaction.rows(f"{_SNAPSHOTS} ORDER BY snapshot_id")))


def latest(reader: CatalogReader) -> Snapshot:
    """The newest snapshot.

    Raises:
        SnapshotNotFoundError: The catalog holds none, which a whole one never does.
    """
    with reader.transaction() as transaction:
        found = transaction.rows(_SNAPSHOTS + _NEWEST)
        if not found:
            raise SnapshotNotFoundError("the catalog holds no snapshot")
        return _snapshot(found[0])


def by_version(reader: CatalogReader, version: int) -> Snapshot:
    """The snapshot with this number.

    Raises:
        SnapshotNotFoundError: It was expired, or never was; the message says which versions exist.
    """
    with reader.transaction() as transaction:
        require(transaction, version)
        return _snapshot(transaction.rows(f"{_SNAPSHOTS} WHERE snapshot_id = ?", [version])[0])


def by_timestamp(reader: CatalogReader, timestamp: datetime) -> Snapshot:
    """The snapshot that was the newest at this time.

    Args:
        reader: The lake.
        timestamp: With its time zone.

    Raises:
        SnapshotNotFoundError: It is before the first snapshot that is left, or has no time zone.
    """
    if timestamp.utcoffset() is None:
        raise SnapshotNotFoundError(
            f"the time {timestamp.isoformat()} has no time zone",
            hint="give one, such as datetime(2026, 1, 1, tzinfo=timezone.utc)",
        )
    microseconds = (timestamp - _EPOCH) // _MICROSECOND
    with reader.transaction() as transaction:
        # By time before version, as DuckDB does: the clocks of several writers need not agree.
        found = transaction.rows(
            _SNAPSHOTS + " WHERE microseconds <= ? ORDER BY microseconds DESC, snapshot_id DESC LIMIT 1",
            [microseconds],
        )
        if not found:
            raise SnapshotNotFoundError(
                f"no snapshot was there at {timestamp.isoformat()}: {_range_in_words(transaction)}"
            )
        return _snapshot(found[0])


def require(transaction: MetadataTransaction, version: int) -> None:
    """Checks that the version exists.

    Raises:
        SnapshotNotFoundError: It was expired, or never was.
    """
    if transaction.rows("SELECT 1 FROM ducklake_snapshot WHERE snapshot_id = ?", [version]):
        return
    ((newest,),) = transaction.rows("SELECT max(snapshot_id) FROM ducklake_snapshot")
    expired = newest is not None and 0 <= version < newest
    problem = "was expired" if expired else "does not exist"
    raise SnapshotNotFoundError(f"version {version} {problem}: {_range_in_words(transaction)}")


def _range_in_words(transaction: MetadataTransaction) -> str:
    ends = transaction.rows(_SNAPSHOTS + " ORDER BY snapshot_id LIMIT 1") + transaction.rows(_SNAPSHOTS + _NEWEST)
    if not ends:
        return "the catalog holds no snapshot"
    oldest, newest = map(_snapshot, ends)
    return (
        f"the lake has the versions {oldest.snapshot_id} ({oldest.time.isoformat()}) "
        f"to {newest.snapshot_id} ({newest.time.isoformat()})"
    )


def _snapshot(row: tuple[Any, ...]) -> Snapshot:
    version, microseconds, schema_version, changes, author, message, extra_info = row
    time = _EPOCH + timedelta(microseconds=microseconds)
    return Snapshot(version, time, schema_version, changes or "", author, message, extra_info)
