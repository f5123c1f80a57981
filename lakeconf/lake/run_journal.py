"""The recorded runs of models, and information about the commits since then, for the next run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeconf.catalog.changes import changes_since
from lakeconf.catalog.tables import load_table
from lakeconf.commit import journal
from lakeconf.commit.audits import Audit
from lakeconf.commit.journal import Event
from lakeconf.ducklake import escaped_json
from lakeconf.errors import CommitUnknownError, LakeconfError, TableNotFoundError, UnsupportedError
from lakeconf.sql import folded

if TYPE_CHECKING:
    from lakeconf.commit.scope import Scope
    from lakeconf.commit.transaction import Transaction

# In place of the hash of a definition: the rows of the table were replaced, so earlier runs no longer count; or the
# table was restored to the version `restored`.
RESET, RESTORED = "reset", "restored"


class FileState(NamedTuple):
    """The size and the time of a file, which differ if its content does."""

    size: int  # the size in bytes
    modified: int  # the time of the last change, in microseconds since 1970


@dataclass(frozen=True)
class ModelRun:
    """A run of a model, or another event of its table, which is committed or about to be."""

    model: str  # the table of the model
    definition: str  # the hash of the model's definition; `RESET` or `RESTORED` for an event that is not a run
    run: str  # the id of the pipeline run
    # The completed time range, without its end; None if the model has no intervals.
    interval: tuple[datetime, datetime] | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)  # the snapshot at which each input was read, by table name
    files: Sequence[str] = ()  # the files that the run loaded
    earlier: int = 0  # the number of runs of the model when this run began
    # For inputs with late rows in intervals that this run did not repeat: the snapshot after which the rows were added,
    # by table name.
    late_since: Mapping[str, int] = field(default_factory=dict)
    # The states of the files when the run loaded them, by file.
    file_states: Mapping[str, FileState] = field(default_factory=dict)
    snapshot_id: int | None = field(default=None, compare=False)  # the snapshot of the commit; None before it
    restored: int | None = None  # the version that the table was restored to, for such an event
    is_cut: bool = False  # True if the run wrote a part of the interval that follows, too

    @classmethod
    def of(cls, event: Event) -> ModelRun:
        """Reads a recorded run."""
        payload: Any = event.payload
        more, files = json.loads(payload["inputs"]), json.loads(payload["files"])
        # Later versions may record more about a file.
        states = {file: FileState(state["size"], state["modified"]) for file, state in files.items() if state}
        start, end = payload["interval_start"], payload["interval_end"]
        return cls(
            event.model, payload["definition"], payload["run"], None if start is None else (start, end), more["inputs"],
            tuple(files), event.earlier, more["late_since"], states, event.snapshot_id, more["restored"],
            more.get("is_cut", False),
        )  # fmt: skip

    def event(self) -> Event:
        """Returns what the journal records."""
        more = {
            "inputs": dict(self.inputs), "late_since": dict(self.late_since), "restored": self.restored,
            "is_cut": self.is_cut,
        }  # fmt: skip
        states = {file: self.file_states[file]._asdict() if file in self.file_states else None for file in self.files}
        start, end = self.interval or (None, None)
        payload = {
            "definition": self.definition, "run": self.run, "interval_start": start, "interval_end": end,
            "inputs": json.dumps(more), "files": escaped_json(json.dumps(states)),
        }  # fmt: skip
        return Event(self.model, payload, self.earlier)


class RunJournal:
    """The recorded runs of models; see `Lake.runs`."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._session = scope.session

    def committed(self, model: str) -> list[ModelRun]:
        """The committed runs of a model, by its table, oldest first, including those of expired snapshots."""
        events = journal.events_of(self._session.reader.connection, self._session.alias, model)
        return [ModelRun.of(event) for event in events]

    def record(self, run: ModelRun) -> None:
        """Records a run in the open transaction; its commit fails if another run was committed in the meantime."""
        self._open().contents.events.append(run.event())

    def test(self, name: str, sql: str) -> None:
        """Adds a test of columns to the open transaction, which checks it like an audit."""
        self._open().contents.audits.append(Audit(name, sql, kind="test"))

    def _open(self) -> Transaction:
        if self._scope.transaction is None:
            raise LakeconfError(
                "a model run must be recorded in a transaction", hint="write: with lake.transaction() as tx: …"
            )
        self._scope.transaction.check_open()
        return self._scope.transaction

    def result(self) -> tuple[int, int] | None:
        """The snapshot and the number of new rows of this lake's transaction, if it is certainly committed.

        An exception may say otherwise: Ctrl-C can arrive after the commit.
        """
        return None if self._scope.transaction is None else self._scope.transaction.result

    def unknown(self) -> CommitUnknownError | None:
        """The error of this lake's transaction if nobody knows whether it is committed; None otherwise."""
        return None if self._scope.transaction is None else self._scope.transaction.unknown

    def changes_since(self, table: str, snapshot_id: int) -> list[int] | None:
        """The snapshots after a given one that changed a table's rows or columns, up to the lake's snapshot.

        Those that only rewrite files are left out. None if the name was that of another table, or of none, at the given
        snapshot. If a snapshot in between has expired, the changes are unknown: `SnapshotNotFoundError`.
        """
        if self._scope.source(table).session is not self._session:
            # A branch has not written it, and a table of its own does not become one of the other lake again.
            return []
        info = load_table(self._session.reader, table, self._scope.snapshot_id)
        changes = changes_since(self._session.reader, info.table_id, snapshot_id, self._scope.snapshot_id)
        # Names outlive snapshots that have expired, as long as the table has them.
        then = [
            period for period in journal.names_of(self._session.reader, info.table_id)[1] if period.is_at(snapshot_id)
        ]
        name = folded(journal.recorded_name(info.schema_name, info.name))
        return changes if name in {folded(period.table) for period in then} else None

    def created(self, table: str) -> int | None:
        """The snapshot that created the table with a name, if there is one; a rename creates no table."""
        try:
            info = load_table(self._session.reader, table, self._scope.snapshot_id)
        except (TableNotFoundError, UnsupportedError):
            return None
        return min(period.begin for period in journal.names_of(self._session.reader, info.table_id)[1])
