"""Finds snapshots of a lake: the latest, by version, or by time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, SupportsIndex

from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.errors import CatalogError, LakeconfError, SnapshotNotFoundError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# The time as a number: fetching a TIMESTAMPTZ into Python needs another library, and SQLite stores it as text.
_COLUMNS = """
    snapshot_id, epoch_us(CAST(snapshot_time AS TIMESTAMPTZ)) AS microseconds, schema_version, changes_made, author,
    commit_message, commit_extra_info
"""
# The SQL of every catalog.
_JOINED = """
    SELECT s.snapshot_id, snapshot_time, schema_version, changes_made, author, commit_message, commit_extra_info
    FROM ducklake_snapshot AS s LEFT JOIN ducklake_snapshot_changes AS c ON c.snapshot_id = s.snapshot_id
"""
_SNAPSHOTS = f"SELECT {_COLUMNS} FROM ({_JOINED})"  # noqa: S608
_NEWEST = " ORDER BY snapshot_id DESC LIMIT 1"
_JOINED_TYPES = (
    "snapshot_id BIGINT, snapshot_time VARCHAR, schema_version BIGINT, changes_made VARCHAR, author VARCHAR, "
    "commit_message VARCHAR, commit_extra_info VARCHAR"
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A readable state of the lake.

    Attributes:
        snapshot_id: Its version.
        time: The time of the commit, in UTC.
        schema_version: Changes with every change to a table or column definition.
        changes: The changes as DuckLake records them, such as `inserted_into_table:1`.
        author: The author of the commit, or None.
        message: The commit message.
        extra_info: Additional information of the commit, often JSON.
    """

    snapshot_id: int
    time: datetime
    schema_version: int
    changes: str
    author: str | None = None
    message: str | None = None
    extra_info: str | None = field(default=None, repr=False)


def snapshots(reader: CatalogReader) -> tuple[Snapshot, ...]:
    """Returns all unexpired snapshots, oldest first."""
    with reader.transaction() as transaction:
        return tuple(map(_snapshot, transaction.rows(f"{_SNAPSHOTS} ORDER BY snapshot_id")))


def latest(reader: CatalogReader) -> Snapshot:
    """Returns the latest snapshot."""
    with reader.transaction() as transaction:
        rows = _rows_of(transaction, "(SELECT max(snapshot_id) FROM ducklake_snapshot)")
        if not rows:
            raise SnapshotNotFoundError("the catalog has no snapshot")
        newest = _snapshot(rows[0])
    reader.definitions.saw(newest.snapshot_id, newest.time, newest.extra_info)
    return newest


def by_version(reader: CatalogReader, version: int) -> Snapshot:
    """Returns the snapshot with this version."""
    version = version_number(version)
    with reader.transaction() as transaction:
        require(transaction, version)
        return _snapshot(_rows_of(transaction, f"{version:d}")[0])


def by_timestamp(reader: CatalogReader, timestamp: datetime | str) -> Snapshot:
    """Returns the latest snapshot at this time."""
    moment = moment_of(timestamp)
    microseconds = (moment - _EPOCH) // _MICROSECOND
    with reader.transaction() as transaction:
        # Order by time before version, as DuckDB does: the clocks of writers may differ.
        rows = transaction.rows(
            _SNAPSHOTS + " WHERE microseconds <= ? ORDER BY microseconds DESC, snapshot_id DESC LIMIT 1", [microseconds]
        )
        if not rows:
            raise SnapshotNotFoundError(
                f"no snapshot exists at {moment.isoformat()}: {_range_in_words(transaction)}",
                hint="list the snapshots with lake.snapshots(), or: lakeconf snapshots",
            )
        return _snapshot(rows[0])


def _rows_of(transaction: MetadataTransaction, snapshot_id: str) -> list[tuple[Any, ...]]:
    """The row of a snapshot like those of `_SNAPSHOTS`, if there is one; its id as SQL."""
    # SQLite finds it by its index; DuckDB would read all snapshots.
    row = transaction.own_sql(f"{_JOINED} WHERE s.snapshot_id = {snapshot_id}", _JOINED_TYPES)
    return transaction.rows(f"SELECT {_COLUMNS} FROM ({row})")  # noqa: S608


def chosen(reader: CatalogReader, version: int | None, timestamp: datetime | str | None) -> Snapshot:
    """Returns a snapshot by its version or by a time; exactly one of the two is given."""
    if version is not None and timestamp is None:
        return by_version(reader, version)
    if timestamp is not None and version is None:
        return by_timestamp(reader, timestamp)
    raise LakeconfError("pass either a version or a timestamp")


def version_number(version: object) -> int:
    """Checks a version of a snapshot."""
    if isinstance(version, SupportsIndex) and not isinstance(version, bool):
        return version.__index__()
    raise SnapshotNotFoundError(f"{version!r} is not a version", hint="write a whole number, such as 3")


def moment_of(time: object) -> datetime:
    """Checks a time. A day, or a time without a time zone, is another moment in each time zone."""
    moment = time
    if isinstance(time, str):
        try:
            moment = datetime.fromisoformat(time.strip())
        except ValueError:
            moment = None
    if moment != moment:  # NaT of pandas, which is a datetime
        moment = None
    if isinstance(moment, datetime) and moment.utcoffset() is not None:
        return moment
    if not isinstance(moment, date):
        hint = "write it in ISO 8601, such as '2026-01-31T12:00:00+00:00', or pass a datetime with a time zone"
        raise SnapshotNotFoundError(f"{time!r} is not a time", hint=hint)
    start = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
    in_utc = start.replace(tzinfo=UTC).isoformat()
    raise SnapshotNotFoundError(f"the time {time} has no time zone", hint=f"add one, such as UTC: {in_utc!r}")


def require(transaction: MetadataTransaction, version: int) -> None:
    """Checks that the version exists."""
    # SQLite finds it by its index, and DuckDB would read all snapshots.
    query = "SELECT snapshot_id FROM ducklake_snapshot WHERE snapshot_id = $1"
    if transaction.own_rows(query, "snapshot_id BIGINT", [version]):
        return
    ((newest,),) = transaction.rows("SELECT max(snapshot_id) FROM ducklake_snapshot")
    expired = newest is not None and 0 <= version < newest
    problem = "has expired" if expired else "does not exist"
    raise SnapshotNotFoundError(
        f"version {version} {problem}: {_range_in_words(transaction)}",
        hint="list the snapshots with lake.snapshots(), or: lakeconf snapshots",
    )


def _range_in_words(transaction: MetadataTransaction) -> str:
    ends = transaction.rows(_SNAPSHOTS + " ORDER BY snapshot_id LIMIT 1") + transaction.rows(_SNAPSHOTS + _NEWEST)
    if not ends:
        return "the catalog has no snapshot"
    oldest, newest = map(_snapshot, ends)
    return (
        f"the lake has the versions {oldest.snapshot_id} ({oldest.time:%Y-%m-%d %H:%M:%S} UTC) "
        f"to {newest.snapshot_id} ({newest.time:%Y-%m-%d %H:%M:%S} UTC)"
    )


def _snapshot(row: tuple[Any, ...]) -> Snapshot:
    version, microseconds, schema_version, changes, author, message, extra_info = row
    if microseconds is None:
        raise CatalogError(f"the catalog has no time of snapshot {version}", hint="restore a backup of the catalog")
    time = _EPOCH + timedelta(microseconds=microseconds)
    return Snapshot(version, time, schema_version, changes or "", author, message, extra_info)
