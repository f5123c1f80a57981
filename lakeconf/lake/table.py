"""A table of an open lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw

from lakeconf.arguments import check_flags, whole_number
from lakeconf.catalog.changes_plan import check_range
from lakeconf.catalog.history import TableChange, TableFile, history, stored_rows
from lakeconf.catalog.pruning.scan_plan import row_count
from lakeconf.catalog.table_options import Comments, comments
from lakeconf.catalog.tables import full_name, load_table, name_list
from lakeconf.commit.scope import Scope
from lakeconf.engines.frames import packages_named
from lakeconf.engines.scan_summary import ScanSummary, summary
from lakeconf.engines.spark.column_expressions import Condition, as_narwhals
from lakeconf.lake.branches.first_write import write
from lakeconf.write.capabilities import EngineName
from lakeconf.write.context import Operation, committed_keys, current_table
from lakeconf.write.operations.append import AppendRows
from lakeconf.write.operations.define import SetComments
from lakeconf.write.operations.delete import DeleteRows
from lakeconf.write.operations.evolve import Evolution
from lakeconf.write.operations.merge.clauses import Clauses, Delete, Insert, Update
from lakeconf.write.operations.merge.merge import MergeRows
from lakeconf.write.operations.overwrite import OverwritePartitions, OverwriteRows
from lakeconf.write.operations.update import UpdateRows
from lakeconf.write.strategy import explained

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Table:
    """A table of a lake, returned by `Lake.table`.

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

    @property
    def schema(self) -> dict[str, str]:
        """DuckDB types by column name; in a transaction, as they will be after it.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
        """
        session, table, snapshot_id = self._scope.source(self.name)
        if session is self._session:
            return dict(current_table(self._scope, self.name).types)
        return dict(current_table(Scope(session, at=snapshot_id), table).types)

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
        session, table, snapshot_id = self._scope.source(self.name)
        return comments(session.reader, load_table(session.reader, table, snapshot_id), snapshot_id)

    def scan(self, columns: Sequence[str] | None = None, where: Condition | None = None) -> nw.LazyFrame[Any]:
        """The rows of the table at the lake's snapshot. Nothing is read before the frame is used.

        Args:
            columns: The columns to read; defaults to all.
            where: A condition on a row, as a SQL string in DuckDB's dialect, a narwhals expression or a column of
                PySpark: columns, constants, operators and DuckDB's scalar functions. Files without matching rows are
                skipped if their statistics prove it; this uses comparisons of a column with a constant, AND, OR, NOT,
                IN, BETWEEN, IS NULL, and LIKE with a prefix.

        Returns:
            A narwhals lazy frame; `.to_native()` returns the engine's own frame. It is valid until the lake is closed.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
            PredicateError: The condition is not a condition on a row of the table.
            UnsupportedError: The engine cannot read the table, or compute the condition, exactly; the hint says what to
                do instead.
        """
        self._scope.add_read(full_name(self.name))
        session, table, snapshot_id = self._scope.source(self.name)
        return session.engine.scan(table, snapshot_id, columns, as_narwhals(where))

    def head(self, n: int = 10) -> list[dict[str, Any]]:
        """Some rows of the table at the lake's snapshot, each as a dictionary; the files of a table have no order.

        Args:
            n: The number of rows, 0 or more.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
            MissingDependencyError: pyarrow is not installed.
        """
        count = whole_number(n, "n", at_least=0)
        rows: list[dict[str, Any]] = self._collected(self.scan().head(count), "pyarrow").to_pylist()
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
        session, table, snapshot_id = self._scope.source(self.name)
        rows = row_count(session.reader, table, snapshot_id)
        if rows is None:
            counted: pa.Table = self._collected(self.scan().select(nw.len()), "pyarrow")
            rows = int(counted.column(0)[0].as_py())
        return rows

    def to_arrow(self, columns: Sequence[str] | None = None, where: Condition | None = None) -> pa.Table:
        """The rows as an Arrow table in memory; the arguments are those of `scan`."""
        rows: pa.Table = self._collected(self.scan(columns, where), "pyarrow")
        return rows

    def to_polars(self, columns: Sequence[str] | None = None, where: Condition | None = None) -> pl.DataFrame:
        """The rows as a polars frame in memory; the arguments are those of `scan`."""
        rows: pl.DataFrame = self._collected(self.scan(columns, where), "polars")
        return rows

    def to_pandas(self, columns: Sequence[str] | None = None, where: Condition | None = None) -> pd.DataFrame:
        """The rows as a pandas frame in memory; the arguments are those of `scan`."""
        rows: pd.DataFrame = self._collected(self.scan(columns, where), "pandas")
        return rows

    def _collected(self, frame: nw.LazyFrame[Any], library: Literal["pyarrow", "polars", "pandas"]) -> Any:
        with packages_named(library), self._session.engine.reading():
            return frame.collect(library).to_native()

    def explain(self, columns: Sequence[str] | None = None, where: Condition | None = None) -> ScanSummary:
        """The files that a scan would read and skip, and how writes to them would be carried out; no rows are read.

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
        (session, table, snapshot_id), condition = self._scope.source(self.name), as_narwhals(where)
        scan = summary(session.engine, session.reader, table, snapshot_id, columns, condition)
        if session is not self._session:  # the first write copies it
            return scan
        return replace(scan, writes=explained(self._scope, self.name, condition))

    def files(self) -> list[TableFile]:
        """The data files of the table at the lake's snapshot, with the deleted rows of each.

        Rows stored in the catalog itself are not included; `explain()` counts them.

        Raises:
            TableNotFoundError: There is no such table at the lake's snapshot.
        """
        session, table, snapshot_id = self._scope.source(self.name)
        return stored_rows(session.reader, table, snapshot_id)[0]

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

    def append(
        self,
        frame: object,
        *,
        evolve: bool = False,
        idempotency_key: str | None = None,
        engine: EngineName | None = None,
    ) -> int:
        """Adds the rows of a frame.

        Args:
            frame: A narwhals, pyspark, polars, pandas, pyarrow or duckdb frame, or a list of dictionaries, with the
                table's columns, in any order, with types that fit. A frame without rows changes nothing and creates no
                snapshot. A key that a dictionary lacks is NULL.
            evolve: True to add columns and nested fields that the table lacks and to widen types, in the same snapshot.
            idempotency_key: A unique name for this write, such as a batch id. If a write with this key was already
                committed to this table, nothing is written, even if its snapshot has expired. The key belongs to the
                table: it follows renames, and a new table with the same name starts without keys. It is recorded in
                `lakeconf.commits`.
            engine: `"duckdb"` for a statement, `"spark"` for files of Spark; lakeconf chooses by default. See
                `docs/large-writes.md`.

        Returns:
            The new snapshot; if the key was already committed, its snapshot; in a transaction, the snapshot that it
            reads.

        Raises:
            SchemaError: A column is missing, unknown, or of a type that does not fit; nothing was written.
            UnsupportedError: `engine="spark"`, and Spark cannot carry out the write.
            CommitError: Nothing was written.
        """
        check_flags(evolve=evolve)
        return self._write(AppendRows(frame, evolve), idempotency_key, engine)

    def overwrite(
        self,
        frame: object,
        where: Condition | None = None,
        *,
        evolve: bool = False,
        idempotency_key: str | None = None,
        engine: EngineName | None = None,
    ) -> int:
        """Replaces rows with those of a frame, in one snapshot.

        Args:
            frame: As for `append`.
            where: A condition for the rows to replace, as for `scan`; defaults to all rows. Every row of the frame
                must satisfy it.
            evolve: As for `append`.
            idempotency_key: As for `append`.
            engine: As for `append`.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            SchemaError: As for `append`.
            PredicateError: The condition uses unsupported syntax, or a row of the frame does not satisfy it.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        check_flags(evolve=evolve)
        return self._write(OverwriteRows(frame, as_narwhals(where), evolve), idempotency_key, engine)

    def overwrite_partitions(
        self,
        frame: object,
        *,
        recurring: bool = False,
        idempotency_key: str | None = None,
        engine: EngineName | None = None,
    ) -> int:
        """Replaces the partitions for which a frame has rows, in one snapshot; other partitions are not changed.

        Args:
            frame: As for `append`.
            recurring: True to allow keys that recur: `month(day)` without `year(day)` is the same month of every year,
                so rows of all years are replaced. The same applies to `day(…)` without the month and `hour(…)` without
                the day.
            idempotency_key: As for `append`.
            engine: As for `append`.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            SchemaError: As for `append`, or the table is not partitioned, or a key recurs.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        check_flags(recurring=recurring)
        return self._write(OverwritePartitions(frame, recurring), idempotency_key, engine)

    def delete(self, where: Condition, *, idempotency_key: str | None = None, engine: EngineName | None = None) -> int:
        """Deletes the rows that satisfy a condition.

        Args:
            where: As for `scan`.
            idempotency_key: As for `append`.
            engine: As for `append`.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            PredicateError: The condition uses unsupported syntax.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        return self._write(DeleteRows(as_narwhals(where)), idempotency_key, engine)

    def update(
        self,
        values: Mapping[str, object],
        where: Condition,
        *,
        idempotency_key: str | None = None,
        engine: EngineName | None = None,
    ) -> int:
        """Sets columns in the rows that satisfy a condition; the rows keep their row ids.

        Args:
            values: New values by column name: a constant, or a narwhals expression or a column of PySpark over the
                table's columns.
            where: As for `scan`.
            idempotency_key: As for `append`.
            engine: As for `append`.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            SchemaError: The table has no such column, or it cannot hold the value.
            PredicateError: The condition uses unsupported syntax.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        return self._write(UpdateRows(values, as_narwhals(where)), idempotency_key, engine)

    def merge(
        self,
        frame: object,
        on: str | Sequence[str],
        *,
        matched: Update | Delete | Sequence[Update | Delete] | None = Update(),  # noqa: B008 - it cannot be changed
        not_matched: Insert | None = Insert(),  # noqa: B008 - it cannot be changed
        not_matched_by_source: Delete | None = None,
        evolve: bool = False,
        idempotency_key: str | None = None,
        engine: EngineName | None = None,
    ) -> int:
        """Updates, deletes and inserts rows by comparing the table with a frame, in one snapshot.

        Updated rows keep their row ids, and the change feed reports them as updates. The engine joins; DuckDB only
        commits the result. Conditions and values are narwhals expressions over the columns `source_<name>` of the frame
        and `target_<name>` of the table.

        Args:
            frame: As for `append`; it needs only the columns to match on. Columns that it lacks keep their values in
                updated rows, and have their default or NULL in inserted rows.
            on: The columns to match on; NULL matches nothing.
            matched: Actions for a row of the table that matches; the first one whose condition is true applies.
            not_matched: The action for a row of the frame without a match.
            not_matched_by_source: The action for a row of the table without a match.
            evolve: As for `append`.
            idempotency_key: As for `append`.
            engine: As for `append`.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            SchemaError: As for `append`.
            CommitError: Several rows of the frame match one row of the table; nothing was written.
            CommitConflictError: Another writer has changed the table since it was read.
        """
        check_flags(evolve=evolve)
        keys = (on,) if isinstance(on, str) else tuple(name_list(on, "on"))
        actions = tuple(matched or ()) if matched is None or isinstance(matched, (list, tuple)) else (matched,)
        clauses = Clauses(keys, actions, not_matched, not_matched_by_source)
        return self._write(MergeRows(frame, clauses, evolve), idempotency_key, engine)

    def idempotency_keys(self, prefix: str = "") -> list[str]:
        """The idempotency keys of all writes committed to the table, sorted.

        Args:
            prefix: Only return keys with this prefix.
        """
        return committed_keys(self._scope, self.name, prefix)

    def set_comments(self, comment: str | None = None, columns: Mapping[str, str | None] | None = None) -> int:
        """Describes the table and its columns, in one snapshot.

        Args:
            comment: The description of the table; None keeps the present one, an empty string removes it.
            columns: Descriptions by column; None removes one.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            SchemaError: A column does not exist.
            CommitConflictError: Another writer has changed the table's columns.
        """
        return self._write(SetComments(comment, columns or {}))

    def evolve(
        self,
        *,
        add: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        promote: Mapping[str, str] | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> int:
        """Changes columns in one snapshot: drops, renames, promotes and adds them, in this order.

        Names refer to columns, or with dots to nested fields: `device.os`, `tags.element.kind`, `map.value.kind`. Quote
        a part that contains a dot.

        Args:
            add: New columns and the DuckDB names of their types.
            drop: The columns to drop.
            rename: New names by old names.
            promote: Wider types by name.
            defaults: Values of added columns, for existing rows and for new rows that do not set the column.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            SchemaError: A column does not exist, or cannot be changed as requested.
            CommitConflictError: Another writer has changed the table's columns.
        """
        return self._write(Evolution(drop, rename or {}, promote or {}, add or {}, defaults or {}))

    def _write(self, operation: Operation, key: str | None = None, engine: EngineName | None = None) -> int:
        """Carries out an operation, and returns the snapshot that reads then see."""
        return write(self._scope, self.name, operation, idempotency_key=key, engine=engine)
