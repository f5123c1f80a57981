"""The recorded runs of models, and information about the commits since then, for the next run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakeconf.catalog.changes import changes_since
from lakeconf.catalog.snapshot import by_version
from lakeconf.catalog.tables import load_table
from lakeconf.commit import journal
from lakeconf.commit.audits import Audit
from lakeconf.errors import (
    CommitUnknownError,
    LakeconfError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from lakeconf.commit.journal import ModelRun
    from lakeconf.commit.scope import Scope
    from lakeconf.commit.transaction import Transaction


class RunJournal:
    """The recorded runs of models; see `Lake.runs`.

    Args:
        scope: The lake.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._session = scope.session

    def committed(self, model: str) -> list[ModelRun]:
        """The committed runs of a model, oldest first, including those of expired snapshots.

        Args:
            model: The table of the model, as `schema.table`.
        """
        return journal.model_runs(self._session.reader.connection, self._session.alias, model)

    def record(self, run: ModelRun) -> None:
        """Records a run in the open transaction; its commit fails if another run was committed in the meantime.

        Args:
            run: The run.

        Raises:
            LakeconfError: No transaction is open, or it has ended.
        """
        self._open().runs.append(run)

    def test(self, name: str, sql: str) -> None:
        """Adds a test of columns to the open transaction, which checks it like an audit.

        Args:
            name: The name that errors show.
            sql: A query for the rows that violate it.

        Raises:
            LakeconfError: No transaction is open, or it has ended.
        """
        self._open().audits.append(Audit(name, sql, kind="test"))

    def _open(self) -> Transaction:
        if self._scope.transaction is None:
            raise LakeconfError(
                "a model run must be recorded in a transaction", hint="write: with lake.transaction() as tx: …"
            )
        self._scope.transaction.check_open()
        return self._scope.transaction

    def outcome(self) -> tuple[int, int] | None:
        """The snapshot and the number of new rows of this lake's transaction, if it is certainly committed.

        An exception may say otherwise: Ctrl-C can arrive after the commit.
        """
        return None if self._scope.transaction is None else self._scope.transaction.outcome()

    def unknown(self) -> CommitUnknownError | None:
        """The error of this lake's transaction if nobody knows whether it is committed; None otherwise."""
        return None if self._scope.transaction is None else self._scope.transaction.attempt.unknown()

    def changes_since(self, table: str, snapshot_id: int) -> list[int]:
        """The snapshots after a given one that changed a table's rows or columns, up to the lake's snapshot.

        Snapshots that only rewrite files are excluded.

        Args:
            table: A name in the form that `table` accepts.
            snapshot_id: The snapshot after which changes count.

        Raises:
            TableNotFoundError: There is no such table.
            SnapshotNotFoundError: A snapshot in between has expired, so its changes are unknown.
        """
        info = load_table(self._session.reader, table, self._scope.snapshot_id)
        return changes_since(self._session.reader, info.table_id, snapshot_id, self._scope.snapshot_id)

    def created(self, table: str, version: int | None = None) -> int | None:
        """The snapshot that created the table which has a name; a rename creates no table.

        Args:
            table: A name in the form that `table` accepts.
            version: The snapshot at which the table has the name; default: that of the lake.

        Returns:
            The snapshot; None if there is no such table, or if the version has expired.
        """
        try:
            info = load_table(self._session.reader, table, self._scope.snapshot_id if version is None else version)
        except (TableNotFoundError, UnsupportedError, SnapshotNotFoundError):
            return None
        return min(one.begin for one in journal.names_of(self._session.reader, info.table_id)[1])

    def commit_info(self, snapshot_id: int) -> dict[str, Any]:
        """The commit info of a lakeconf commit: `rows`, `seconds`, `engine`, `extra` and more; otherwise empty."""
        return _read(by_version(self._session.reader, snapshot_id).extra_info)


def _read(text: str | None) -> dict[str, Any]:
    try:
        info = json.loads(text or "{}")
    except (ValueError, RecursionError):  # other writers may store any text
        return {}
    return info if isinstance(info, dict) else {}
