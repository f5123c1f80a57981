"""An open lake: its queries, tables, views and settings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from lakeconf.arguments import check_flags
from lakeconf.catalog.definitions import check_not_replaced
from lakeconf.catalog.file_footers import check_decimals, name_classes
from lakeconf.catalog.inherited import inherited_tables
from lakeconf.catalog.queries.only_reads import check_only_reads
from lakeconf.catalog.queries.parsed_query import VIEW_PREFIX, query_over_views, reads_only, unique_view
from lakeconf.catalog.queries.stored_queries import prepare_query, readable_names, tables_suggested, view_names
from lakeconf.catalog.snapshot import Snapshot, chosen, latest, snapshots
from lakeconf.catalog.tables import full_name, name_list, tables
from lakeconf.commit.audits import Audit
from lakeconf.commit.scope import Scope
from lakeconf.ducklake import INTERNAL_SCHEMA
from lakeconf.engines.engine import SparkOperations
from lakeconf.engines.frames import lazy_rows
from lakeconf.engines.schema_check import as_list_types, check_distinct
from lakeconf.errors import LakeconfError, QueryError, StorageError, TableNotFoundError, UnsupportedError, listed
from lakeconf.lake.branches.first_write import write
from lakeconf.lake.maintenance import Maintenance
from lakeconf.lake.opening import open_session
from lakeconf.lake.restore import RestorePlan, Restores
from lakeconf.lake.run_journal import RunJournal
from lakeconf.lake.stream_target import StreamSink, stream
from lakeconf.lake.table import Table
from lakeconf.logs import escaped
from lakeconf.sql import files_sql, folded
from lakeconf.write.ddl import Definition
from lakeconf.write.operations import define
from lakeconf.write.operations.execute import Execute
from lakeconf.write.user_statement import parse_statement

if TYPE_CHECKING:
    import narwhals as nw

    from lakeconf.lake.adoption.adoption import AdoptPlan, Verify
    from lakeconf.store import Store


class Lake:
    """An open lake, returned by `Store.open`. All its tables are read at one snapshot.

    Its own commits and `refresh()` move the snapshot. Use it as a context manager to close it, with all its frames.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._session = scope.session

    @classmethod
    def open(cls, store: Store, engine: Any = None) -> Lake:
        """Opens a store; see `Store.open`."""
        return cls(Scope(open_session(store, engine)))

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        start = f"Lake({self._session.alias!r} at snapshot {self._scope.snapshot_id}, {self._session.engine.name}"
        try:
            return f"{start}: {listed([*map(escaped, self.tables())], 10) or 'no tables'})"
        except LakeconfError as error:  # it is closed, or the catalog cannot be reached
            return f"{start}: {error.message})"

    def close(self) -> None:
        """Closes the connections to the catalog; does nothing for a lake of `at` or `transaction`."""
        if not self._scope.is_pinned:
            self._session.close()

    @property
    def snapshot_id(self) -> int:
        """The snapshot that reads see."""
        return self._scope.snapshot_id

    @property
    def maintenance(self) -> Maintenance:
        """Compaction, expiry of snapshots and removal of files."""
        return Maintenance(self._scope)

    @property
    def runs(self) -> RunJournal:
        """The recorded runs of models."""
        return RunJournal(self._scope)

    def refresh(self) -> int:
        """Moves to the latest snapshot and returns its version.

        A store with `snapshot_version` or `snapshot_time` stays at its snapshot.

        Raises:
            LakeconfError: The lake is pinned, by `at` or by an open transaction.
            CatalogError: The catalog was replaced by an older one, as by a backup.
        """
        if self._scope.is_pinned:
            raise LakeconfError(
                f"the lake is pinned at snapshot {self.snapshot_id}", hint="refresh the lake that it was created from"
            )
        if self._session.pinned:
            return self.snapshot_id
        previous, newest = self.snapshot_id, latest(self._session.reader).snapshot_id
        check_not_replaced(previous, newest)
        return self._session.advance(newest, refresh=True)

    def table(self, name: str) -> Table:
        """A table by name; whether it exists is checked on first use.

        Args:
            name: `schema.table`, or `table` for the schema `main`.
        """
        return Table(self._scope, name)

    def tables(self) -> list[str]:
        """The sorted names of the tables at the lake's snapshot, as `table` accepts them, without internal tables."""
        reader, snapshot_id = self._session.reader, self._scope.snapshot_id
        own = (info.full_name for info in tables(reader, snapshot_id) if info.schema_name.lower() != INTERNAL_SCHEMA)
        return sorted([*own, *inherited_tables(reader, snapshot_id)])

    def snapshots(self) -> list[Snapshot]:
        """All snapshots of the lake that have not expired, oldest first."""
        return list(snapshots(self._session.reader))

    def at(self, *, version: int | None = None, timestamp: datetime | str | None = None) -> Lake:
        """The lake at an older snapshot: a read-only lake that is closed together with this one.

        Args:
            version: The version of a snapshot.
            timestamp: A time with a time zone, instead of a version; or a string in ISO 8601, such as
                `2026-01-31T12:00:00+00:00`.

        Raises:
            SnapshotNotFoundError: The snapshot does not exist or has expired; the message lists existing ones. Or the
                time has no time zone, as a date has none.
        """
        return Lake(Scope(self._session, at=chosen(self._session.reader, version, timestamp).snapshot_id))

    @contextlib.contextmanager
    def transaction(
        self, message: str | None = None, *, author: str | None = None, extra: Mapping[str, object] | None = None
    ) -> Iterator[Lake]:
        """Commits writes to several tables as one snapshot, or none of them.

        Args:
            message: The commit message.
            author: The author of the commit; defaults to the user and the host of this process, as `ana@laptop`.
            extra: Additional keys for the commit info; the mapping is read at the commit.

        Yields:
            A lake whose tables write to the transaction. Its scans still read the snapshot at which the transaction
            began.

        Raises:
            CommitConflictError: Another writer has changed a table that was overwritten or deleted from.
            AuditError: An audit failed.
            CommitError: Nothing was written.
        """
        if not isinstance(extra, Mapping | None):
            raise LakeconfError(f"extra is {extra!r}, and not a dictionary", hint='write extra={"run": 1}')
        with self._scope.transacting(message, author, extra) as scope:
            yield Lake(scope)

    def audit(self, name: str, sql: str) -> None:
        """Adds a condition to the open transaction: if the new state violates it, nothing is committed.

        DuckDB runs it inside the commit's transaction, on any engine, so it sees exactly what would be committed.

        Args:
            name: The name that errors show.
            sql: A query that returns the rows that violate the condition; the lake is the default database.

        Raises:
            LakeconfError: No transaction is open, or it has ended.
        """
        _check_query(sql)
        if self._scope.transaction is None:
            raise LakeconfError(
                "an audit needs an open transaction", hint="write: with lake.transaction() as tx: tx.audit(…)"
            )
        self._scope.transaction.check_open()
        self._scope.transaction.contents.audits.append(Audit(name, sql))

    def stream_sink(self, table: str, *, query: str | None = None) -> StreamSink:
        """A sink for a Structured Streaming query: `stream.writeStream.foreachBatch(lake.stream_sink("raw.events"))`.

        Each batch is one snapshot and is committed exactly once, even if Spark repeats it.

        Args:
            table: The table that batches are appended to.
            query: A name for the query. The same name with another checkpoint is an error, because Spark then
                counts batches from 0 again. Without a name, Spark's query id is used, and another checkpoint appends
                all batches again.

        Raises:
            LakeconfError: A transaction is open: Spark would not repeat a batch that the transaction discards.
            TableNotFoundError: There is no such table.
            UnsupportedError: The lake is open on Spark Connect, which would send the lake to the server.
        """
        if self._scope.transaction is not None:
            raise LakeconfError(
                "a transaction is open, and the batches of a stream cannot be a part of it",
                hint="use the lake itself: lake.stream_sink(…)",
            )
        if self._session.engine.name == "spark-connect":
            raise UnsupportedError(
                "a sink needs a classic Spark session, and this lake was opened with one of Spark Connect",
                hint="run the stream with a classic session, or append what it has written: lake.table(…).append(…)",
            )
        target = self.table(table)
        _ = target.schema  # Spark would show an error in the first batch only
        return StreamSink(target, query)

    def stream(
        self, table: str, *, since: int | None = None, changes: bool = False, snapshots_per_batch: int | None = None
    ) -> Any:
        """A streaming DataFrame of Spark with the rows of a table, and later those that new snapshots insert.

        Spark's processes read the configuration file of the store, and the variables that it names.

        Args:
            table: As for `table`.
            since: The first snapshot whose changes are read, in place of the whole table.
            changes: True for all changes, with the columns of `Table.changes`; needs `since`.
            snapshots_per_batch: The largest number of snapshots in a batch; None for all that exist.

        Raises:
            UnsupportedError: The lake was opened without Spark, or its store is not declared in a file.
            SparkError: There is no such table, or Spark cannot hold its rows.
        """
        check_flags(changes=changes)
        return stream(self._scope, table, since, snapshots_per_batch, changes=changes)

    def columns_of(self, frame: object) -> dict[str, str]:
        """The columns of a frame and the DuckDB names of their types; no row is read.

        Args:
            frame: A frame that `Table.append` accepts.
        """
        return self._session.engine.schema(self._session.engine.adopt(frame))

    def read_parquet(self, paths: Sequence[str]) -> nw.LazyFrame[Any]:
        """The rows of Parquet files outside the lake; columns are matched by name.

        On Spark, executors read the files if Spark sees the same columns and types as DuckDB; otherwise DuckDB does.

        Args:
            paths: Absolute paths or URIs.

        Raises:
            SchemaError: The paths are not a list of strings.
            StorageError: There are no paths, or a file does not exist.
            QueryError: DuckDB cannot read them.
        """
        names = name_list(paths, "paths")
        if not names:
            raise StorageError("there are no files to read", hint="name at least one")
        source = files_sql("read_parquet", names, "union_by_name = true")
        connection = self._session.reader.connection
        files = connection.relation(f"FROM {source}")
        types = dict(zip(files.columns, map(str, files.types), strict=True))
        check_decimals(connection, names, types.values())
        engine = self._session.engine
        rows = None
        if isinstance(engine, SparkOperations) and not name_classes(connection, names):
            rows = engine.read_files(names, types)
        return lazy_rows(files, connection) if rows is None else rows

    def sql(self, query: str, /, **frames: object) -> nw.LazyFrame[Any]:
        """Runs a query on DuckDB at the latest snapshot; in a transaction and after `at()`, at the snapshot of these.

        A query may name another one for a table: `AT (VERSION => 3)`. Every write accepts the result, on Spark, too.

        Args:
            query: A query without parameters in DuckDB's SQL; the lake is the default database.
            **frames: Frames that the query names like tables. The rows of frames of Spark are sent to this process.

        Returns:
            A lazy frame of DuckDB.

        Raises:
            QueryError: It is not a single query, DuckDB rejects it, or it uses a view or macro that may do more than
                read the lake.
            UnsupportedError: In a transaction and after `at()`, it calls a macro of the lake.
        """
        _check_query(query)
        check_distinct(list(frames), "the query", "frames")
        if not reads_only(query, frames):
            self._scope.add_read(None)
        query = prepare_query(self._session.reader, query, frames=frames, at=self._scope.pinned_at)
        check_only_reads(query)
        engine = self._session.engine
        if all(name.startswith(VIEW_PREFIX) for name in frames):
            with self._tables_suggested():
                return engine.query(query, frames)
        views = {folded(name): unique_view() for name in frames}
        frames_by_view = {views[folded(name)]: frame for name, frame in frames.items()}
        with self._tables_suggested(), _names_of_the_user({views[folded(name)]: name for name in frames}):
            return engine.query(query_over_views(query, views), frames_by_view)

    def execute(self, sql: str, /, *, idempotency_key: str | None = None, **frames: object) -> int:
        """Runs an INSERT, UPDATE or DELETE on one table of the lake, as one snapshot.

        DuckDB runs it at the commit, also if the lake is open on Spark.

        Args:
            sql: The statement, in DuckDB's SQL; the lake is the default database.
            idempotency_key: As for `Table.append`.
            **frames: Frames that the statement names like tables, such as `staged=frame` or `given=[{"id": 1}]`.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            QueryError: The SQL is not a single statement that changes rows, or DuckDB rejects it.
            UnsafeQueryError: It may use a view or macro of the lake that does more than read the lake.
            UnsupportedError: It is a MERGE INTO, or DuckLake does not support a part of the statement.
            CommitConflictError: Another writer has changed a table that the statement depends on.
            CommitError: Nothing was written.
        """
        _check_query(sql)
        with self._tables_suggested():
            statement = parse_statement(self._session.reader.connection, sql, self._session.alias)
            table = statement.name_of(statement.target)
            return write(self._scope, table, Execute(statement, frames), idempotency_key=idempotency_key)

    def _tables_suggested(self) -> AbstractContextManager[None]:
        otherwise = "pass a frame by its name, as in lake.sql(…, name=frame); or use one of the tables"
        return tables_suggested(partial(readable_names, self._session.reader), otherwise)

    def create_table(
        self,
        name: str,
        like: object,
        *,
        partitioned_by: Sequence[str] = (),
        sorted_by: Sequence[str] = (),
        comment: str | None = None,
        column_comments: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Creates an empty table, and its schema if it does not exist.

        Args:
            name: `schema.table`, or `table` for the schema `main`.
            like: The columns: a mapping of names to DuckDB types, each optionally followed by `NOT NULL`; or a frame
                with the same schema. Its arrays with a fixed length become lists.
            partitioned_by: Keys: a column, or `year(column)`, `month(…)`, `day(…)`, `hour(…)`, `bucket(n, column)`.
            sorted_by: Columns by which DuckLake sorts the rows of each file that it writes. Each may be followed by
                `ASC` or `DESC`, and by `NULLS FIRST` or `NULLS LAST`.
            comment: A description of the table.
            column_comments: Descriptions of its columns, by name.
            if_not_exists: True to return a table that exists already as it is, whatever its columns.

        Returns:
            The table.

        Raises:
            SchemaError: The table already exists, or a type, a key or a column does not exist.
        """
        check_flags(if_not_exists=if_not_exists)
        engine = self._session.engine
        if not (if_not_exists and define.exists(self._scope, name)):
            columns = dict(like) if isinstance(like, Mapping) else as_list_types(engine.schema(engine.adopt(like)))
            definition = Definition(columns, partitioned_by, sorted_by, comment, column_comments or {})
            try:
                write(self._scope, name, define.CreateTable(definition), message=f"create table {full_name(name)}")
            except LakeconfError:
                if not (if_not_exists and self._appeared(name)):
                    raise
        return Table(self._scope, name)

    def _appeared(self, name: str) -> bool:
        """True if another writer has created the table; reads then see it."""
        if self._scope.is_pinned or self._session.pinned:
            return False
        self._session.advance(latest(self._session.reader).snapshot_id)
        return define.exists(self._scope, name)

    def drop_table(self, name: str, *, if_exists: bool = False) -> int:
        """Drops a table in one snapshot. Its rows remain in earlier snapshots until these expire: see `at`.

        Args:
            name: A name in the form that `table` accepts.
            if_exists: True to do nothing if there is no such table.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            TableNotFoundError: There is no such table.
            SchemaError: It is a view, or the transaction has written to the table.
            CommitConflictError: Another writer has changed its columns; or, after this lake has read the table or in a
                transaction, its rows.
        """
        check_flags(if_exists=if_exists)
        try:
            return write(self._scope, name, define.DropTable(), message=f"drop table {full_name(name)}")
        except TableNotFoundError:
            if not if_exists or define.exists(self._scope, name):
                raise
        return self._scope.snapshot_id

    def rename_table(self, name: str, new_name: str) -> Table:
        """Renames a table within its schema, in one snapshot. Its history and its idempotency keys stay with it.

        Views that read the table under its old name fail afterwards.

        Args:
            name: A name in the form that `table` accepts.
            new_name: The new name, with the schema unless it is `main`.

        Returns:
            The table. In a transaction, it cannot be used before the commit.

        Raises:
            TableNotFoundError: There is no such table.
            SchemaError: The new name is taken or is in another schema, or the table is a view.
            CommitConflictError: Another writer has changed its columns, or has renamed it.
        """
        message = f"rename table {full_name(name)} to {full_name(new_name)}"
        write(self._scope, name, define.RenameTable(new_name), message=message)
        return Table(self._scope, new_name)

    def plan_restore(
        self, name: str, *, version: int | None = None, timestamp: datetime | str | None = None
    ) -> RestorePlan:
        """What `restore` would do with the same arguments; nothing is changed.

        Raises:
            SnapshotNotFoundError: The snapshot does not exist or has expired.
            TableNotFoundError: There was no such table at that snapshot.
            CommitConflictError: The snapshot is newer than that of the lake.
        """
        return Restores(self._scope).plan(name, version, timestamp)

    def restore(self, name: str, *, version: int | None = None, timestamp: datetime | str | None = None) -> int:
        """Gives a table the rows and columns of an older snapshot, in one new snapshot; a dropped table comes back.

        The state before remains in earlier snapshots, so a restore can be undone by another one. The table is the one
        that had the name at that snapshot. If its columns have changed since, or it was dropped, it is created again:
        its history begins anew, without idempotency keys.

        Args:
            name: A name in the form that `table` accepts.
            version: The version of a snapshot.
            timestamp: A time with a time zone, instead of a version, as for `at`.

        Returns:
            The new snapshot; the lake's snapshot if the table has not changed since.

        Raises:
            SnapshotNotFoundError: The snapshot does not exist or has expired.
            TableNotFoundError: There was no such table at that snapshot.
            CommitConflictError: Another writer has changed the table since the lake's snapshot.
        """
        return Restores(self._scope).restore(name, version, timestamp)

    def plan_adopt(self, path: str, name: str, *, types: Mapping[str, str] | None = None) -> AdoptPlan:
        """What `adopt` would do with the same arguments; nothing is changed."""
        from lakeconf.lake.adoption.adoption import Adoptions

        return Adoptions(self._scope).plan(path, name, types or {})

    def adopt(self, path: str, name: str, *, types: Mapping[str, str] | None = None, verify: Verify = "bounds") -> int:
        """Registers the files of a folder as rows of a table, in one snapshot, without copying them.

        A second call adds new files only. Before the commit, the rows that DuckLake reads are compared with those of
        the source's own reader. Maintenance neither removes nor rewrites the files, unless the store's `maintenance`
        says that the lake `owns` their folder.

        Args:
            path: A folder of Parquet files, with or without partitions such as `day=2026-01-31/`; the folder of a Delta
                table; or the metadata file of an Iceberg table. It may be in a bucket of the store's server.
            name: `schema.table`, or `table` for the schema `main`; it is created if it does not exist.
            types: The DuckDB types of columns of a new table that are not to be those of the files.
            verify: `bounds` compares numbers of rows and of NULLs, least and greatest values; `full` also each row.

        Returns:
            The new snapshot; the lake's snapshot if there are no new files.

        Raises:
            UnsupportedError: The source has something that DuckLake cannot express.
            SchemaError: The columns of the files do not fit each other or the table.
            StorageError: A file is missing, is a link, or has changed since it was adopted.
            CommitConflictError: The source has removed files since, or another writer has changed the table.
            CommitError: The rows differ, or the statistics of a file are wrong. Nothing was written.
        """
        from lakeconf.lake.adoption.adoption import Adoptions

        return Adoptions(self._scope).adopt(path, name, types or {}, verify)

    def create_view(self, name: str, sql: str) -> None:
        """Creates or replaces a view of the lake, which DuckDB computes.

        Args:
            name: A name in the form that `table` accepts.
            sql: A query in DuckDB's SQL.

        Raises:
            QueryError: DuckDB rejects the query.
        """
        _check_query(sql)
        with tables_suggested(partial(readable_names, self._session.reader), "use one of the tables"):
            write(self._scope, name, define.CreateView(sql), message=f"create view {full_name(name)}")

    def drop_view(self, name: str, *, if_exists: bool = False) -> int:
        """Drops a view in one snapshot.

        Args:
            name: A name in the form that `table` accepts.
            if_exists: True to do nothing if there is no such view.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            TableNotFoundError: There is no such view.
        """
        check_flags(if_exists=if_exists)
        try:
            return write(self._scope, name, define.DropView(), message=f"drop view {full_name(name)}")
        except TableNotFoundError:
            if not if_exists:
                raise
        return self._scope.snapshot_id

    def views(self) -> list[str]:
        """The sorted names of the views at the lake's snapshot; read one with `sql`."""
        return list(view_names(self._session.reader, self._scope.snapshot_id))


@contextlib.contextmanager
def _names_of_the_user(names: Mapping[str, str]) -> Iterator[None]:
    """Errors name the frames as the user does."""
    try:
        yield
    except LakeconfError as error:
        for view, name in names.items():
            error.message = error.message.replace(view, name)
        error.args = (error.message,)
        raise


def _check_query(sql: object) -> None:
    if not isinstance(sql, str):
        raise QueryError(f"the SQL is not a string: {type(sql).__name__}", hint="write it as a string")
    if "\0" in sql:
        raise QueryError("the SQL contains the character NUL, at which DuckDB's parser ends", hint="write chr(0)")
