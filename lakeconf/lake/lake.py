"""A lake: an opened store at a pinned snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakeconf.arguments import check_flags
from lakeconf.catalog.column_lookup import name_list
from lakeconf.catalog.definitions import check_not_replaced
from lakeconf.catalog.snapshot import Snapshot, chosen, latest, snapshots
from lakeconf.catalog.table import tables
from lakeconf.catalog.table_name import INTERNAL_SCHEMA, split_name
from lakeconf.commit.scope import Scope
from lakeconf.deferred import deferred
from lakeconf.engines.base import SparkOperations, spark_operations
from lakeconf.errors import LakeconfError, StorageError
from lakeconf.lake.definitions import Definitions
from lakeconf.lake.notebook import Snapshots, html_table, listed
from lakeconf.lake.opening import open_session
from lakeconf.lake.queries import Queries
from lakeconf.lake.table import Table
from lakeconf.sql import literal, qualified

if TYPE_CHECKING:
    import narwhals as nw

    from lakeconf.commit.audits import Audit, Check
    from lakeconf.engines.lazy_rows import lazy_rows
    from lakeconf.engines.schema_check import named_views
    from lakeconf.lake.maintenance import Maintenance
    from lakeconf.lake.run_journal import RunJournal
    from lakeconf.lake.stream_source import stream
    from lakeconf.lake.streaming import StreamSink
    from lakeconf.store import Store
else:
    Audit = deferred("lakeconf.commit.audits", "Audit")
    lazy_rows = deferred("lakeconf.engines.lazy_rows", "lazy_rows")
    named_views = deferred("lakeconf.engines.schema_check", "named_views")
    Maintenance = deferred("lakeconf.lake.maintenance", "Maintenance")
    RunJournal = deferred("lakeconf.lake.run_journal", "RunJournal")
    stream = deferred("lakeconf.lake.stream_source", "stream")
    StreamSink = deferred("lakeconf.lake.streaming", "StreamSink")


class Lake(Definitions, Queries):
    """An open lake, returned by `Store.open`. All its tables are read at one snapshot.

    Its own commits and `refresh()` move the snapshot. Use it as a context manager to close it, with all its frames.
    """

    _not_proposed = ("runs",)

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
            return f"{start}: {listed(self.tables()) or 'no tables'})"
        except LakeconfError as error:  # it is closed, or the catalog cannot be reached
            return f"{start}: {error.message})"

    def _repr_html_(self) -> str:
        title = f"Lake {self._session.alias} at snapshot {self._scope.snapshot_id}, {self._session.engine.name}"
        names = [*((name, "table") for name in self.tables()), *((name, "view") for name in self.views())]
        return html_table(title, ("name", "kind"), names)

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
        known, newest = self.snapshot_id, latest(self._session.reader).snapshot_id
        check_not_replaced(known, newest)
        return self._session.advance(newest, refresh=True)

    def table(self, name: str) -> Table:
        """A table by name; whether it exists is checked on first use.

        Args:
            name: `schema.table`, or `table` for the schema `main`.
        """
        return Table(self._scope, name)

    def tables(self) -> list[str]:
        """The sorted names of the tables at the lake's snapshot, as `table` accepts them, without internal tables."""
        found = tables(self._session.reader, self._scope.snapshot_id)
        return sorted(info.full_name for info in found if info.schema_name.lower() != INTERNAL_SCHEMA)

    def snapshots(self) -> list[Snapshot]:
        """All snapshots of the lake that have not expired, oldest first."""
        return Snapshots(snapshots(self._session.reader))

    def at(self, *, version: int | None = None, timestamp: datetime | str | None = None) -> Lake:
        """The lake at an older snapshot: a read-only lake that is closed together with this one.

        Args:
            version: The version of a snapshot.
            timestamp: A time with a time zone, instead of a version; or a text in ISO 8601, such as
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
            author: The author of the commit.
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

    def audit(self, name: str, check: Check, *, table: str | None = None) -> None:
        """Adds a condition to the open transaction: if the new state violates it, nothing is committed.

        DuckDB runs it inside the commit's transaction, on any engine, so it sees exactly what would be committed.

        Args:
            name: The name that errors show.
            check: A query that returns the rows that violate the condition; the lake is the default database. Or a
                function that takes the table's new rows as a narwhals lazy frame and returns the rows that violate it.
            table: The table that a function checks, in the form that `table` accepts.

        Raises:
            LakeconfError: No transaction is open, it has ended, or a function has no table.
        """
        if self._scope.transaction is None:
            raise LakeconfError(
                "an audit needs an open transaction", hint="write: with lake.transaction() as tx: tx.audit(…)"
            )
        self._scope.transaction.check_open()
        if callable(check) and table is None:
            raise LakeconfError(f"the audit {name!r} is a function and needs a table", hint="write audit(…, table=…)")
        source = None if table is None else qualified(self._session.alias, *split_name(table))
        self._scope.transaction.audits.append(Audit(name, check, source))

    def stream_sink(self, table: str, *, query: str | None = None) -> StreamSink:
        """A sink for a Structured Streaming query: `stream.writeStream.foreachBatch(lake.stream_sink("raw.events"))`.

        Each batch is one snapshot and is committed exactly once, even if Spark repeats it.

        Args:
            table: The table that batches are appended to.
            query: A name for the query. The sink refuses the same name with another checkpoint, because Spark then
                counts batches from 0 again. Without a name, Spark's query id is used, and another checkpoint appends
                all batches again.

        Raises:
            LakeconfError: A transaction is open: Spark would not repeat a batch that the transaction discards.
            TableNotFoundError: There is no such table.
        """
        if self._scope.transaction is not None:
            raise LakeconfError(
                "a transaction is open, and the batches of a stream cannot be a part of it",
                hint="use the lake itself: lake.stream_sink(…)",
            )
        found = self.table(table)
        _ = found.schema  # Spark would show an error in the first batch only
        return StreamSink(found, query)

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
            SchemaError: The paths are not a list of texts.
            StorageError: There are no paths, or a file does not exist.
            QueryError: DuckDB cannot read them.
        """
        given = name_list(paths, "paths")
        if not given:
            raise StorageError("there are no files to read", hint="name at least one")
        listed = ", ".join(map(literal, given))
        files = self._session.reader.connection.relation(f"FROM read_parquet([{listed}], union_by_name = true)")
        types = dict(zip(files.columns, map(str, files.types), strict=True))
        engine = self._session.engine
        found = engine.read_files(given, types) if isinstance(engine, SparkOperations) else None
        return lazy_rows(files) if found is None else found

    def register_views(self, spark: Any = None, prefix: str = "", *, tables: Sequence[str] | None = None) -> list[str]:
        """Registers tables as temporary views of a Spark session, at the lake's snapshot, for `spark.sql`.

        The view of `raw.events` is `raw_events`, that of `main.events` is `main_events`. Existing views with these
        names are replaced. If any table cannot be read exactly, no view is created. The views keep their snapshot.

        Args:
            spark: The session; defaults to the lake's own.
            prefix: Prefix of the view names.
            tables: The tables, in the form that `table` accepts; defaults to all tables.

        Returns:
            The view names.

        Raises:
            UnsupportedError: The lake was opened without Spark, or Spark cannot read a table exactly.
            LakeconfError: Two tables would have the same view name.
            SparkError: The session belongs to another application.
        """
        operations = spark_operations(self._session.engine, "registering views")
        names = self.tables() if tables is None else list(tables)
        views = named_views(names, prefix)
        frames = {view: self.table(name).scan() for view, name in views.items()}
        operations.register_views(frames, spark)
        return list(views)
