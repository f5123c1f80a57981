"""The methods of a lake that create, change and drop tables and views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from lakeconf.arguments import check_flags
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.unknown_tables import readable_names, tables_suggested
from lakeconf.catalog.views import view_names
from lakeconf.completion import PublicNames
from lakeconf.deferred import deferred
from lakeconf.errors import LakeconfError, QueryError, TableNotFoundError
from lakeconf.lake.table import Table

if TYPE_CHECKING:
    from lakeconf.commit.scope import Scope
    from lakeconf.lake.restore import RestorePlan, Restores
    from lakeconf.write import schema_changes
    from lakeconf.write.ddl import Definition
else:
    Restores = deferred("lakeconf.lake.restore", "Restores")
    schema_changes = deferred("lakeconf.write.schema_changes")
    Definition = deferred("lakeconf.write.ddl", "Definition")


class Definitions(PublicNames):
    """Tables and views of a lake; `Lake` inherits these methods.

    Args:
        scope: The lake.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._session = scope.session

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
                with the same schema.
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
        if not (if_not_exists and schema_changes.exists(self._scope, name)):
            columns = dict(like) if isinstance(like, Mapping) else engine.schema(engine.adopt(like))
            definition = Definition(columns, partitioned_by, sorted_by, comment, column_comments or {})
            try:
                schema_changes.create(self._scope, name, definition)
            except LakeconfError:
                if not (if_not_exists and self._appeared(name)):
                    raise
        return Table(self._scope, name)

    def _appeared(self, name: str) -> bool:
        """True if another writer has created the table; reads then see it."""
        if self._scope.is_pinned or self._session.pinned:
            return False
        self._session.advance(latest(self._session.reader).snapshot_id)
        return schema_changes.exists(self._scope, name)

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
            schema_changes.drop(self._scope, name)
        except TableNotFoundError:
            if not if_exists or schema_changes.exists(self._scope, name):
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
        schema_changes.rename(self._scope, name, new_name)
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

    def create_view(self, name: str, sql: str) -> None:
        """Creates or replaces a view of the lake, which DuckDB computes.

        Args:
            name: A name in the form that `table` accepts.
            sql: A query in DuckDB's SQL.

        Raises:
            QueryError: DuckDB rejects the query.
        """
        if not isinstance(sql, str):
            raise QueryError(f"the SQL is not a text: {type(sql).__name__}", hint="write it as text")
        with tables_suggested(partial(readable_names, self._session.reader), "use one of the tables"):
            schema_changes.create_view(self._scope, name, sql)

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
            schema_changes.drop_view(self._scope, name)
        except TableNotFoundError:
            if not if_exists:
                raise
        return self._scope.snapshot_id

    def views(self) -> list[str]:
        """The sorted names of the views at the lake's snapshot; read one with `sql`."""
        return list(view_names(self._session.reader, self._scope.snapshot_id))
