"""The interface of an engine: it scans tables and stages the rows of writes.

The constructor binds an engine to one lake: to the reader of its catalog and to the connection that commits. The
methods accept tables, snapshots and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from lakeconf.catalog.tables import TableInfo
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    import narwhals as nw

    from lakeconf.catalog.pruning.predicates import Predicate
    from lakeconf.catalog.pruning.scan_plan import ScanPlan
    from lakeconf.catalog.pruning.where import Where
    from lakeconf.catalog.table_options import Default
    from lakeconf.catalog.tables import Column
    from lakeconf.engines.fingerprints import TableCheck


# The name of the engine that every lake has.
DUCKDB: Final = "duckdb"
# The name of the column with DuckLake's row id.
ROW_ID = "__lakeconf_row_id"
# The columns that identify a row in a data file: the path of the file, its id in the catalog, and the 0-based position
# of the row. They are NULL for a row in the catalog.
FILENAME = "__lakeconf_filename"
FILE_ID = "__lakeconf_file_id"
FILE_ROW_NUMBER = "__lakeconf_file_row_number"


@dataclass(frozen=True)
class StagingRequest:
    """The target of staged rows."""

    table: TableInfo  # the table that the rows belong to or change
    types: Mapping[str, str]  # the columns, and the DuckDB names of their types in the result
    token: str  # the ID of this write
    registered: bool = True  # True if DuckLake will read the partition values of the files from their paths
    row_ids: bool = False  # True to write the ids of the rows to the files too, for a staged commit


@dataclass(frozen=True)
class Staged:
    """Staged rows: written, but not yet committed and not visible to readers."""

    source: str  # SQL that returns the staged rows, with the columns and types of the table
    # Parquet files that can be registered unchanged; empty if the rows of `source` must be inserted.
    files: tuple[str, ...] = ()
    # SQL that returns the rows outside `files`, which must be inserted besides; None if there are none.
    rest: str | None = None
    discard: tuple[str, ...] = ()  # SQL statements that remove the staged rows from DuckDB
    # The staging folder of this write; None if it has no files. Files of a partitioned table are outside.
    folder: str | None = None
    announced: bool = True  # True if the folder has a manifest; False if it is in an announced one
    row_count: int | None = None  # number of rows; None if it is not known before the commit
    # True if `files` are registered and remain after the write; False if their rows are inserted.
    keeps_files: bool = True
    # Spark's frame of the rows, if Spark staged them to read them again.
    rows: Any = field(default=None, repr=False, compare=False)

    @property
    def placed_files(self) -> tuple[str, ...]:
        """The files outside the staging folder."""
        folder = self.folder
        return () if folder is None else tuple(path for path in self.files if not path.startswith(folder))


class Engine(Protocol):
    """DuckDB or Spark: reads the tables of one lake, and stages rows for a commit."""

    name: str

    def scan(
        self, table: str, snapshot_id: int, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> nw.LazyFrame[Any]:
        """The rows of a table at a snapshot, as a lazy frame of the engine."""
        ...

    def scan_rows(
        self, table: TableInfo, snapshot_id: int, where: Where | Predicate | None = None
    ) -> nw.LazyFrame[Any]:
        """Like `scan` of all columns, with `ROW_ID` as an additional column."""
        ...

    def changes(self, table: str, since: int, until: int) -> nw.LazyFrame[Any]:
        """The changes of a table in a range of snapshots, including both ends. The caller has checked the range."""
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Names the errors of computing the rows of its frames."""
        ...

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        """The rows of a query over frames, computed by DuckDB; `frames` has the frame of each table in the query."""
        ...

    def details(self) -> Mapping[str, str]:
        """Properties of the engine that a commit records besides its name, such as Spark's application id."""
        ...

    def adopt(self, frame: object) -> Any:
        """Converts a frame of any library to one that this engine can process; the data is transferred once."""
        ...

    def joinable(self, frame: object) -> Any:
        """Like `adopt`, as a frame that joins with scans of the engine."""
        ...

    def schema(self, adopted: Any) -> dict[str, str]:
        """The columns of an adopted frame and the DuckDB names of their types."""
        ...

    def conform(self, adopted: Any, columns: Mapping[Column, str]) -> Any:
        """Selects columns of a table from an adopted frame and casts them to these types of DuckDB."""
        ...

    def stage(self, adopted: Any, request: StagingRequest) -> Staged:
        """Stages the rows of an adopted frame, whose columns have been checked, as rows of a table."""
        ...

    def stage_rows(self, adopted: Any, request: StagingRequest) -> Staged:
        """Stages rows that specify changes to rows of a table; `request` has the columns of the frame."""
        ...

    def staged_rows(self, staged: Staged, columns: Sequence[str]) -> Any:
        """The rows of `stage_rows` as a frame of the engine."""
        ...

    def stage_part(self, staged: Staged, condition: str, request: StagingRequest) -> Staged:
        """Stages rows of `stage_rows` as rows of the table; DuckDB and Spark understand the condition alike."""
        ...

    def release(self, staged: Staged) -> None:
        """Ends a write: removes the staged rows, except for the files if `staged.keeps_files`."""
        ...

    def for_small_merges(self) -> Engine | None:
        """The engine that computes merges of little data on frames that this engine has staged; None if it does so."""
        ...


@runtime_checkable
class SparkOperations(Protocol):
    """The operations that need a Spark session."""

    def read_files(self, paths: Sequence[str], types: Mapping[str, str]) -> nw.LazyFrame[Any] | None:
        """The rows of Parquet files that are not part of a lake.

        Args:
            types: The columns and their types, as DuckDB detects them.

        Returns:
            A frame with these columns; None if DuckDB should read the files instead.
        """
        ...

    def run_sql(
        self, text: str, frames: Mapping[str, Any], parameters: Mapping[str, str] | None = None
    ) -> nw.LazyFrame[Any]:
        """Runs a query in Spark's SQL over temporary views that only this query sees; parameters are SQL constants."""
        ...

    def stream(self, options: Mapping[str, str]) -> Any:
        """A streaming frame of the data source `lakeconf`."""
        ...

    def find_rows(self, plan: ScanPlan) -> nw.LazyFrame[Any]:
        """The ids and positions of the rows in data files that satisfy the predicate of a plan.

        Args:
            plan: The files to search and the predicate; it has the columns of the predicate.

        Returns:
            A frame with the columns `ROW_ID`, `FILE_ID` and `FILE_ROW_NUMBER`.
        """
        ...

    def sort_positions(self, rows: nw.LazyFrame[Any], request: StagingRequest) -> PositionFiles:
        """Writes the positions of rows to one file for each data file.

        Args:
            rows: A frame of the engine with the columns `FILE_ID` and `FILE_ROW_NUMBER`.
            request: The table, and a token whose folder is in an announced one.
        """
        ...

    def count(self, rows: nw.LazyFrame[Any]) -> int:
        """The number of rows of a frame of the engine; `SparkError` if the job fails."""
        ...

    def check(self, table: str, snapshot_id: int) -> TableCheck:
        """Compares the rows that Spark and DuckDB read from a table; `UnsupportedError` if Spark cannot."""
        ...


class NamedReads(Protocol):
    """What Spark's SQL needs to read tables by name."""

    def json_schema(self, table: TableInfo, comments: Mapping[str, str], defaults: Mapping[str, Default]) -> str:
        """The Spark types of a table's columns, their comments and defaults, as Spark writes a schema."""
        ...

    def columns_of_json(self, schema: str) -> tuple[dict[str, str], dict[str, str]]:
        """The columns of a schema that Spark has written: the types of DuckDB, and the comments."""
        ...

    def type_of_json(self, kind: str) -> str:
        """The DuckDB name of a type that Spark has written."""
        ...

    def scan_pruned(
        self,
        table: str,
        snapshot_id: int,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        row_ids: bool = False,
    ) -> Any:
        """A frame of Spark with the rows of the files that may have rows for a predicate, and so perhaps others.

        With `row_ids`, it also has the columns that identify rows.
        """
        ...

    def computed(self, columns: Sequence[Column], query: str) -> Any:
        """A frame of Spark with the rows of a query that DuckDB computes now, in this process."""
        ...


def spark_operations(engine: Engine, needed_for: str) -> SparkOperations:
    """The Spark operations of an engine."""
    if isinstance(engine, SparkOperations):
        return engine
    is_connect = engine.name == "spark-connect"
    session = "with one of Spark Connect" if is_connect else "without one"
    raise UnsupportedError(
        f"{needed_for} needs a classic Spark session, and this lake was opened {session}",
        hint="use the rows of a scan: lake.table(…).scan().to_native().createOrReplaceTempView(…)"
        if is_connect
        else "open the lake with a session: store.open(spark)",
    )


@dataclass(frozen=True)
class PositionFiles:
    """Files with the positions of rows, which are removed after the commit."""

    staged: Staged
    # The file with the positions in each data file, by the id of the data file. Its only column is `FILE_ROW_NUMBER`,
    # in ascending order.
    paths: Mapping[int, str]
