"""The runs of models that a lake has recorded, and what the next run needs to know about the commits since."""

from __future__ import annotations

import json
from typing import Any

from lakeconf.catalog.changes_made import changes_since
from lakeconf.catalog.snapshot import by_version
from lakeconf.catalog.table import load_table
from lakeconf.commit import journal
from lakeconf.commit.journal import ModelRun
from lakeconf.commit.scope import Scope
from lakeconf.errors import LakeconfError


class RunJournal:
    """The recorded runs of models; `Lake.runs` gives it.

    Args:
        scope: The lake.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._session = scope.session

    def committed(self, model: str) -> list[ModelRun]:
        """The runs of a model that have been committed to the lake, oldest first, whatever has expired since.

        Args:
            model: The model's table, as `schema.table`.
        """
        return journal.model_runs(self._session.reader.connection, self._session.alias, model)

    def record(self, run: ModelRun) -> None:
        """Records a run in the open transaction; its commit fails if another run was committed in the meantime.

        Args:
            run: The run.

        Raises:
            LakeconfError: No transaction is open.
        """
        if self._scope.transaction is None:
            raise LakeconfError("a run of a model belongs to a transaction", hint="with lake.transaction() as tx: …")
        self._scope.transaction.runs.append(run)

    def changes_since(self, table: str, snapshot_id: int) -> list[int]:
        """The snapshots that have changed a table's rows or columns after one, up to the lake's own.

        Snapshots that only rewrite files are none of them.

        Args:
            table: As `table` takes it.
            snapshot_id: The snapshot after which changes count.

        Raises:
            TableNotFoundError: There is no such table.
            SnapshotNotFoundError: A snapshot in between has expired, so that it cannot be known.
        """
        info = load_table(self._session.reader, table, self._scope.snapshot_id)
        return changes_since(self._session.reader, info.table_id, snapshot_id, self._scope.snapshot_id)

    def commit_info(self, snapshot_id: int) -> dict[str, Any]:
        """What a commit of lakeconf says of itself: `rows`, `seconds`, `engine`, `extra` and more; else empty."""
        found = by_version(self._session.reader, snapshot_id).extra_info
        info = json.loads(found) if found and found.startswith("{") else {}
        return info if isinstance(info, dict) else {}
