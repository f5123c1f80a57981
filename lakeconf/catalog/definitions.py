"""Remembers definitions of tables, each with a proof that a read of the catalog would give the same.

A definition at a snapshot never changes, but what lakeconf needs to know includes later definitions: a file that is
read at a snapshot may have the later type of a column. The proof has two parts. The snapshot that was the newest when
the definition was read still exists, with its time: then the catalog has the same history up to it, and is not a
restored backup with a history of its own. And no commit after it has changed a definition: each such commit has a new
schema version, by which DuckLake remembers definitions too.

So DuckLake itself reads a restored backup with the columns that the lost commits gave to its tables, and would write
such files. As soon as another snapshot has the id of one that the reader has seen, no definition is found any more. The
reader has seen the newest snapshot when its lake was opened or refreshed and at each look-up, and those that it
committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from lakeconf.errors import CatalogError

Definition = TypeVar("Definition")
_seeing = threading.Lock()
# A process that uses more tables reads their definitions again.
_MOST = 256
_REPLACED, _OPEN_AGAIN = "the catalog was replaced while the lake was open", "open the lake again: store.open()"
# The SQL of every catalog: of the snapshots since $4, so that a long history costs nothing.
STATE = """
    SELECT max(CASE WHEN snapshot_id = $1 THEN schema_version END) AS version,
        max(CASE WHEN snapshot_id = $2 THEN CAST(snapshot_time AS VARCHAR) END) AS moment,
        max(CASE WHEN snapshot_id = $3 THEN CAST(snapshot_time AS VARCHAR) END) AS seen_moment,
        (SELECT max(commit_extra_info) FROM ducklake_snapshot_changes WHERE snapshot_id = $3) AS seen_info,
        max(newest) AS newest,
        max(CASE WHEN snapshot_id = newest THEN CAST(snapshot_time AS VARCHAR) END) AS newest_moment,
        max(schema_version) AS newest_version
    FROM ducklake_snapshot, (SELECT max(snapshot_id) AS newest FROM ducklake_snapshot WHERE snapshot_id >= $4) AS n
    WHERE snapshot_id >= $4
"""
STATE_TYPES = (
    "version BIGINT, moment VARCHAR, seen_moment VARCHAR, seen_info VARCHAR, newest BIGINT, newest_moment VARCHAR, "
    "newest_version BIGINT"
)


class _Proof(NamedTuple):
    """The state of a catalog in which a definition was read, or was proven to be the same."""

    schema_version: int  # the schema version of the snapshot at which it was read
    newest: int  # the newest snapshot
    moment: str  # the time of the newest snapshot, as the catalog writes it
    newest_version: int  # the highest schema version since the oldest of these snapshots

    def holds(self, version: int, moment: str | None, newest_version: int) -> bool:
        """True if the snapshots still exist, and no commit since has changed a definition."""
        return (version, moment) == (self.schema_version, self.moment) and newest_version <= self.newest_version


class _Seen(NamedTuple):
    """A snapshot that a reader knows to be in its catalog."""

    snapshot_id: int = -1  # the snapshot; -1 for none
    moment: datetime | str = ""  # its time; as a string if Python cannot read what the catalog writes
    token: str = ""  # instead of the time, the id of the write that committed it

    def check(self, moment: datetime | str, info: str | None) -> None:
        """Compares the snapshot with the one that has its id now: its time and the information of its commit."""
        if self.token:
            is_same = self.token in (info or "")
        else:
            # A time and a string cannot be compared.
            is_same = self.moment == moment or type(self.moment) is not type(moment)
        if not is_same:
            message = f"{_REPLACED}: snapshot {self.snapshot_id} is another one now"
            raise CatalogError(message, hint=_OPEN_AGAIN)


@dataclass(frozen=True)
class _Remembered(Generic[Definition]):
    value: Definition
    proof: _Proof


class Definitions(Generic[Definition]):
    """The definitions of tables of a lake, by the names that they were asked for; threads may share it."""

    def __init__(self) -> None:
        self._remembered: dict[str, _Remembered[Definition]] = {}
        self._types: dict[Hashable, dict[str, str]] = {}
        self._seen = _Seen()

    def get(self, name: str, state: Callable[[int, int], Sequence[Any]], read: Callable[..., Definition]) -> Definition:
        """The definition of a table at a snapshot; `state` reads the row of `STATE`, given two other snapshots.

        Calls `read` if the definition is not remembered, or nothing proves it, and if the snapshot does not exist; its
        argument `exists` is True if the snapshot does.

        Raises:
            CatalogError: The catalog was replaced, as by a backup, and has a history of its own since.
        """
        remembered = self._remembered.get(name)
        newest = -1 if remembered is None else remembered.proof.newest
        seen = self._seen
        version, moment, seen_moment, seen_info, newest_now, moment_now, newest_version = state(
            newest, seen.snapshot_id
        )
        if seen_moment is not None:
            seen.check(_time(seen_moment), seen_info)
        if newest_now is not None:
            self._see(_Seen(newest_now, _time(moment_now)))
        if version is None:
            return read(exists=False)
        is_same = remembered is not None and remembered.proof.holds(version, moment, newest_version)
        value = remembered.value if remembered is not None and is_same else read(exists=True)
        # A proof by the snapshot that is the newest now lasts longer: older ones expire.
        _remember(self._remembered, name, _Remembered(value, _Proof(version, newest_now, moment_now, newest_version)))
        return value

    def is_newest(self, snapshot_id: int) -> bool:
        """True if no snapshot after this one has been seen."""
        return snapshot_id >= self._seen.snapshot_id

    def saw(self, snapshot_id: int, moment: datetime, info: str | None) -> None:
        """Compares the newest snapshot with the one that the reader has seen, or takes note of it."""
        if self._seen.snapshot_id == snapshot_id:
            self._seen.check(moment, info)
        else:
            self._see(_Seen(snapshot_id, moment))

    def committed(self, snapshot_id: int, token: str) -> None:
        """Takes note of a snapshot that a write of this lake committed, by the id of the write."""
        self._see(_Seen(snapshot_id, token=token))

    def _see(self, newest: _Seen) -> None:
        with _seeing:  # else a slow thread could go back to an older snapshot
            if newest.snapshot_id > self._seen.snapshot_id:
                self._seen = newest

    def types_of(self, columns: Hashable) -> dict[str, str] | None:
        """The types of columns, which depend on nothing but their definition; None if they are not known."""
        types = self._types.get(columns)
        return None if types is None else dict(types)

    def remember_types(self, columns: Hashable, types: dict[str, str]) -> None:
        """Takes note of the types of columns."""
        _remember(self._types, columns, dict(types))


def _remember(cache: dict[Any, Any], key: Hashable, value: object) -> None:
    if len(cache) >= _MOST:
        cache.clear()
    cache[key] = value


def check_not_replaced(last_seen: int, newest: int) -> None:
    """Rejects a catalog without a snapshot that was the newest one before: DuckLake never removes the newest."""
    if newest < last_seen:
        raise CatalogError(f"{_REPLACED}: its newest snapshot is {newest} instead of {last_seen}", hint=_OPEN_AGAIN)


def _time(text: str) -> datetime | str:
    """A time in the catalog, which DuckDB writes in the time zone of the connection; the text if Python cannot."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment if moment.tzinfo else text
