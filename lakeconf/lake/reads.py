"""What can be asked of a table without changing it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakeconf.catalog.history import TableChange, TableFile, files, history
from lakeconf.catalog.predicate.parse import Where
from lakeconf.catalog.table import split_name
from lakeconf.commit.scope import Scope
from lakeconf.engines.change_feed import check_range
from lakeconf.engines.scan_summary import ScanSummary, summary
from lakeconf.write import writes

if TYPE_CHECKING:
    import narwhals as nw


class TableReads:
    """The part of `Table` that reads; see there."""

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self._session = scope.session
        self.name = name

    @property
    def schema(self) -> dict[str, str]:
        """The columns and their types, as DuckDB names them; inside a transaction as it will leave them.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
        """
        return dict(writes.current(self._scope, self.name).types)

    def scan(self, columns: Sequence[str] | None = None, where: Where | None = None) -> nw.LazyFrame[Any]:
        """The rows of the table at the lake's snapshot. Nothing is read before the frame is used.

        Args:
            columns: The columns wanted; all unless given.
            where: A condition, as SQL text or a narwhals expression: columns, literals, comparisons, AND, OR, NOT, IN,
                BETWEEN, IS NULL, and LIKE with a prefix. Files that cannot hold a matching row are not read at all.

        Returns:
            A lazy frame of narwhals; `.to_native()` is the engine's own. It lives as long as the lake.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
            PredicateError: The condition is beyond that grammar.
            UnsupportedError: The engine cannot read it exactly; says what to run instead.
        """
        self._scope.base.add_read(".".join(split_name(self.name)))
        return self._session.engine.scan(self._session.reader, self.name, self._scope.snapshot_id, columns, where)

    def explain(self, columns: Sequence[str] | None = None, where: Where | None = None) -> ScanSummary:
        """What a scan reads and what it skips, as the catalog says; no row of a data file is read.

        Args:
            columns: As for `scan`.
            where: As for `scan`.

        Returns:
            Numbers of files, bytes and rows, which `str` puts into words, and why the engine refuses, where it does.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
            PredicateError: The condition is beyond the grammar.
            StorageError: A file is gone, where the engine is Spark.
        """
        return summary(self._session.engine, self._session.reader, self.name, self._scope.snapshot_id, columns, where)

    def files(self) -> list[TableFile]:
        """The data files of the table at the lake's snapshot, with what is deleted from each.

        Rows that the catalog holds itself are in none of them; `explain()` counts those.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
        """
        return files(self._session.reader, self.name, self._scope.snapshot_id)

    def history(self) -> list[TableChange]:
        """The snapshots that have changed the table up to the lake's own, oldest first; expired ones are forgotten.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
        """
        return history(self._session.reader, self.name, self._scope.snapshot_id)

    def changes(self, since: int | datetime, until: int | datetime | None = None) -> nw.LazyFrame[Any]:
        """The rows that snapshots have inserted, deleted and updated. Nothing is read before the frame is used.

        Snapshots that only rewrite files change no row. (DuckLake's own `table_changes` calls the rows of a file that
        was rewritten updated.)

        Args:
            since: The first snapshot whose changes are wanted; or a moment with its time zone: changes at this time
                and later.
            until: The last one, which is wanted too, or a moment: changes until then. The lake's own unless given.

        Returns:
            A lazy frame: `snapshot_id`; `rowid`; `change_type`, which is `insert`, `delete`, `update_preimage` or
            `update_postimage`; and the table's columns as they are at `until`, of DuckLake's `table_changes`.

        Raises:
            LakeconfError: The range is empty, or goes beyond the lake's snapshot.
            TableNotFoundError: There is no such table at `until`.
            SnapshotNotFoundError: A snapshot of the range has expired, so that its changes are not all known.
            UnsupportedError: The engine cannot give the changes exactly, or a column hides one of the three; says what
                to do instead.
        """
        reader = self._session.reader
        self._scope.base.add_read(".".join(split_name(self.name)))
        first, last = check_range(reader, self._scope.snapshot_id, since, until)
        return self._session.engine.changes(reader, self.name, first, last)

    def __narwhals_lazyframe__(self) -> Any:
        """The scan of the whole table, as narwhals wants it: `nw.from_native(table)` works."""
        # Of narwhals' own, and private; a test pins it.
        return self.scan()._compliant_frame.__narwhals_lazyframe__()  # noqa: SLF001
