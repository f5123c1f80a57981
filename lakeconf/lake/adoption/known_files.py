"""The files that a table has adopted: a second run adds new files only, and notices what the source has changed.

The journal has an event for each adoption, under the name that the table had. A restore and a copy give rows to a table
that another one, or an earlier state, had adopted: they record an event with all files whose rows they brought.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lakeconf.catalog.data_file import DataFile, load_data_files
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import TableInfo, split_name
from lakeconf.commit import journal
from lakeconf.commit.journal import recorded_name
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.errors import CommitConflictError, StorageError, UnsupportedError, listed
from lakeconf.lake.adoption.folder import Folder, spelled
from lakeconf.lake.run_journal import RESTORED, FileState, ModelRun, RunJournal
from lakeconf.sql import folded, qualified
from lakeconf.wording import counted

_SHOWN = 3
_AGAIN = "adopt into a new table"


@dataclass(frozen=True)
class KnownFiles:
    """The files that a table has adopted, whether it still has their rows or not."""

    model: str  # the name under which the journal gets the next adoption
    earlier: int  # the number of its events under this name
    states: Mapping[str, FileState]  # the states of the files when they were adopted
    live: frozenset[str] = frozenset()  # the files outside the data path that have rows of the table now
    # The files that other tables have adopted, if the table has rows that could be copies of theirs.
    doubtful: frozenset[str] = frozenset()

    def check(self, root: str, paths: Collection[str], table: str) -> None:
        """Rejects a source that no longer has all files that the table has adopted from it.

        If it has written their rows to new files, such as to compact them, the rows would be there twice.
        """
        unknown = [path for path in self.live if path.startswith(root) and path not in self.states]
        if unknown or not self.doubtful.isdisjoint(paths):
            raise UnsupportedError(
                f"lakeconf does not know which files of {root} {table} has adopted: it may have copies of rows that "
                "another table has adopted, or files were registered without lakeconf",
                hint=_AGAIN,
            )
        gone = sorted(path for path in self.states if path.startswith(root) and path not in paths)
        if gone:
            raise CommitConflictError(
                f"{root} has removed or rewritten {counted(len(gone), 'file')} that {table} has adopted: "
                f"{listed(gone, _SHOWN)}; nothing was adopted, because rows could be there twice",
                hint=_AGAIN,
            )

    def check_moved(self, folder: Folder, new: Mapping[str, FileState], table: str) -> None:
        """Rejects files that seem to be adopted ones which were moved: their rows would be there twice."""
        names = {(path.rpartition("/")[2], state.size): path for path, state in new.items()}
        for path, state in self.states.items():
            moved = names.get((path.rpartition("/")[2], state.size))
            if moved is not None and not path.startswith(folder.root) and not folder.exists(path):
                raise StorageError(
                    f"{table} has adopted {path}, which no longer exists, and {moved} has its name and size: nothing "
                    "was adopted, because rows could be there twice",
                    hint="put the folder back in its place; or adopt into a new table",
                )


class AdoptedFiles:
    """The recorded events of the adopted files of all tables of a lake."""

    def __init__(self, reader: CatalogReader) -> None:
        events = journal.events_like(reader.connection, reader.alias, journal.ADOPTIONS)
        self._reader, self._events = reader, sorted(events, key=lambda event: event.snapshot_id or 0)

    def of_table(self, info: TableInfo) -> list[ModelRun]:
        """The events of a table under all names that it has had, oldest first."""
        periods = journal.names_of(self._reader, info.table_id)[1] if self._events else ()
        return [
            ModelRun.of(event)
            for event in self._events
            if any(
                folded(event.model) == folded(journal.ADOPTIONS + period.table) and period.is_at(event.snapshot_id or 0)
                for period in periods
            )
        ]

    def next_of(self, info: TableInfo | None, table: str) -> tuple[str, int]:
        """The name under which the journal gets the next event of a table, and the number of those before it."""
        names = split_name(table) if info is None else (info.schema_name, info.name)
        model = f"{journal.ADOPTIONS}{recorded_name(*names)}"
        return model, sum(event.model == model for event in self._events)

    def paths(self) -> frozenset[str]:
        """The paths of all files that tables of the lake have ever adopted."""
        return frozenset(path for event in self._events for path in ModelRun.of(event).files)

    def record(
        self, scope: Scope, source: AdoptedFiles, then: TableInfo, version: int, now: TableInfo | None, table: str
    ) -> None:
        """Records in the open transaction that a table gets the rows that a table of `source` had at a version."""
        before, replaced = source.of_table(then), [] if now is None else self.of_table(now)
        if before or replaced:
            states, (model, earlier) = _states(before, version), self.next_of(now, table)
            run = ModelRun(
                model, RESTORED, uuid.uuid4().hex, files=tuple(states), earlier=earlier, file_states=states,
                restored=version,
            )  # fmt: skip
            RunJournal(scope).record(run)


def known_files(session: Session, info: TableInfo | None, table: str, snapshot_id: int) -> KnownFiles:
    """The files that a table has adopted under its names; what tables before it had adopted does not count."""
    reader = session.reader
    adopted = AdoptedFiles(reader)
    model, earlier = adopted.next_of(info, table)
    if info is None:
        return KnownFiles(model, earlier, {})
    events = adopted.of_table(info)
    with reader.transaction() as transaction:
        files = load_data_files(transaction, info, snapshot_id)
    outside = [file for file in files if not file.path.startswith(reader.data_path)]
    is_doubtful = not events and (len(files) > len(outside) or _has_other_rows(reader, info, snapshot_id, outside))
    like = reader.data_path
    states = {spelled(path, like): state for path, state in _states(events).items()}
    live, doubtful = (file.path for file in outside), adopted.paths() if is_doubtful else ()
    return KnownFiles(
        model, earlier, states, *(frozenset(spelled(path, like) for path in each) for each in (live, doubtful))
    )


def _states(events: Sequence[ModelRun], version: int | None = None) -> Mapping[str, FileState]:
    """The files that a table had adopted at a version, by its events: a restore takes the place of those before it."""
    states: Mapping[str, FileState] = {}
    for event in events:
        if version is None or (event.snapshot_id or 0) <= version:
            states = event.file_states if event.definition == RESTORED else {**states, **event.file_states}
    return states


def _has_other_rows(reader: CatalogReader, info: TableInfo, snapshot_id: int, files: Sequence[DataFile]) -> bool:
    """True if a table has rows that are in none of some files."""
    table = qualified(reader.alias, info.schema_name, info.name)
    ((count,),) = reader.connection.rows(f"SELECT count(*) FROM {table} AT (VERSION => {snapshot_id})")
    return int(count) > sum(file.rows for file in files)
