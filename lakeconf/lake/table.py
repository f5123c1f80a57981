"""A table of an open lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakeconf.catalog.predicate.nodes import to_duckdb_sql
from lakeconf.catalog.predicate.parse import Where, parse
from lakeconf.commit.change import Change
from lakeconf.engines.schema_check import full_name
from lakeconf.errors import SchemaError
from lakeconf.lake.reads import TableReads
from lakeconf.write import writes
from lakeconf.write.ddl import Evolution
from lakeconf.write.merge import Clauses, Delete, Insert, Update, merge_rows, update_rows
from lakeconf.write.partitioning import check_recurring, partition_keys
from lakeconf.write.staged_rows import check_condition
from lakeconf.write.writes import Writing


class Table(TableReads):
    """A table by its name; `Lake.table` gives it.

    Args:
        scope: What the table reads and writes.
        name: `schema.table`, or `table` for one in the schema `main`.
    """

    def __repr__(self) -> str:
        return f"Table({self.name!r} at snapshot {self._scope.snapshot_id})"

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
        key = writes.commit_key(self._scope, self.name, idempotency_key)
        done = writes.committed(self._session, key)
        if done is not None:
            return done
        with Writing(self._scope, key=key) as transaction:
            adopted = self._session.engine.adopt(frame)
            if evolve:
                writes.evolve_for(transaction, self.name, self._session.engine.schema(adopted))
            target = writes.target(transaction, self.name)
            staged = writes.stage(transaction, adopted, target)
            statements = writes.insert(self._session, target.info, staged)
            # A frame without rows is remembered too: its key was seen.
            read = writes.written_for(transaction, target.info)
            transaction.add(Change(statements, full_name(target.info), staged, written_for=read))
        return self._scope.snapshot_id

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
        key = writes.commit_key(self._scope, self.name, idempotency_key)
        done = writes.committed(self._session, key)
        if done is not None:
            return done
        with Writing(self._scope, key=key) as transaction:
            adopted = self._session.engine.adopt(frame)
            if evolve:
                writes.evolve_for(transaction, self.name, self._session.engine.schema(adopted))
            target = writes.target(transaction, self.name)
            condition = None if where is None else to_duckdb_sql(parse(where, target.info.columns))
            staged = writes.stage(transaction, adopted, target)
            writes.replace_rows(transaction, target, staged, condition)
            if condition is not None:
                check_condition(self._session.writer, staged, condition)
        return self._scope.snapshot_id

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
        key = writes.commit_key(self._scope, self.name, idempotency_key)
        done = writes.committed(self._session, key)
        if done is not None:
            return done
        with Writing(self._scope, key=key) as transaction:
            target = writes.target(transaction, self.name)
            keys = partition_keys(target.info)
            if not keys:
                raise SchemaError(
                    f"{full_name(target.info)} is not partitioned", hint="say which rows go: overwrite(frame, where=…)"
                )
            if not recurring:
                check_recurring(target.info)
            staged = writes.stage(transaction, self._session.engine.adopt(frame), target)
            # A row's key is compared as one value, so that NULL is a partition like any other.
            row = "{" + ", ".join(f"'key{index}': {key}" for index, key in enumerate(keys)) + "}"
            condition = f"{row} IN (SELECT {row} FROM ({staged.source}))"
            writes.replace_rows(transaction, target, staged, condition)
        return self._scope.snapshot_id

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
        key = writes.commit_key(self._scope, self.name, idempotency_key)
        done = writes.committed(self._session, key)
        if done is not None:
            return done
        with Writing(self._scope, key=key) as transaction:
            info = writes.target(transaction, self.name).info
            condition = to_duckdb_sql(parse(where, info.columns))
            delete = f"DELETE FROM {writes.quoted(self._session, info)} WHERE {condition}"
            relies_on, read = writes.reliance_at_commit(transaction, info), writes.written_for(transaction, info)
            transaction.add(Change((delete,), full_name(info), relies_on=relies_on, deletes=True, written_for=read))
        return self._scope.snapshot_id

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
        key = writes.commit_key(self._scope, self.name, idempotency_key)
        done = writes.committed(self._session, key)
        if done is not None:
            return done
        with Writing(self._scope, key=key) as transaction:
            update_rows(transaction, writes.target(transaction, self.name), values, where)
        return self._scope.snapshot_id

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
        key = writes.commit_key(self._scope, self.name, idempotency_key)
        done = writes.committed(self._session, key)
        if done is not None:
            return done
        with Writing(self._scope, key=key) as transaction:
            adopted = self._session.engine.adopt(frame)
            if evolve:
                writes.evolve_for(transaction, self.name, self._session.engine.schema(adopted))
            keys = (on,) if isinstance(on, str) else tuple(on)
            clauses = (matched,) if isinstance(matched, (Update, Delete)) else tuple(matched or ())
            wanted = Clauses(keys, clauses, not_matched, not_matched_by_source)
            target = writes.target(transaction, self.name)
            merge_rows(transaction, target, adopted, wanted)
        return self._scope.snapshot_id

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
        with Writing(self._scope) as transaction:
            writes.evolve(transaction, self.name, evolution)
        return self._scope.snapshot_id
