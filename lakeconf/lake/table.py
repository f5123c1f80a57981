"""A table of an open lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from lakeconf.arguments import check_flags
from lakeconf.catalog.column_lookup import name_list
from lakeconf.deferred import deferred
from lakeconf.lake.reads import TableReads
from lakeconf.write.merge_clauses import Clauses, Delete, Insert, Update

if TYPE_CHECKING:
    from lakeconf.catalog.predicate.where import Where
    from lakeconf.lake.memory_limit import limited_memory
    from lakeconf.lake.sorting import Sorting, SortPlan, SortResult
    from lakeconf.lake.time_limit import TimeLimit
    from lakeconf.write import merge, row_changes, update, writes
    from lakeconf.write.evolution import Evolution
    from lakeconf.write.schema_changes import evolve, set_comments
else:
    limited_memory = deferred("lakeconf.lake.memory_limit", "limited_memory")
    Sorting = deferred("lakeconf.lake.sorting", "Sorting")
    TimeLimit = deferred("lakeconf.lake.time_limit", "TimeLimit")
    merge = deferred("lakeconf.write.merge")
    row_changes = deferred("lakeconf.write.row_changes")
    update = deferred("lakeconf.write.update")
    writes = deferred("lakeconf.write.writes")
    Evolution = deferred("lakeconf.write.evolution", "Evolution")
    evolve = deferred("lakeconf.write.schema_changes", "evolve")
    set_comments = deferred("lakeconf.write.schema_changes", "set_comments")


class Table(TableReads):
    """A table of a lake, returned by `Lake.table`.

    Args:
        scope: The session, snapshot and transaction of the table.
        name: `schema.table`, or `table` for the schema `main`.
    """

    def append(self, frame: object, *, evolve: bool = False, idempotency_key: str | None = None) -> int:
        """Adds the rows of a frame.

        Args:
            frame: A narwhals, pyspark, polars, pandas, pyarrow or duckdb frame, or a list of dictionaries, with the
                table's columns, in any order, with types that fit. A frame without rows changes nothing and creates no
                snapshot. A key that a dictionary lacks is NULL.
            evolve: True to add columns that the table lacks and to widen types, in the same snapshot.
            idempotency_key: A unique name for this write, such as a batch id. If a write with this key was already
                committed to this table, nothing is written, even if its snapshot has expired. The key belongs to the
                table: it follows renames, and a new table with the same name starts without keys. It is recorded in
                `lakeconf.commits`.

        Returns:
            The new snapshot; if the key was already committed, its snapshot; in a transaction, the snapshot that it
            reads.

        Raises:
            SchemaError: A column is missing, unknown, or of a type that does not fit; nothing was written.
            CommitError: Nothing was written.
        """
        check_flags(evolve=evolve)
        change = partial(row_changes.append, frame=frame, evolve=evolve)
        return writes.write_once(self._scope, self.name, idempotency_key, change)

    def overwrite(
        self, frame: object, where: Where | None = None, *, evolve: bool = False, idempotency_key: str | None = None
    ) -> int:
        """Replaces rows with those of a frame, in one snapshot.

        Args:
            frame: As for `append`.
            where: A condition for the rows to replace, as for `scan`; defaults to all rows. Every row of the frame
                must satisfy it.
            evolve: As for `append`.
            idempotency_key: As for `append`.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            SchemaError: As for `append`.
            PredicateError: The condition uses unsupported syntax, or a row of the frame does not satisfy it.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        check_flags(evolve=evolve)
        change = partial(row_changes.overwrite, frame=frame, where=where, evolve=evolve)
        return writes.write_once(self._scope, self.name, idempotency_key, change)

    def overwrite_partitions(
        self, frame: object, *, recurring: bool = False, idempotency_key: str | None = None
    ) -> int:
        """Replaces the partitions for which a frame has rows, in one snapshot; other partitions are not changed.

        Args:
            frame: As for `append`.
            recurring: True to allow keys that recur: `month(day)` without `year(day)` is the same month of every year,
                so rows of all years are replaced. The same applies to `day(…)` without the month and `hour(…)` without
                the day.
            idempotency_key: As for `append`.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            SchemaError: As for `append`, or the table is not partitioned, or a key recurs.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        check_flags(recurring=recurring)
        change = partial(row_changes.overwrite_partitions, frame=frame, recurring=recurring)
        return writes.write_once(self._scope, self.name, idempotency_key, change)

    def delete(self, where: Where, *, idempotency_key: str | None = None) -> int:
        """Deletes the rows that satisfy a condition.

        Args:
            where: As for `scan`.
            idempotency_key: As for `append`.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            PredicateError: The condition uses unsupported syntax.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        change = partial(row_changes.delete, where=where)
        return writes.write_once(self._scope, self.name, idempotency_key, change)

    def update(self, values: Mapping[str, object], where: Where, *, idempotency_key: str | None = None) -> int:
        """Sets columns in the rows that satisfy a condition; the rows keep their row ids.

        Args:
            values: New values by column name: a constant, or a narwhals expression over the table's columns.
            where: As for `scan`.
            idempotency_key: As for `append`.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            SchemaError: The table has no such column, or it cannot hold the value.
            PredicateError: The condition uses unsupported syntax.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        change = partial(update.update, values=values, where=where)
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

        Updated rows keep their row ids, and the change feed reports them as updates. The engine joins; DuckDB only
        commits the result. Conditions and values are narwhals expressions over the columns `source_<name>` of the frame
        and `target_<name>` of the table.

        Args:
            frame: As for `append`; it may lack columns if nothing is inserted.
            on: The columns to match on; NULL matches nothing.
            matched: Actions for a row of the table that matches; the first one whose condition is true applies.
            not_matched: The action for a row of the frame without a match.
            not_matched_by_source: The action for a row of the table without a match.
            evolve: As for `append`.
            idempotency_key: As for `append`.

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
        change = partial(merge.merge, frame=frame, clauses=clauses, evolve=evolve)
        return writes.write_once(self._scope, self.name, idempotency_key, change)

    def rewrite(
        self,
        sorted_by: Sequence[str] | None = None,
        *,
        deadline: timedelta | None = None,
        memory_limit: str | None = None,
    ) -> SortResult:
        """Writes the files of the table again, with their rows in an order, so that scans skip more files.

        Rows keep their ids, and the change feed and older snapshots stay as they are. Each partition is one commit.
        The files before stay until their snapshots expire. On Spark, executors write the files; columns of types that
        Spark cannot write exactly are written by DuckDB.

        Args:
            sorted_by: Columns; each may be followed by `ASC` or `DESC`, and by `NULLS FIRST` or `NULLS LAST`. Defaults
                to the order of the table.
            deadline: As for `Maintenance.compact`.
            memory_limit: As for `Maintenance.compact`; it does not limit Spark.

        Returns:
            The number of files before and after, and whether anything is left.

        Raises:
            SchemaError: A column does not exist or has no order.
            UnsupportedError: The files cannot be replaced without new row ids.
            CommitConflictError: Another writer changed rows of these files; the files are as before. Earlier commits
                stay.
            CommitError: Nothing was written.
        """
        sorting = Sorting(self._scope, self.name, sorted_by)
        limit = TimeLimit.after(self._session.deadline if deadline is None else deadline)
        with limited_memory(self._session, memory_limit):
            return sorting.run(limit)

    def plan_rewrite(self, sorted_by: Sequence[str] | None = None) -> SortPlan:
        """What `rewrite` would do, according to the catalog.

        Args:
            sorted_by: As for `rewrite`.
        """
        return Sorting(self._scope, self.name, sorted_by).plan()

    def idempotency_keys(self, prefix: str = "") -> list[str]:
        """The idempotency keys of all writes committed to the table, sorted.

        Args:
            prefix: Only return keys with this prefix.
        """
        return writes.committed_keys(self._scope, self.name, prefix)

    def set_comments(self, comment: str | None = None, columns: Mapping[str, str | None] | None = None) -> int:
        """Describes the table and its columns, in one snapshot.

        Args:
            comment: The description of the table; None keeps the present one, an empty text removes it.
            columns: Descriptions by column; None removes one.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            SchemaError: A column does not exist.
            CommitConflictError: Another writer has changed the table's columns.
        """
        change = partial(set_comments, comment=comment, columns=columns or {})
        return writes.write_once(self._scope, self.name, None, change)

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
        evolution = Evolution(drop, rename or {}, promote or {}, add or {}, defaults or {})
        return writes.write_once(self._scope, self.name, None, partial(evolve, evolution=evolution))
