"""A step of a compaction: one call of DuckLake in its own transaction, which must not change rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeconf import __version__
from lakeconf.catalog.table_options import comments
from lakeconf.catalog.tables import TableInfo, joined_name, tables
from lakeconf.commit.driver import Attempt, drive
from lakeconf.commit.moved_values import check_flushed
from lakeconf.commit.session import Session, default_author
from lakeconf.commit.sql_commit import changed_settings, without_retries
from lakeconf.ducklake import inlined_deletes_table
from lakeconf.errors import CatalogLockedError, CommitError, LakeconfError
from lakeconf.guard.locks import Held
from lakeconf.logs import event_logger
from lakeconf.sql import literal, qualified

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lakeconf.catalog.reader import CatalogReader

_log = event_logger("maintenance")
# The number of attempts while writers are active; after them, the step holds the lake's lock exclusively.
_ATTEMPTS_BESIDE_WRITERS = 5


class RowsChangedError(CommitError):
    """A step of a compaction would have changed the rows of a table; it was not committed."""


def of_table(schema: str, name: str) -> str:
    """The arguments of DuckLake's maintenance functions that limit them to a table; they follow other arguments."""
    return f", {literal(name)}, schema => {literal(schema)}"


def _no_tables(_: int) -> Iterable[TableInfo]:
    return ()


@dataclass
class CompactionStep:
    """One step; `driver.drive` attempts it again if another commit is faster.

    DuckLake lets a compaction commit together with a concurrent delete that is stored in the catalog, and the deleted
    rows reappear. Without DuckLake's retries, a step that another commit overtook fails on its snapshot number.
    """

    session: Session
    call: str  # the SQL that calls DuckLake's function
    settings: Mapping[str, str] = field(default_factory=dict)  # settings of DuckDB during the step
    # The tables whose row ids are compared before and after the call, given the latest snapshot.
    unchanged: Callable[[int], Iterable[TableInfo]] = _no_tables
    # The tables of which the call writes rows of the catalog to files, given the latest snapshot.
    moved: Callable[[int], Iterable[TableInfo]] = _no_tables
    _attempt: Attempt | None = None
    _rows: list[tuple[Any, ...]] = field(default_factory=list)

    def run(self) -> list[tuple[Any, ...]]:
        """Runs the step, and returns the rows of the call."""
        return drive(self, "the compaction")

    def attempt(self, number: int) -> list[tuple[Any, ...]]:
        session, token = self.session, uuid.uuid4().hex
        attempt = self._attempt = session.new_attempt(token)
        with self._lock(number) as held, session.writer_lock, without_retries(session.writer):
            with changed_settings(session.writer, self.settings):
                attempt.run(lambda begun: self._carry_out(attempt, held, begun))
            if attempt.snapshot_id is not None:
                # A flush can be a conflict for commits of others, but not for those of this thread.
                session.advance(attempt.snapshot_id, own=attempt.snapshot_id, token=token)
        return self._rows

    def lost_race(self, error: LakeconfError) -> bool:
        is_lost = self._attempt is not None and self._attempt.lost_race(error, conflicts=True)
        if is_lost:
            _log.info("another writer overtook a compaction step; repeating the step")
        return is_lost

    def _lock(self, number: int) -> AbstractContextManager[Held | None]:
        """The lake's lock; if other writers are always faster, they wait for this step."""
        guard = self.session.guard
        return guard.writing() if number < _ATTEMPTS_BESIDE_WRITERS else _alone(guard.removing(force=True))

    def _carry_out(self, attempt: Attempt, held: Held | None, begun: int) -> None:
        writer, alias = self.session.writer, literal(self.session.alias)
        with self.session.reader.one_state() as reader:
            moved = {info.table_id: info for info in self.moved(begun)}
            check_flushed(writer, reader, self.session.alias, moved)
            superseded = _superseded(reader, moved)
            renewed = [_renewal(reader, self.session.alias, moved[table_id], begun) for table_id in superseded]
        before = [(info, self._ids(info)) for info in self.unchanged(begun)]
        self._rows = writer.rows(self.call)
        for info, ids in before:
            if self._ids(info) != ids:
                raise RowsChangedError(f"the rows of {info.full_name} would change")
        for statement in renewed:
            writer.execute(statement)
        # The token identifies the snapshot if the reply to the commit is lost.
        extra = literal(json.dumps({"lakeconf": __version__, "token": attempt.token}))
        author = literal(default_author())
        writer.execute(f"CALL ducklake_set_commit_message({alias}, {author}, NULL, extra_info => {extra})")
        if held is not None:
            held.check()
        written = {joined_name(schema, table) for schema, table, *_ in self._rows}
        attempt.protocol.keep_written(written | self._with_deletes(begun), (), begun)

    def _ids(self, info: TableInfo) -> tuple[object, ...]:
        """The number of rows, and a sum for their ids; or for a column `rowid`, whose values may be NULL."""
        # Not `count(*)`, which DuckLake answers from numbers in the catalog.
        named = qualified(self.session.alias, info.schema_name, info.name)
        (ids,) = self.session.writer.rows(f"SELECT count(hash(rowid)), sum(hash(rowid)::HUGEINT) FROM {named}")
        return ids

    def _with_deletes(self, begun: int) -> set[str]:
        """The tables with deletes in the catalog: a flush writes these to files, but does not return the tables."""
        infos = tables(self.session.reader, begun)
        with self.session.reader.transaction() as transaction:
            return {info.full_name for info in infos if transaction.has_table(inlined_deletes_table(info.table_id))}


def _superseded(reader: CatalogReader, moved: Collection[int]) -> list[int]:
    """The tables whose columns have changed since rows were written to the catalog: a flush drops its older tables."""
    query = "SELECT table_id FROM ducklake_inlined_data_tables GROUP BY table_id HAVING count(*) > 1"
    with reader.transaction() as transaction:
        return [table_id for (table_id,) in transaction.rows(query) if table_id in moved]


def _renewal(reader: CatalogReader, alias: str, info: TableInfo, begun: int) -> str:
    """The statement that gives a table its comment again, so that it has a new schema version.

    Lakes that are open elsewhere, also without lakeconf, remember the tables of the catalog until then, and would fail.
    """
    comment = comments(reader, info, begun).table
    named = qualified(alias, info.schema_name, info.name)
    return f"COMMENT ON TABLE {named} IS {'NULL' if comment is None else literal(comment)}"


@contextmanager
def _alone(lock: AbstractContextManager[None]) -> Iterator[None]:
    with lock:
        yield None


@dataclass(frozen=True)
class CatalogStatement:
    """A statement of maintenance in its own transaction, such as DuckLake's expiry; it waits for a locked catalog."""

    session: Session
    sql: str
    parameters: Sequence[object] = ()

    def run(self) -> list[tuple[Any, ...]]:
        """Runs the statement, and returns its rows.

        Raises:
            CommitError: The catalog stayed locked.
        """
        return drive(self, "the maintenance")

    def attempt(self, number: int) -> list[tuple[Any, ...]]:
        del number
        with self.session.writer_lock:
            return self.session.writer.rows(self.sql, self.parameters)

    def lost_race(self, error: LakeconfError) -> bool:
        return isinstance(error, CatalogLockedError)
