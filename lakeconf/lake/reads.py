"""The methods of a table that read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from lakeconf.arguments import whole_number
from lakeconf.catalog.table import load_table
from lakeconf.catalog.table_name import full_name
from lakeconf.completion import PublicNames
from lakeconf.deferred import deferred
from lakeconf.errors import required
from lakeconf.lake.notebook import html_table

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from lakeconf.catalog.comments import Comments, comments
    from lakeconf.catalog.history import TableChange, TableFile, files, history
    from lakeconf.catalog.predicate.where import Where
    from lakeconf.catalog.row_count import row_count
    from lakeconf.commit.scope import Scope
    from lakeconf.engines.change_feed import check_range
    from lakeconf.engines.scan_summary import ScanSummary, summary
    from lakeconf.write import writes
    from lakeconf.write.staged_refusal import committer_of_merges
else:
    nw = deferred("narwhals")
    comments = deferred("lakeconf.catalog.comments", "comments")
    files = deferred("lakeconf.catalog.history", "files")
    history = deferred("lakeconf.catalog.history", "history")
    row_count = deferred("lakeconf.catalog.row_count", "row_count")
    check_range = deferred("lakeconf.engines.change_feed", "check_range")
    summary = deferred("lakeconf.engines.scan_summary", "summary")
    writes = deferred("lakeconf.write.writes")
    committer_of_merges = deferred("lakeconf.write.staged_refusal", "committer_of_merges")


class TableReads(PublicNames):
    """The reads of a table; `Table` inherits these methods.

    Args:
        scope: The session, snapshot and transaction of the table.
        name: `schema.table`, or `table` for the schema `main`.
    """

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self._session = scope.session
        self.name = name

    def __repr__(self) -> str:
        return f"Table({self.name!r} at snapshot {self._scope.snapshot_id})"

    def _repr_html_(self) -> str:
        described = self.column_comments
        rows = [(name, type_name, described.get(name, "")) for name, type_name in self.schema.items()]
        title = f"Table {self.name} at snapshot {self._scope.snapshot_id}"
        return html_table(f"{title}: {self.comment}" if self.comment else title, ("column", "type", "comment"), rows)

    @property
    def schema(self) -> dict[str, str]:
        """DuckDB types by column name; in a transaction, as they will be after it.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
        """
        return dict(writes.current(self._scope, self.name).types)

    @property
    def comment(self) -> str | None:
        """The description of the table at the lake's snapshot; None if it has none.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
        """
        return self._comments().table

    @property
    def column_comments(self) -> dict[str, str]:
        """The descriptions of the columns that have one, by name."""
        return dict(self._comments().columns)

    def _comments(self) -> Comments:
        reader, snapshot_id = self._session.reader, self._scope.snapshot_id
        return comments(reader, load_table(reader, self.name, snapshot_id), snapshot_id)

    def scan(self, columns: Sequence[str] | None = None, where: Where | None = None) -> nw.LazyFrame[Any]:
        """The rows of the table at the lake's snapshot. Nothing is read before the frame is used.

        Args:
            columns: The columns to read; defaults to all.
            where: A condition on a row, as a SQL string in DuckDB's dialect or a narwhals expression: columns,
                constants, operators and DuckDB's scalar functions. Files without matching rows are skipped if their
                statistics prove it; this uses comparisons of a column with a constant, AND, OR, NOT, IN, BETWEEN,
                IS NULL, and LIKE with a prefix.

        Returns:
            A narwhals lazy frame; `.to_native()` returns the engine's own frame. It is valid until the lake is closed.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
            PredicateError: The condition is not a condition on a row of the table.
            UnsupportedError: The engine cannot read the table, or compute the condition, exactly; the hint says what to
                do instead.
        """
        self._scope.add_read(full_name(self.name))
        return self._session.engine.scan(self.name, self._scope.snapshot_id, columns, where)

    def head(self, n: int = 10) -> list[dict[str, Any]]:
        """Some rows of the table at the lake's snapshot, each as a dictionary; the files of a table have no order.

        Args:
            n: The number of rows, 0 or more.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
            MissingDependencyError: pyarrow is not installed.
        """
        count = whole_number(n, "n", at_least=0)
        rows: list[dict[str, Any]] = self._collected(self.scan().head(count), "pyarrow", "arrow").to_pylist()
        return rows

    def count(self) -> int:
        """The number of rows of the table at the lake's snapshot: from the catalog, if it knows the number.

        The files are read at snapshots before a later delete or compaction, and after deletes of both kinds: those in
        files, and those in the catalog.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
            MissingDependencyError: The files must be read, and pyarrow is not installed.
        """
        self._scope.add_read(full_name(self.name))
        found = row_count(self._session.reader, self.name, self._scope.snapshot_id)
        if found is None:
            counted: pa.Table = self._collected(self.scan().select(nw.len()), "pyarrow", "arrow")
            found = int(counted.column(0)[0].as_py())
        return found

    def to_arrow(self, columns: Sequence[str] | None = None, where: Where | None = None) -> pa.Table:
        """The rows as an Arrow table in memory; the arguments are those of `scan`."""
        found: pa.Table = self._collected(self.scan(columns, where), "pyarrow", "arrow")
        return found

    def to_polars(self, columns: Sequence[str] | None = None, where: Where | None = None) -> pl.DataFrame:
        """The rows as a polars frame in memory; the arguments are those of `scan`."""
        found: pl.DataFrame = self._collected(self.scan(columns, where), "polars", "polars")
        return found

    def to_pandas(self, columns: Sequence[str] | None = None, where: Where | None = None) -> pd.DataFrame:
        """The rows as a pandas frame in memory; the arguments are those of `scan`."""
        with required("pandas", extra=None, needed_for="this frame"):
            import pandas as pd  # noqa: F401 - else numpy, which pandas needs, would be named
        found: pd.DataFrame = self._collected(self.scan(columns, where), "pandas", None)
        return found

    def _collected(
        self, frame: nw.LazyFrame[Any], library: Literal["pyarrow", "polars", "pandas"], extra: str | None
    ) -> Any:
        with (
            required(library, extra=extra, needed_for="this frame"),
            required("pyarrow", extra=extra or "arrow", needed_for="this frame"),
            self._session.reader.connection.errors(),
        ):
            return frame.collect(library).to_native()

    def explain(self, columns: Sequence[str] | None = None, where: Where | None = None) -> ScanSummary:
        """The files that a scan would read and skip, according to the catalog; no rows are read.

        Args:
            columns: As for `scan`.
            where: As for `scan`.

        Returns:
            The numbers of files, bytes and rows, and the reason if the engine refuses the scan. `str` formats them.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
            PredicateError: The condition is not a condition on a row of the table.
            StorageError: A file is missing; only on Spark.
        """
        snapshot_id = self._scope.snapshot_id
        found = summary(self._session.engine, self._session.reader, self.name, snapshot_id, columns, where)
        if found.merge is None:
            return found
        info = load_table(self._session.reader, self.name, snapshot_id)
        return replace(found, commit=committer_of_merges(self._session, info, snapshot_id))

    def files(self) -> list[TableFile]:
        """The data files of the table at the lake's snapshot, with the deleted rows of each.

        Rows stored in the catalog itself are not included; `explain()` counts them.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
        """
        return files(self._session.reader, self.name, self._scope.snapshot_id)

    def history(self) -> list[TableChange]:
        """The snapshots that changed the table, up to the lake's snapshot, oldest first, without expired ones.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
        """
        return history(self._session.reader, self.name, self._scope.snapshot_id)

    def changes(self, since: int | datetime | str, until: int | datetime | str | None = None) -> nw.LazyFrame[Any]:
        """The rows that snapshots inserted, deleted and updated. Nothing is read before the frame is used.

        Snapshots that only rewrite files change no rows. (DuckLake's own `table_changes` reports the rows of a
        rewritten file as updated.)

        Args:
            since: The first snapshot, inclusive; or a time with a time zone, as for `Lake.at`: changes at this time and
                later.
            until: The last snapshot, inclusive, or a time: changes up to then. Defaults to the lake's snapshot.

        Returns:
            A lazy frame with the columns of DuckLake's `table_changes`: `snapshot_id`; `rowid`; `change_type`, which is
            `insert`, `delete`, `update_preimage` or `update_postimage`; and the table's columns at `until`.

        Raises:
            LakeconfError: The range is empty, or goes beyond the lake's snapshot.
            TableNotFoundError: There is no such table at `until`.
            SnapshotNotFoundError: A snapshot in the range has expired, so its changes are incomplete.
            UnsupportedError: The engine cannot return the changes exactly, or a table column has the name of one of the
                three columns; the hint says what to do instead.
        """
        reader = self._session.reader
        self._scope.add_read(full_name(self.name))
        first, last = check_range(reader, self._scope.snapshot_id, since, until)
        return self._session.engine.changes(self.name, first, last)

    def __narwhals_lazyframe__(self) -> Any:
        """The scan of the whole table for narwhals, so that `nw.from_native(table)` works."""
        # A private attribute of narwhals, pinned by a test.
        return self.scan()._compliant_frame.__narwhals_lazyframe__()  # noqa: SLF001
