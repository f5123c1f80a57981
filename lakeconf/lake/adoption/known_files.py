"""The files that a table has adopted: a second run adds new files only, and notices what the source has changed.

The journal has an event for each adoption, under the name that the table had. A restore or a copy can bring rows that
an earlier state of the table, or another table, has adopted: it records an event with the files of these rows.

All other rows of a table, in files that the lake has written, could come from the files that other tables have adopted
or that models have loaded. So the table does not adopt these files.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import basename

from lakeconf.catalog.data_file import DataFile, load_data_files
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import TableInfo, full_name
from lakeconf.commit import journal
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.errors import CommitConflictError, StorageError, UnsupportedError, listed
from lakeconf.lake.adoption.folder import Folder, spelled
from lakeconf.lake.run_journal import RESTORED, FileState, ModelRun, RunJournal
from lakeconf.sql import folded, qualified
from lakeconf.wording import counted

_SHOWN = 3
_AGAIN = "adopt into a new table"
# In place of the name of a table, which has a dot: the files that tables of another lake have adopted before a copy.
_COPIED = f"{journal.ADOPTIONS}another lake"
_KNOWN = "SELECT path FROM ducklake_data_file UNION SELECT path FROM ducklake_files_scheduled_for_deletion"


@dataclass(frozen=True)
class KnownFiles:
    """The files that a table has adopted, whether it still has their rows or not."""

    model: str  # the name under which the journal gets the next adoption
    earlier: int  # the number of its events under this name
    states: Mapping[str, FileState]  # the states of the files when they were adopted
    live: frozenset[str] = frozenset()  # the files outside the data path that have rows of the table now
    removed: frozenset[str] = frozenset()  # those of `states` that the lake owned, and has removed
    # The files that other tables have adopted or loaded, if the table has rows that could be copies of theirs.
    doubtful: Mapping[str, FileState | None] = field(default_factory=dict)

    def check(self, root: str, files: Mapping[str, FileState], table: str) -> None:
        """Rejects a source that no longer has all files that the table has adopted from it.

        If it has written their rows to new files, such as to compact them, the rows would be there twice.
        """
        unknown = [path for path in self.live if path.startswith(root) and path not in self.states]
        if unknown or self._has_doubtful(files):
            raise UnsupportedError(
                f"lakeconf does not know which files of {root} {table} has adopted: it may have copies of rows that "
                "another table has adopted or a model has loaded, or files were registered without lakeconf",
                hint=_AGAIN,
            )
        gone = sorted(path for path in self.states.keys() - files.keys() - self.removed if path.startswith(root))
        if gone:
            raise CommitConflictError(
                f"{root} has removed or rewritten {counted(len(gone), 'file')} that {table} has adopted: "
                f"{listed(gone, _SHOWN)}; nothing was adopted, because rows could be there twice",
                hint=_AGAIN,
            )

    def _has_doubtful(self, files: Mapping[str, FileState]) -> bool:
        """True if one of the files is doubtful by its path, or by its name, size and time: it may have been moved."""
        # Models record paths as their patterns have them: some are relative to a folder that nobody knows here.
        ends = {
            re.sub(r"^(\.\./)+", "", path) for path in self.doubtful if not path.startswith("/") and "://" not in path
        }
        same = {(basename(path), state) for path, state in self.doubtful.items() if state is not None}
        return any(
            path in self.doubtful
            or (basename(path), state) in same
            or (ends and any(path[match.end() :] in ends for match in re.finditer("/", path)))
            for path, state in files.items()
            if path not in self.states
        )

    def check_moved(self, folder: Folder, new: Mapping[str, FileState], table: str) -> None:
        """Rejects files that seem to be adopted ones which were moved: their rows would be there twice."""
        names = {(basename(path), state.size): path for path, state in new.items()}
        for path, state in self.states.items():
            moved = names.get((basename(path), state.size))
            if moved is not None and not path.startswith(folder.root) and not folder.exists(path):
                raise StorageError(
                    f"{table} has adopted {path}, which no longer exists or is behind a link, and {moved} has its name "
                    "and size: nothing was adopted, because rows could be there twice",
                    hint="put the folder back in its place; or adopt into a new table",
                )


class AdoptedFiles:
    """The recorded events of the adopted files of all tables of a lake, and of the files that models have loaded."""

    def __init__(self, reader: CatalogReader) -> None:
        events = journal.events_with_files(reader.connection, reader.alias)
        self._reader, self._runs = reader, [ModelRun.of(event) for event in events]
        self._adoptions = [run for run in self._runs if run.model.startswith(journal.ADOPTIONS)]

    def of_table(self, info: TableInfo) -> list[ModelRun]:
        """The events of a table under all names that it has had, oldest first."""
        periods = journal.names_of(self._reader, info.table_id)[1] if self._adoptions else ()
        return [
            run
            for run in self._adoptions
            if any(
                folded(run.model) == folded(journal.ADOPTIONS + period.full_name) and period.is_at(run.snapshot_id or 0)
                for period in periods
            )
        ]

    def next_of(self, table: str) -> tuple[str, int]:
        """The name under which the journal gets the next event of a table, and the number of those before it."""
        model = f"{journal.ADOPTIONS}{full_name(table)}"
        return model, self._count(model)

    def _count(self, model: str) -> int:
        return sum(run.model == model for run in self._adoptions)

    def paths(self) -> frozenset[str]:
        """The paths of all files that tables of the lake have ever adopted."""
        return frozenset(path for run in self._adoptions for path in run.files)

    def of_others(self, info: TableInfo) -> dict[str, FileState | None]:
        """The files that other tables have adopted, or that models have loaded, and not this table."""
        own = {path for run in self.of_table(info) for path in run.files}
        return {path: run.file_states.get(path) for run in self._runs for path in run.files if path not in own}

    def lacks(self, source: AdoptedFiles, then: TableInfo, version: int, now: TableInfo) -> bool:
        """True if a table `now`, with the rows that a table of another lake had at a version, lacks its events."""
        known, states = _states(self.of_table(now)), _states(source.of_table(then), version)
        return not states.keys() <= known.keys() or bool(self._new_doubts(source, then))

    def _new_doubts(self, source: AdoptedFiles, then: TableInfo) -> dict[str, FileState | None]:
        recorded = {path for run in self._runs for path in run.files}
        return {path: state for path, state in source.of_others(then).items() if path not in recorded}

    def record(
        self, scope: Scope, source: AdoptedFiles, then: TableInfo, version: int, now: TableInfo | None, table: str
    ) -> None:
        """Records in the open transaction that a table gets the rows that a table of `source` had at a version."""
        before, replaced = source.of_table(then), [] if now is None else self.of_table(now)
        if before or replaced:
            states, (model, earlier) = _states(before, version), self.next_of(table)
            # Those without a state are files whose rows it surely does not have: it may adopt them again.
            files = tuple(dict.fromkeys([*states, *(path for run in before for path in run.files)]))
            run = ModelRun(
                model, RESTORED, uuid.uuid4().hex, files=files, earlier=earlier, file_states=states, restored=version
            )
            RunJournal(scope).record(run)

    def record_doubts(self, scope: Scope, source: AdoptedFiles, tables: Sequence[TableInfo]) -> None:
        """Records in the open transaction the files whose rows could be in copies of tables of another lake."""
        doubts = {path: state for table in tables for path, state in self._new_doubts(source, table).items()}
        if doubts:
            states = {path: state for path, state in doubts.items() if state is not None}
            run = ModelRun(
                _COPIED, RESTORED, uuid.uuid4().hex, files=tuple(doubts), earlier=self._count(_COPIED),
                file_states=states,
            )  # fmt: skip
            RunJournal(scope).record(run)


def known_files(session: Session, info: TableInfo | None, table: str, snapshot_id: int) -> KnownFiles:
    """The files that a table has adopted under its names; what tables before it had adopted does not count."""
    reader = session.reader
    adopted, like, own = AdoptedFiles(reader), reader.data_path, session.own_files
    model, earlier = adopted.next_of(table if info is None else info.full_name)
    if info is None:
        return KnownFiles(model, earlier, {})
    states = {spelled(path, like): state for path, state in _states(adopted.of_table(info)).items()}
    with reader.transaction() as transaction:
        files = load_data_files(transaction, info, snapshot_id)
        needed = (
            {spelled(path, like) for (path,) in transaction.rows(_KNOWN)} if own.adopted is not None else states.keys()
        )
    outside = [file for file in files if not file.path.startswith(reader.data_path)]
    is_doubtful = len(files) > len(outside) or _has_other_rows(reader, info, snapshot_id, outside)
    doubtful = adopted.of_others(info) if is_doubtful else {}
    return KnownFiles(
        model,
        earlier,
        states,
        live=frozenset(spelled(file.path, like) for file in outside),
        removed=frozenset(path for path in states.keys() - needed if path in own),
        doubtful={spelled(path, like): state for path, state in doubtful.items()},
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
