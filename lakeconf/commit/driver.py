"""Drives a commit: attempts, what follows a lost race, and the fate of an attempt whose reply is lost.

An attempt is a state that only moves forward. The state alone decides whether staged files may be removed: while a
commit may be in the catalog, its files are kept.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from lakeconf.errors import (
    CatalogLockedError,
    CommitConflictError,
    CommitError,
    CommitUnknownError,
    ConnectionFailed,
    LakeconfError,
)
from lakeconf.guard.locks import pauses
from lakeconf.logs import event_logger

if TYPE_CHECKING:
    from lakeconf.commit.actions import Action
    from lakeconf.commit.journal import CommitKey, Event
    from lakeconf.commit.staging import StagingArea

_log = event_logger("commit")
Answer = TypeVar("Answer", covariant=True)
# How long to look for a commit after its reply was lost. A failover takes up to a minute.
LOOK_UP_SECONDS = 60.0


class Phase(enum.IntEnum):
    """The phase of an attempt to commit."""

    OPEN = 0
    """COMMIT was not sent: staged files may be removed."""
    SENT = 1
    """COMMIT was sent and its outcome is unknown: staged files must be kept."""
    ABSENT = 2
    """COMMIT was sent, but the catalog proves that it does not contain the commit: staged files may be removed."""
    COMMITTED = 3
    """The commit is in the catalog: staged files must be kept, and no error may report a failed commit."""


class CommitProtocol(Protocol):
    """How a commit is carried out: by statements, or by a staged commit."""

    name: str  # its name in the information about a commit
    keeps_positions: bool  # True if the files of deleted positions become files of the lake

    @property
    def key_files(self) -> Sequence[str]:
        """The files with idempotency keys that the commit adds."""
        ...

    def carry_out(self, actions: Iterable[Action], begun: int) -> int:
        """Carries out actions inside the transaction; returns the number of new rows that was not known before."""
        ...

    def record(self, keys: Collection[CommitKey], events: Sequence[Event], staging: StagingArea) -> None:
        """Records keys and events."""
        ...

    def describe(self, author: str | None, message: str | None, info: str) -> bool:
        """Describes the commit; False if there is nothing to commit."""
        ...

    def written_tables(self, actions: Iterable[Action], *, records: bool) -> set[str]:
        """The tables for which DuckLake may have written files; `records` is True if keys or events were recorded."""
        ...

    def begin(self) -> int:
        """Begins a transaction and returns the snapshot that it reads."""
        ...

    def keep_written(self, tables: Collection[str], created: Collection[str], begun: int) -> None:
        """Keeps the files that DuckLake has written for some tables, if the reply to COMMIT can be lost."""
        ...

    def restore_written(self) -> None:
        """Restores kept files that DuckLake has removed; raises no errors."""
        ...

    def release_written(self) -> None:
        """Releases the kept files."""
        ...

    def commit(self) -> None:
        """Sends COMMIT and waits for the reply."""
        ...

    def roll_back(self) -> None:
        """Rolls back the transaction, if one is open."""
        ...

    def last_committed(self, begun: int) -> int:
        """The snapshot of the commit that has just succeeded; `begun` if the commit created no snapshot."""
        ...

    def find(self, begun: int, *, answered: bool) -> int | None:
        """The snapshot of the commit; None if it has failed for sure. If not `answered`, it may still be running."""
        ...

    def check_written(self, snapshot_id: int) -> None:
        """Checks that the files that a snapshot added exist."""
        ...


@dataclass
class Attempt:
    """One attempt to commit."""

    protocol: CommitProtocol
    token: str
    phase: Phase = Phase.OPEN
    snapshot_id: int | None = None  # the snapshot of the commit; None if there is none, or it is not known

    @property
    def is_unknown(self) -> bool:
        """True if the commit may be in the catalog or not: staged files must be kept."""
        return self.phase is Phase.SENT

    def unknown(self) -> CommitUnknownError | None:
        """The error that says what to do if the outcome is unknown; None if it is known."""
        if not self.is_unknown:
            return None
        return self._unknown("the commit was interrupted, and its outcome could not be determined")

    def _unknown(self, what: str) -> CommitUnknownError:
        return CommitUnknownError(
            f"{what}. The commit may have succeeded, so its files were kept",
            hint=f"look for the token {self.token} in the snapshots' extra_info before you try again: if it is there, "
            "the commit succeeded; otherwise `lakeconf maintain` removes the files later",
        )

    def lost_race(self, error: LakeconfError, *, conflicts: bool) -> bool:
        """True if the attempt failed only because another commit was faster or held the catalog's lock."""
        if isinstance(error, CatalogLockedError):
            return self.phase in (Phase.OPEN, Phase.ABSENT)
        if self.phase is not Phase.ABSENT:
            return False
        return error.overtaken or (conflicts and isinstance(error, CommitConflictError))

    def run(self, work: Callable[[int], int | None]) -> int:
        """Runs the attempt; returns the new snapshot, or the snapshot of `work` if there is nothing to commit."""
        try:
            return self._run(work)
        finally:
            self.protocol.release_written()

    def _run(self, work: Callable[[int], int | None]) -> int:
        try:
            begun = self.protocol.begin()
            answer = work(begun)
        except BaseException:
            self.protocol.roll_back()
            raise
        if answer is not None:
            self.protocol.roll_back()
            return answer
        try:
            self._move_to(Phase.SENT)
            self.protocol.commit()
            self._move_to(Phase.COMMITTED)
        except BaseException as error:  # a signal can arrive at any time, and does not mean that the commit failed
            if self.phase is not Phase.SENT:
                raise
            return self._resolve(error, begun)
        return self._snapshot(begun)

    def _move_to(self, phase: Phase) -> None:
        if phase < self.phase:
            raise AssertionError(f"a commit cannot go back from {self.phase.name} to {phase.name}")
        self.phase = phase

    def _snapshot(self, begun: int) -> int:
        """The snapshot of a successful commit; `begun` if it created none or the catalog does not answer."""
        last: int | None = None
        try:
            last = self.protocol.last_committed(begun)
        except LakeconfError:  # DuckLake does not know the snapshot, so ask the server
            try:
                last = self._look_up(begun, answered=False)
            except LakeconfError as error:
                reason = type(error).__name__
                _log.warning("commit %s succeeded, but its snapshot could not be read: %s", self.token, reason)
        self.snapshot_id = last if last is not None and last > begun else None
        return self.snapshot_id or begun

    def _resolve(self, error: BaseException, begun: int) -> int:
        """Determines the outcome of a commit whose reply is an error or was not received."""
        self.protocol.roll_back()
        answered = isinstance(error, CatalogLockedError) or (isinstance(error, CommitError) and error.overtaken)
        try:
            if isinstance(error, ConnectionFailed) or not isinstance(error, LakeconfError):  # no reply
                # Before the look-up, which takes up to a minute: this process may be killed meanwhile. If the commit
                # has failed, the files stay: nobody knows which of them belong to another writer.
                self.protocol.restore_written()
            snapshot_id = self._look_up(begun, answered=answered)
        except BaseException as unknown:
            self.protocol.restore_written()
            if not isinstance(unknown, LakeconfError):
                raise
            if not isinstance(error, LakeconfError):
                _log.error("commit %s was interrupted and its outcome is unknown: its files were kept", self.token)
                raise error from unknown
            raise unknown from error
        if snapshot_id is None:
            self._move_to(Phase.ABSENT)
            if isinstance(error, ConnectionFailed) and not answered:
                absent = CommitError(f"nothing was written: {error.message}", hint="try again")
                absent.overtaken = error.overtaken
                raise absent from error
            raise error
        self._move_to(Phase.COMMITTED)
        self.snapshot_id = snapshot_id
        self.protocol.restore_written()
        if not isinstance(error, LakeconfError):
            _log.warning("commit %s was interrupted, but succeeded as snapshot %s", self.token, snapshot_id)
            self._check_written(snapshot_id)
            raise error
        _log.warning("the reply to commit %s was lost, but it succeeded as snapshot %d", self.token, snapshot_id)
        self._check_written(snapshot_id)
        return snapshot_id

    def _check_written(self, snapshot_id: int) -> None:
        """Checks the files of a commit whose reply was lost. The commit is certain: only missing files are an error."""
        last: LakeconfError | None = None
        for _ in pauses(LOOK_UP_SECONDS):
            try:
                self.protocol.check_written(snapshot_id)
            except CommitError:
                raise
            except LakeconfError as error:
                last = error
            else:
                return
        reason = type(last).__name__ if last else "no time was left"
        _log.warning("commit %s succeeded, but its files could not be checked: %s", self.token, reason)

    def _look_up(self, begun: int, *, answered: bool) -> int | None:
        last: LakeconfError | None = None
        for _ in pauses(LOOK_UP_SECONDS):
            try:
                return self.protocol.find(begun, answered=answered)
            except LakeconfError as error:
                last = error
        reason = last.message if last else "no time was left to look for the commit"
        raise self._unknown(f"the reply to a commit was lost, and the catalog does not answer: {reason}")


class Work(Protocol[Answer]):
    """What is committed: the actions of a transaction, or a step of maintenance."""

    def attempt(self, number: int) -> Answer:
        """Makes an attempt, counted from 0, under its locks."""
        ...

    def lost_race(self, error: LakeconfError) -> bool:
        """True if the attempt failed only because another commit was faster; prepares the next one."""
        ...


def drive(work: Work[Answer], name: str) -> Answer:
    """Repeats an attempt until it succeeds, or fails for another reason than a faster commit."""
    last: LakeconfError | None = None
    for number, _ in enumerate(pauses()):
        try:
            return work.attempt(number)
        except LakeconfError as error:
            if not work.lost_race(error):
                raise
            last = error
    raise CommitError(f"{name} lost every race with other writers: {last}", hint="try again later")
