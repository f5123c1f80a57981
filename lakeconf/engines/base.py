"""The interface of an engine: it scans tables and stages the rows of writes.

The constructor binds an engine to one lake: to the reader of its catalog and to the connection that commits. The
methods accept tables, snapshots and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    import narwhals as nw

    from lakeconf.catalog.predicate.nodes import Predicate
    from lakeconf.catalog.predicate.where import Where
    from lakeconf.catalog.scan import ScanPlan
    from lakeconf.catalog.table import Column, TableInfo
    from lakeconf.engines.checksum import TableCheck

# The name of the column with DuckLake's row id.
ROW_ID = "__lakeconf_row_id"


@dataclass(frozen=True)
class StagingRequest:
    """The target of staged rows.

    Attributes:
        table: The table that the rows belong to or change.
        types: The columns, and the DuckDB names of their types in the result.
        token: The ID of this write.
        registered: True if DuckLake will read the partition values of the files from their paths.
        row_ids: True to write the ids of the rows to the files too, for a staged commit.
    """

    table: TableInfo
    types: Mapping[str, str]
    token: str
    registered: bool = True
    row_ids: bool = False


@dataclass(frozen=True)
class Staged:
    """Staged rows: written, but not yet committed and not visible to readers.

    Attributes:
        source: SQL that returns the staged rows, with the columns and types of the table.
        files: Parquet files that can be registered unchanged; empty if the rows of `source` must be inserted.
        rest: SQL that returns the rows outside `files`, which must be inserted besides; None if there are none.
        discard: SQL statements that remove the staged rows from DuckDB.
        folder: The staging folder of this write; None if it has no files. Files of a partitioned table are outside.
        row_count: Number of rows; None if it is not known before the commit.
        keeps_files: True if `files` are registered and remain after the write; False if their rows are inserted.
    """

    source: str
    files: tuple[str, ...] = ()
    rest: str | None = None
    discard: tuple[str, ...] = ()
    folder: str | None = None
    row_count: int | None = None
    keeps_files: bool = True

    @property
    def placed_files(self) -> tuple[str, ...]:
        """The files outside the staging folder."""
        folder = self.folder
        return () if folder is None else tuple(path for path in self.files if not path.startswith(folder))


class ScanEngine(Protocol):
    """Reads the tables of one lake."""

    name: str

    def scan(
        self, table: str, snapshot_id: int, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> nw.LazyFrame[Any]:
        """The rows of a table at a snapshot, as a lazy frame of the engine.

        Args:
            table: The name of the table, as for `load_table`.
            snapshot_id: The snapshot.
            columns: The columns; all by default.
            where: A condition for the rows.

        Raises:
            UnsupportedError: The engine cannot read the table exactly.
        """
        ...

    def scan_rows(self, table: str, snapshot_id: int, where: Where | Predicate | None = None) -> nw.LazyFrame[Any]:
        """Like `scan` of all columns, with `ROW_ID` as an additional column."""
        ...

    def changes(self, table: str, since: int, until: int) -> nw.LazyFrame[Any]:
        """The changes of a table in a range of snapshots, including both ends. The caller has checked the range.

        Raises:
            UnsupportedError: The engine cannot read the changes exactly; the hint names an alternative.
        """
        ...

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        """The rows of a query over frames, computed by DuckDB.

        Args:
            sql: A query in DuckDB's SQL.
            frames: The frame of each table in the query, by name; the names are unique.

        Raises:
            QueryError: DuckDB rejects the query.
        """
        ...


class WriteEngine(Protocol):
    """Stages rows for a commit."""

    def details(self) -> Mapping[str, str]:
        """Properties of the engine that a commit records besides its name, such as Spark's application id."""
        ...

    def adopt(self, frame: object) -> Any:
        """Converts a frame of any library to one that this engine can process; the data is transferred once.

        Raises:
            SchemaError: narwhals does not support the type of the frame.
        """
        ...

    def joinable(self, frame: object) -> Any:
        """Like `adopt`, as a frame that joins with scans of the engine."""
        ...

    def schema(self, adopted: Any) -> dict[str, str]:
        """The columns of an adopted frame and the DuckDB names of their types.

        Raises:
            SchemaError: DuckLake does not support a type.
        """
        ...

    def conform(self, adopted: Any, columns: Mapping[Column, str]) -> Any:
        """Selects these columns of a table from an adopted frame and casts them to the table's types.

        Args:
            adopted: The frame.
            columns: The columns, each with the DuckDB name of its type.
        """
        ...

    def stage(self, adopted: Any, request: StagingRequest) -> Staged:
        """Stages the rows of a frame as rows of a table.

        Args:
            adopted: An adopted frame whose columns have been checked.
            request: The table, with its columns and their types.

        Raises:
            SchemaError: A NOT NULL column has a NULL.
        """
        ...

    def stage_rows(self, adopted: Any, request: StagingRequest) -> Staged:
        """Stages rows that are not rows of a table but specify changes to its rows.

        Args:
            adopted: A frame of the engine.
            request: The table, with the columns of the frame and their types.
        """
        ...

    def staged_rows(self, staged: Staged, columns: Sequence[str]) -> Any:
        """The rows of `stage_rows` as a frame of the engine.

        Args:
            staged: The result of `stage_rows`.
            columns: The columns.
        """
        ...

    def stage_part(self, staged: Staged, condition: str, request: StagingRequest) -> Staged:
        """Stages some of the rows of `stage_rows` as rows of the table.

        Args:
            staged: The result of `stage_rows`.
            condition: Selects the rows; SQL that has the same meaning in DuckDB and Spark.
            request: The table, with its columns and their types.
        """
        ...

    def release(self, staged: Staged) -> None:
        """Ends a write: removes the staged rows, except for the files if `staged.keeps_files`."""
        ...


class Engine(ScanEngine, WriteEngine, Protocol):
    """DuckDB or Spark."""

    def for_small_merges(self) -> Engine | None:
        """The engine that computes merges of little data on frames that this engine has staged; None if it does so."""
        ...


@runtime_checkable
class SparkOperations(Protocol):
    """The operations that need a Spark session."""

    def read_files(self, paths: Sequence[str], types: Mapping[str, str]) -> nw.LazyFrame[Any] | None:
        """The rows of Parquet files that are not part of a lake.

        Args:
            paths: Absolute paths or URIs.
            types: The columns and their types, as DuckDB detects them.

        Returns:
            A frame with these columns; None if DuckDB should read the files instead.
        """
        ...

    def register_views(self, frames: Mapping[str, nw.LazyFrame[Any]], session: Any = None) -> None:
        """Creates temporary views of scans.

        Args:
            frames: The frame of each view, by name of the view.
            session: The session that gets the views; default: the engine's session.
        """
        ...

    def run_sql(
        self, text: str, frames: Mapping[str, Any], parameters: Mapping[str, str] | None = None
    ) -> nw.LazyFrame[Any]:
        """Runs a query in Spark's SQL, with the settings of the engine's session.

        Args:
            text: The query.
            frames: The frames by the names of temporary views, which only this query sees.
            parameters: The values of parameters such as `:start`, as constants in Spark's SQL.

        Raises:
            QueryError: Spark rejects the query.
        """
        ...

    def find_rows(self, plan: ScanPlan) -> nw.LazyFrame[Any]:
        """The positions of the rows in data files that satisfy the predicate of a plan.

        Args:
            plan: The files to search and the predicate; it has the columns of the predicate.

        Returns:
            A frame with the columns of `positions.POSITION_TYPES`; the paths are those of the plan.

        Raises:
            UnsupportedError: The engine cannot read a file exactly.
        """
        ...

    def count(self, rows: nw.LazyFrame[Any]) -> int:
        """The number of rows of a frame of the engine; `SparkError` if the job fails."""
        ...

    def check(self, table: str, snapshot_id: int) -> TableCheck:
        """Compares the rows that Spark and DuckDB read from a table; `UnsupportedError` if Spark cannot."""
        ...


def spark_operations(engine: Engine, needed_for: str) -> SparkOperations:
    """The Spark operations of an engine.

    Args:
        engine: The engine of a lake.
        needed_for: The operation that needs a Spark session; the start of the error message.

    Raises:
        UnsupportedError: The engine has no session.
    """
    if isinstance(engine, SparkOperations):
        return engine
    raise UnsupportedError(
        f"{needed_for} needs a classic Spark session, and this lake was opened without one",
        hint="open the lake with a session: store.open(spark)",
    )
