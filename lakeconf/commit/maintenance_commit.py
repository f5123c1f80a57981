"""Commits one step of a compaction, and resolves its outcome if the reply is lost."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from lakeconf import __version__
from lakeconf.catalog.table import TableInfo, tables
from lakeconf.catalog.table_name import joined_name
from lakeconf.commit.moved_values import check_flushed
from lakeconf.commit.recovery import changed, without_retries
from lakeconf.commit.session import Session
from lakeconf.ducklake import inlined_deletes_table
from lakeconf.errors import CommitError, LakeconfError
from lakeconf.guard.locks import Held, pauses
from lakeconf.logs import EventLogger
from lakeconf.sql import literal, qualified

_log = EventLogger("maintenance")
# The number of attempts while writers are active; after them, the step holds the lake's lock exclusively.
_ATTEMPTS_BESIDE_WRITERS = 5


class RowsChangedError(CommitError):
    """A step of a compaction would have changed the rows of a table; it was not committed."""


def of_table(schema: str, name: str) -> str:
    """The arguments of DuckLake's maintenance functions that limit them to a table; they follow other arguments."""
    return f", {literal(name)}, schema => {literal(schema)}"


def run_step(
    session: Session,
    call: str,
    settings: Mapping[str, str] | None = None,
    *,
    unchanged: Callable[[int], Iterable[TableInfo]] = lambda _: (),
    moved: Callable[[int], Iterable[TableInfo]] = lambda _: (),
) -> list[tuple[Any, ...]]:
    """Runs one step of a compaction in its own transaction, and repeats it if another commit is faster.

    DuckLake lets a compaction commit together with a concurrent delete that is stored in the catalog, and the deleted
    rows reappear. Without DuckLake's retries, a step that another commit overtook fails on its snapshot number.

    Args:
        session: The lake.
        call: The SQL that calls DuckLake's function.
        settings: Settings of DuckDB during the step.
        unchanged: Returns the tables whose row ids are compared before and after the call, given the latest snapshot.
        moved: Returns the tables of which the call writes rows of the catalog to files, given the latest snapshot.

    Returns:
        The rows that the call returned.

    Raises:
        RowsChangedError: The call would have changed the rows of one of these tables.
        ValuesChangedError: The call would have changed values of one of these tables.
        CommitError: Other writers were always faster, and nothing was changed. Or the commit succeeded, but files are
            missing; the message says so.
        CommitUnknownError: The outcome of the commit could not be determined.
    """
    for attempt, _ in enumerate(pauses()):
        step = _Step(session, call, unchanged, moved)
        # If other writers are always faster, they wait for this step.
        lock = (
            session.guard.writing()
            if attempt < _ATTEMPTS_BESIDE_WRITERS
            else _alone(session.guard.removing(force=True))
        )
        try:
            with lock as held, session.writer_lock, without_retries(session.writer):
                with changed(session.writer, settings or {}):
                    rows = step.run(held)
                if step.commit.made is not None:
                    # A flush can be a conflict for commits of others, but not for those of this thread.
                    session.advance(step.commit.made, own=step.commit.made, token=step.commit.token)
                return rows
        except LakeconfError as error:
            if not step.commit.lost_race(error, conflicts=True):
                raise
            _log.info("another writer overtook a compaction step; repeating the step")
    raise CommitError("the compaction lost every race with other writers", hint="try again later")


class _Step:
    """One attempt."""

    def __init__(
        self,
        session: Session,
        call: str,
        unchanged: Callable[[int], Iterable[TableInfo]],
        moved: Callable[[int], Iterable[TableInfo]],
    ) -> None:
        self._session, self._call, self._token = session, call, uuid.uuid4().hex
        self._unchanged, self._moved = unchanged, moved
        self._held: Held | None = None
        self._rows: list[tuple[Any, ...]] = []
        self.commit = session.new_commit(self._token)

    def run(self, held: Held | None) -> list[tuple[Any, ...]]:
        self._held = held
        self.commit.run(self._work)
        return self._rows

    def _work(self, begun: int) -> int | None:
        writer, alias = self._session.writer, literal(self._session.alias)
        with self._session.reader.one_state() as reader:
            check_flushed(writer, reader, self._session.alias, {info.table_id for info in self._moved(begun)})
        before = [(info, self._ids(info)) for info in self._unchanged(begun)]
        self._rows = writer.rows(self._call)
        for info, ids in before:
            if self._ids(info) != ids:
                raise RowsChangedError(f"the rows of {info.full_name} would change")
        # The token identifies the snapshot if the reply to the commit is lost.
        extra = literal(json.dumps({"lakeconf": __version__, "token": self._token}))
        writer.execute(f"CALL ducklake_set_commit_message({alias}, NULL, NULL, extra_info => {extra})")
        if self._held is not None:
            self._held.check()
        written = {joined_name(schema, table) for schema, table, *_ in self._rows}
        self.commit.catalog.keep_written(written | self._with_deletes(begun), begun)
        return None

    def _ids(self, info: TableInfo) -> tuple[object, ...]:
        """The number of rows, and a sum for their ids; or for a column `rowid`, whose values may be NULL."""
        # Not `count(*)`, which DuckLake answers from numbers in the catalog.
        named = qualified(self._session.alias, info.schema_name, info.name)
        (found,) = self._session.writer.rows(f"SELECT count(hash(rowid)), sum(hash(rowid)::HUGEINT) FROM {named}")
        return found

    def _with_deletes(self, begun: int) -> set[str]:
        """The tables with deletes in the catalog: a flush writes these to files, but does not return the tables."""
        found = tables(self._session.reader, begun)
        with self._session.reader.transaction() as transaction:
            return {info.full_name for info in found if transaction.has_table(inlined_deletes_table(info.table_id))}


@contextlib.contextmanager
def _alone(lock: AbstractContextManager[None]) -> Iterator[None]:
    with lock:
        yield None
