"""The files that a table has adopted: a second run adds new files only, and notices what the source has changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lakeconf.catalog.data_file import load_data_files
from lakeconf.catalog.tables import TableInfo, split_name
from lakeconf.commit import journal
from lakeconf.commit.journal import recorded_name
from lakeconf.commit.session import Session
from lakeconf.connection.connection import Connection
from lakeconf.errors import CommitConflictError, UnsupportedError, listed
from lakeconf.lake.run_journal import FileState, ModelRun
from lakeconf.wording import counted

_SHOWN = 3
_PREFIX = "adopt "
_AGAIN = "adopt into a new table"


@dataclass(frozen=True)
class KnownFiles:
    """The files that a table has adopted, whether it still has their rows or not."""

    states: Mapping[str, FileState]  # their states when they were adopted
    earlier: int  # the number of recorded adoptions of the name of the table
    exists: bool = False  # False if the table is created
    live: frozenset[str] = frozenset()  # the files outside the data path that have rows of the table now

    def check(self, root: str, paths: Collection[str], table: str) -> None:
        """Rejects a source that no longer has all files that the table has adopted from it.

        If it has written their rows to new files, such as to compact them, the rows would be there twice.
        """
        unknown = [path for path in self.live if path.startswith(root) and path not in self.states]
        if unknown or (self.exists and self.earlier and not self.states):
            raise UnsupportedError(
                f"lakeconf does not know which files of {root} {table} has adopted: the table was restored, renamed or "
                "created again, or files were registered without lakeconf",
                hint=_AGAIN,
            )
        gone = sorted(path for path in self.states if path.startswith(root) and path not in paths)
        if gone:
            raise CommitConflictError(
                f"{root} has removed or rewritten {counted(len(gone), 'file')} that {table} has adopted: "
                f"{listed(gone, _SHOWN)}; nothing was adopted, because rows could be there twice",
                hint=_AGAIN,
            )


def known_files(session: Session, info: TableInfo | None, table: str, snapshot_id: int) -> KnownFiles:
    """The files that a table has adopted under its names; what tables before it had adopted does not count."""
    connection, alias = session.reader.connection, session.alias
    if info is None:
        name = event_name(recorded_name(*split_name(table)))
        return KnownFiles({}, len(journal.events_of(connection, alias, name)))
    states: dict[str, FileState] = {}
    for period in journal.names_of(session.reader, info.table_id)[1]:
        for event in journal.events_of(connection, alias, event_name(period.table)):
            if event.snapshot_id is not None and period.is_at(event.snapshot_id):
                states |= ModelRun.of(event).file_states
    earlier = len(journal.events_of(connection, alias, event_name(recorded_name(info.schema_name, info.name))))
    with session.reader.transaction() as transaction:
        files = load_data_files(transaction, info, snapshot_id)
    outside = frozenset(file.path for file in files if not file.path.startswith(session.reader.data_path))
    return KnownFiles(states, earlier, exists=True, live=outside)


def event_name(table: str) -> str:
    """The name under which the journal has the adoptions of a table; no model has such a name."""
    return f"{_PREFIX}{table}"


def adopted_paths(connection: Connection, alias: str) -> set[str]:
    """The paths of all files that tables of the lake have ever adopted."""
    return {path for event in journal.events_like(connection, alias, _PREFIX) for path in ModelRun.of(event).files}
