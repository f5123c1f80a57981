"""One attempt to commit, as a state that only moves forward.

What may be done to staged files depends on the state alone: as long as a commit may be in the catalog, its files stay.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from lakeconf.errors import (
    CatalogLockedError,
    CommitConflictError,
    CommitError,
    CommitUnknownError,
    ConnectionFailed,
    LakeconfError,
)
from lakeconf.guard.locks import pauses
from lakeconf.logs import EventLogger

_log = EventLogger("commit")
# How long the outcome of a commit is looked up after its reply was lost. A fail-over takes up to a minute.
LOOK_UP_SECONDS = 60.0
# DuckLake was not to try again, whatever the error was; and reasons that say that another commit came first.


class Phase(enum.IntEnum):
    """How far an attempt has come."""

    OPEN = 0
    """COMMIT was not sent: staged files may be removed."""
    SENT = 1
    """COMMIT was sent and its outcome is not known: staged files must stay."""
    ABSENT = 2
    """COMMIT was sent and is proven not to be in the catalog: staged files may be removed."""
    COMMITTED = 3
    """The commit is in the catalog: staged files must stay, and no error may call it failed."""


class Catalog(Protocol):
    """What an attempt does to the catalog."""

    def begin(self) -> int:
        """Begins a transaction and returns the snapshot that it sees."""
        ...

    def keep_written(self, tables: Collection[str], begun: int) -> None:
        """Keeps the files that the transaction has written, where the reply to COMMIT can be lost.

        Args:
            tables: The full names of the tables for which DuckLake has written files.
            begun: The snapshot that the transaction sees.
        """
        ...

    def restore_written(self) -> None:
        """Puts back the kept files that DuckLake has removed; raises nothing."""
        ...

    def release_written(self) -> None:
        """Forgets the kept files."""
        ...

    def commit(self) -> None:
        """Sends COMMIT and waits for the reply."""
        ...

    def roll_back(self) -> None:
        """Ends the transaction; does nothing where there is none."""
        ...

    def last_committed(self, begun: int) -> int:
        """The snapshot of the commit that has just succeeded; `begun` where it made none."""
        ...

    def find(self, begun: int, *, answered: bool) -> int | None:
        """Looks the commit up.

        Args:
            begun: The snapshot that its transaction saw.
            answered: False where the commit may still be under way on the server.

        Returns:
            Its snapshot; None where it is proven that there is none and that none will come.

        Raises:
            LakeconfError: Neither can be known now.
        """
        ...

    def check_written(self, snapshot_id: int) -> None:
        """Checks that the files which a snapshot has added exist.

        Raises:
            CommitError: A file does not exist.
        """
        ...


@dataclass
class Commit:
    """One attempt to commit.

    Attributes:
        catalog: The catalog.
        token: The name of the write, by which its snapshot can be found.
        phase: How far the attempt has come.
        made: The snapshot that it has made; None where there is none or its number is not known.
    """

    catalog: Catalog
    token: str
    phase: Phase = Phase.OPEN
    made: int | None = None

    @property
    def may_discard(self) -> bool:
        """True where it is certain that the commit is not in the catalog."""
        return self.phase in (Phase.OPEN, Phase.ABSENT)

    def lost_race(self, error: LakeconfError, *, conflicts: bool) -> bool:
        """Whether the attempt failed only because another commit came first or held the catalog's lock.

        Args:
            error: What `run` has raised.
            conflicts: True where another attempt would find every conflict by its own checks.
        """
        if isinstance(error, CatalogLockedError):
            return self.may_discard
        if self.phase is not Phase.ABSENT:
            return False
        return error.overtaken or (conflicts and isinstance(error, CommitConflictError))

    def run(self, work: Callable[[int], int | None]) -> int:
        """Carries out the attempt.

        Args:
            work: Does everything inside the transaction. Takes the snapshot that the transaction sees, and returns the
                snapshot to answer with where there is nothing to commit, else None.

        Returns:
            The new snapshot, or the answer of `work`.

        Raises:
            CommitUnknownError: The outcome could not be found out; the phase stays SENT.
            LakeconfError: Nothing was committed; or, in the phase COMMITTED, the committed files are damaged.
        """
        try:
            return self._run(work)
        finally:
            self.catalog.release_written()

    def _run(self, work: Callable[[int], int | None]) -> int:
        try:
            begun = self.catalog.begin()
            answer = work(begun)
        except BaseException:
            self.catalog.roll_back()
            raise
        if answer is not None:
            self.catalog.roll_back()
            return answer
        try:
            self._move_to(Phase.SENT)
            self.catalog.commit()
            self._move_to(Phase.COMMITTED)
        except BaseException as error:  # a signal may come at any moment, and says nothing about the commit
            if self.phase is not Phase.SENT:
                raise
            return self._resolve(error, begun)
        return self._snapshot(begun)

    def _move_to(self, phase: Phase) -> None:
        if phase < self.phase:
            raise AssertionError(f"a commit cannot go back from {self.phase.name} to {phase.name}")
        self.phase = phase

    def _snapshot(self, begun: int) -> int:
        """The snapshot of a commit that has succeeded; `begun` where it made none or the catalog does not answer."""
        found: int | None = None
        try:
            found = self.catalog.last_committed(begun)
        except LakeconfError:  # DuckLake does not say, so only the server can
            try:
                found = self._look_up(begun, answered=False)
            except LakeconfError as error:
                reason = type(error).__name__
                _log.warning("commit %s succeeded, but its snapshot could not be read: %s", self.token, reason)
        self.made = found if found is not None and found > begun else None
        return self.made or begun

    def _resolve(self, error: BaseException, begun: int) -> int:
        """Finds out what became of a commit whose reply is an error or was not waited for."""
        self.catalog.roll_back()
        answered = isinstance(error, CatalogLockedError) or (isinstance(error, CommitError) and error.overtaken)
        try:
            found = self._look_up(begun, answered=answered)
        except BaseException as unknown:
            self.catalog.restore_written()
            if not isinstance(unknown, LakeconfError):
                raise
            if not isinstance(error, LakeconfError):
                _log.error("commit %s was interrupted, and its outcome is not known: its files were kept", self.token)
                raise error from unknown
            raise unknown from error
        if found is None:
            self._move_to(Phase.ABSENT)
            if isinstance(error, ConnectionFailed) and not answered:
                absent = CommitError(f"nothing was written: {error.message}", hint="do it again")
                absent.overtaken = error.overtaken
                raise absent from error
            raise error
        self._move_to(Phase.COMMITTED)
        self.made = found
        self.catalog.restore_written()
        if not isinstance(error, LakeconfError):
            _log.warning("commit %s was interrupted, but succeeded as snapshot %s", self.token, found)
            self.catalog.check_written(found)
            raise error
        _log.warning("the reply to commit %s was lost, but it succeeded as snapshot %d", self.token, found)
        self.catalog.check_written(found)
        return found

    def _look_up(self, begun: int, *, answered: bool) -> int | None:
        last: LakeconfError | None = None
        for _ in pauses(LOOK_UP_SECONDS):
            try:
                return self.catalog.find(begun, answered=answered)
            except LakeconfError as error:
                last = error
        reason = last.message if last else "no time was left to ask"
        raise CommitUnknownError(
            f"the reply to a commit was lost, and the catalog does not answer: {reason}. The commit may have "
            "succeeded, so its files were kept",
            hint=f"before you try again, look for the token {self.token} in the snapshots' extra_info: where it is "
            "there, the commit succeeded; where it is not, `lakeconf maintain` removes the files later",
        )
