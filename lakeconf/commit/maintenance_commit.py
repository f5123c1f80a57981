"""Commits a step of compaction, which no other commit may overtake, and finds out what became of it."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from lakeconf import __version__
from lakeconf.catalog.table import tables
from lakeconf.commit.recovery import without_retries
from lakeconf.commit.session import Session
from lakeconf.ducklake import inlined_deletes_table
from lakeconf.errors import CommitError, LakeconfError
from lakeconf.guard.locks import Held, pauses
from lakeconf.logs import EventLogger
from lakeconf.sql import literal

_log = EventLogger("maintenance")
# How often a step is tried while writers are at work; then it holds the lock of the lake alone.
_ATTEMPTS_BESIDE_WRITERS = 5


def run_step(session: Session, call: str) -> list[tuple[Any, ...]]:
    """Runs a step of compaction in a transaction of its own, and repeats it if another commit overtakes it.

    DuckLake lets a compaction commit beside a delete whose rows the catalog holds, and the deleted rows are back.
    Without retries of DuckLake, a step that was overtaken fails on the number of its snapshot.

    Args:
        session: The lake.
        call: The call of DuckLake's function.

    Returns:
        The rows of the call.

    Raises:
        CommitError: Other writers were always faster, and nothing was changed; or files that the commit has recorded
            do not exist, as the message says.
        CommitUnknownError: It could not be found out whether the step was committed.
    """
    for attempt, _ in enumerate(pauses()):
        step = _Step(session, call)
        # Writers that are always faster wait for one step.
        lock = session.guard.writing() if attempt < _ATTEMPTS_BESIDE_WRITERS else _alone(session.guard.removing())
        try:
            with lock as held, session.writer_lock, without_retries(session.writer):
                return step.run(held)
        except LakeconfError as error:
            if not step.commit.lost_race(error, conflicts=True):
                raise
            _log.info("a step of compaction was overtaken by another writer and is repeated")
    raise CommitError("other writers were always faster than the compaction", hint="try again later")


class _Step:
    """One attempt."""

    def __init__(self, session: Session, call: str) -> None:
        self._session, self._call, self._token = session, call, uuid.uuid4().hex
        self._held: Held | None = None
        self._rows: list[tuple[Any, ...]] = []
        self.commit = session.new_commit(self._token)

    def run(self, held: Held | None) -> list[tuple[Any, ...]]:
        self._held = held
        self.commit.run(self._work)
        return self._rows

    def _work(self, begun: int) -> int | None:
        writer, alias = self._session.writer, literal(self._session.alias)
        self._rows = writer.rows(self._call)
        # By its token the snapshot is found if the reply to the commit is lost.
        info = literal(json.dumps({"lakeconf": __version__, "token": self._token}))
        writer.execute(f"CALL ducklake_set_commit_message({alias}, NULL, NULL, extra_info => {info})")
        if self._held is not None:
            self._held.check()
        written = {f"{schema}.{table}" for schema, table, *_ in self._rows}
        self.commit.catalog.keep_written(written | self._with_deletes(begun), begun)
        return None

    def _with_deletes(self, begun: int) -> set[str]:
        """The tables with deletes in the catalog: a flush writes them to files, but does not return such a table."""
        found = tables(self._session.reader, begun)
        with self._session.reader.transaction() as transaction:
            return {
                f"{info.schema_name}.{info.name}"
                for info in found
                if transaction.has_table(inlined_deletes_table(info.table_id))
            }


@contextlib.contextmanager
def _alone(lock: AbstractContextManager[None]) -> Iterator[None]:
    with lock:
        yield None
