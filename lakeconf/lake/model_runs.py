"""What models stand on: their runs, which the lake remembers, views, and SQL over frames."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw

from lakeconf.catalog.changes_made import changes_since
from lakeconf.catalog.snapshot import by_version
from lakeconf.catalog.stored_queries import prepare_query
from lakeconf.catalog.table import load_table, split_name
from lakeconf.commit import journal
from lakeconf.commit.change import Change
from lakeconf.commit.journal import ModelRun
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.ducklake import check_placeholders
from lakeconf.errors import LakeconfError
from lakeconf.sql import identifier, literal
from lakeconf.write.writes import Writing


class LakeModelRuns:
    """The part of `Lake` that models stand on; see there."""

    _scope: Scope
    _session: Session

    def model_runs(self, model: str) -> list[ModelRun]:
        """The runs of a model that have been committed to the lake, oldest first, whatever has expired since.

        Args:
            model: The model's table, as `schema.table`.
        """
        return journal.model_runs(self._session.reader.connection, self._session.alias, model)

    def record(self, run: ModelRun) -> None:
        """Remembers a run of a model in the open transaction, which is refused where another was committed meanwhile.

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

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        """Runs a query over frames on the lake's engine; Spark is given its translation.

        Args:
            sql: A query in DuckDB's SQL.
            frames: What its tables are, by name.

        Returns:
            A lazy frame of the engine.

        Raises:
            UnsupportedError: It has something that Spark's SQL has not.
            QueryError: The engine refuses it.
            UnsafeQueryError: It calls an unsafe macro of the lake.
        """
        prepare_query(self._session.reader, sql, frames=frames)
        return self._session.engine.query(sql, frames)

    def columns_of(self, frame: object) -> dict[str, str]:
        """The columns of a frame and their types, in DuckDB's names; no row is read.

        Args:
            frame: A frame that `Table.append` accepts.
        """
        return self._session.engine.schema(self._session.engine.adopt(frame))

    def read_parquet(self, paths: Sequence[str]) -> nw.LazyFrame[Any]:
        """The rows of Parquet files that belong to no lake; columns are matched by name.

        On Spark the executors read them where they find the columns and types that DuckDB finds, and DuckDB does else.

        Args:
            paths: Absolute paths or URIs.

        Raises:
            QueryError: DuckDB cannot read them.
        """
        listed = ", ".join(map(literal, paths))
        files = self._session.reader.connection.relation(f"FROM read_parquet([{listed}], union_by_name = true)")
        types = dict(zip(files.columns, map(str, files.types), strict=True))
        found = self._session.engine.read_files(paths, types)
        return nw.from_native(files) if found is None else found

    def create_view(self, name: str, sql: str) -> None:
        """Makes a view of the lake, or replaces it; DuckDB answers it.

        Args:
            name: As `table` takes it.
            sql: A query in DuckDB's SQL.

        Raises:
            QueryError: DuckDB refuses it.
        """
        schema, view = split_name(name)
        quoted = f"{identifier(self._session.alias)}.{identifier(schema)}"
        statements = (
            f"CREATE SCHEMA IF NOT EXISTS {quoted}",
            f"CREATE OR REPLACE VIEW {quoted}.{identifier(view)} AS {sql}",
        )
        with Writing(self._scope, f"create view {schema}.{view}") as transaction:
            check_placeholders(statements[1], f"the view {schema}.{view}")
            transaction.add(Change(statements, f"{schema}.{view}", defines=True))

    def commit_info(self, snapshot_id: int) -> dict[str, Any]:
        """What a commit of lakeconf says of itself: `rows`, `seconds`, `engine`, `extra` and more; else empty."""
        found = by_version(self._session.reader, snapshot_id).extra_info
        info = json.loads(found) if found and found.startswith("{") else {}
        return info if isinstance(info, dict) else {}
