"""A table of an open lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from lakeconf.catalog.history import TableChange, TableFile, files, history
from lakeconf.catalog.predicate.parse import Where
from lakeconf.catalog.table import split_name
from lakeconf.commit.scope import Scope
from lakeconf.engines.change_feed import check_range
from lakeconf.engines.scan_summary import ScanSummary, summary
from lakeconf.write import merge, row_changes, writes
from lakeconf.write.ddl import Evolution
from lakeconf.write.merge_clauses import Clauses, Delete, Insert, Update
from lakeconf.write.schema_changes import evolve

if TYPE_CHECKING:
    import narwhals as nw


class Table:
    """A table by its name; `Lake.table` gives it.

    Args:
        scope: What the table reads and writes.
        name: `schema.table`, or `table` for one in the schema `main`.
    """

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self._session = scope.session
        self.name = name

    def __repr__(self) -> str:
        return f"Table({self.name!r} at snapshot {self._scope.snapshot_id})"

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
        return self._session.engine.scan(self.name, self._scope.snapshot_id, columns, where)

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
        return self._session.engine.changes(self.name, first, last)

    def __narwhals_lazyframe__(self) -> Any:
        """The scan of the whole table, as narwhals wants it: `nw.from_native(table)` works."""
        # Of narwhals' own, and private; a test pins it.
        return self.scan()._compliant_frame.__narwhals_lazyframe__()  # noqa: SLF001

    def append(self, frame: object, *, evolve: bool = False, idempotency_key: str | None = None) -> int:
        """Adds the rows of a frame.

        Args:
            frame: A frame of narwhals, pyspark, polars, pandas, pyarrow or duckdb that has the table's columns, in any
                order, each of a type that fits. One without rows changes nothing, and makes no snapshot.
            evolve: True to add the columns that the table lacks, and to widen its types, in the same snapshot.
            idempotency_key: A name for this write, such as that of a batch. If a write with this key was committed to
                this table before, nothing is written, even if its snapshot has expired since. The key belongs to the
                table: it follows a rename, and a new table of the same name starts without keys. `lakeconf.commits`
                remembers it.

        Returns:
            The new snapshot, or the first one of that key; inside a transaction the one that is read.

        Raises:
            SchemaError: A column is missing, is one too many, or does not fit; nothing was written.
            CommitError: Nothing was written.
        """
        change = partial(row_changes.append, frame=frame, evolve=evolve)
        return writes.write_once(self._scope, self.name, idempotency_key, change)

    def overwrite(
        self, frame: object, where: Where | None = None, *, evolve: bool = False, idempotency_key: str | None = None
    ) -> int:
        """Replaces rows by those of a frame, in one snapshot.

        Args:
            frame: As for `append`.
            where: Which rows are replaced, as for `scan`; all unless given. Every row of the frame must satisfy it.
            evolve: As for `append`.
            idempotency_key: As for `append`.

        Returns:
            The new snapshot; inside a transaction the one that is read.

        Raises:
            SchemaError: As for `append`.
            PredicateError: The condition is beyond the grammar, or a row of the frame does not satisfy it.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        change = partial(row_changes.overwrite, frame=frame, where=where, evolve=evolve)
        return writes.write_once(self._scope, self.name, idempotency_key, change)

    def overwrite_partitions(
        self, frame: object, *, recurring: bool = False, idempotency_key: str | None = None
    ) -> int:
        """Replaces the partitions that a frame has rows of, in one snapshot; the others stay.

        Args:
            frame: As for `append`.
            recurring: True to allow keys that recur: `month(day)` without `year(day)` is the month of every year, so
                the rows of all years would be replaced. The same holds for `day(…)` without the month and `hour(…)`
                without the day.
            idempotency_key: As for `append`.

        Returns:
            The new snapshot; inside a transaction the one that is read.

        Raises:
            SchemaError: As for `append`, or the table is not partitioned, or a key recurs.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        change = partial(row_changes.overwrite_partitions, frame=frame, recurring=recurring)
        return writes.write_once(self._scope, self.name, idempotency_key, change)

    def delete(self, where: Where, *, idempotency_key: str | None = None) -> int:
        """Deletes the rows that satisfy a condition.

        Args:
            where: As for `scan`.
            idempotency_key: As for `append`.

        Returns:
            The new snapshot; inside a transaction the one that is read.

        Raises:
            PredicateError: The condition is beyond the grammar.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        change = partial(row_changes.delete, where=where)
        return writes.write_once(self._scope, self.name, idempotency_key, change)

    def update(self, values: Mapping[str, object], where: Where, *, idempotency_key: str | None = None) -> int:
        """Sets columns in the rows that satisfy a condition; the rows keep their row ids.

        Args:
            values: The new value of each column: a constant, or a narwhals expression over the table's columns.
            where: As for `scan`.
            idempotency_key: As for `append`.

        Returns:
            The new snapshot; inside a transaction the one that is read.

        Raises:
            SchemaError: The table has no such column, or it cannot hold the value.
            PredicateError: The condition is beyond the grammar.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        change = partial(merge.update, values=values, where=where)
        return writes.write_once(self._scope, self.name, idempotency_key, change)

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
    ) -> int:
        """Updates, deletes and inserts rows by comparing the table with a frame, in one snapshot.

        Rows that are updated keep their row ids, and are updates in the table's changes. The engine joins; DuckDB only
        commits what came out. Conditions and values are narwhals expressions over columns that are called
        `source_<name>` for those of the frame and `target_<name>` for those of the table.

        Args:
            frame: As for `append`; it may lack columns where nothing is inserted.
            on: The columns by which rows match; NULL matches nothing.
            matched: What happens to a row of the table that matches: the first of them whose condition holds.
            not_matched: What happens to a row of the frame that matches none.
            not_matched_by_source: What happens to a row of the table that matches none.
            evolve: As for `append`.
            idempotency_key: As for `append`.

        Returns:
            The new snapshot; inside a transaction the one that is read.

        Raises:
            SchemaError: As for `append`.
            CommitError: Several rows of the frame match one of the table; nothing was written.
            CommitConflictError: Another writer has changed the table since it was read.
        """
        keys = (on,) if isinstance(on, str) else tuple(on)
        actions = (matched,) if isinstance(matched, (Update, Delete)) else tuple(matched or ())
        clauses = Clauses(keys, actions, not_matched, not_matched_by_source)
        change = partial(merge.merge, frame=frame, clauses=clauses, evolve=evolve)
        return writes.write_once(self._scope, self.name, idempotency_key, change)

    def idempotency_keys(self, prefix: str = "") -> list[str]:
        """The idempotency keys of the writes that were committed to the table, sorted.

        Args:
            prefix: What the keys start with.
        """
        return writes.committed_keys(self._scope, self.name, prefix)

    def evolve(
        self,
        *,
        add: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        promote: Mapping[str, str] | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> int:
        """Changes columns, in one snapshot: drops, renames, promotes and adds, in this order.

        A name is that of a column, or with dots that of a field inside one: `device.os`, `tags.element.kind`,
        `map.value.kind`; a part that has a dot itself is quoted.

        Args:
            add: New columns and their types, in DuckDB's names.
            drop: Columns that go.
            rename: New names by old ones.
            promote: Wider types by name.
            defaults: What added columns hold in the rows that there are, and in later ones that say nothing.

        Returns:
            The new snapshot; inside a transaction the one that is read.

        Raises:
            SchemaError: There is no such column, or it cannot be changed so.
            CommitConflictError: Another writer has changed the table's columns.
        """
        evolution = Evolution(drop, rename or {}, promote or {}, add or {}, defaults or {})
        return writes.write_once(self._scope, self.name, None, partial(evolve, evolution=evolution))
