"""What an engine does for a lake: it scans tables, and stages the rows of writes.

An engine is bound to one lake when it is made: to the reader of its catalog, and to the connection that commits. Its
methods take tables, snapshots and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import narwhals as nw

from lakeconf.catalog.predicate.parse import Where
from lakeconf.catalog.table import Column, TableInfo
from lakeconf.engines.checksum import TableCheck
from lakeconf.errors import UnsupportedError

# The column by which rows are told apart: DuckLake's row id.
ROW_ID = "__lakeconf_row_id"


@dataclass(frozen=True)
class StagingRequest:
    """Which rows are staged, and under which name.

    Attributes:
        table: The table that they are for, or about.
        types: The columns, and the types that they get, in DuckDB's names.
        token: The name of this write.
    """

    table: TableInfo
    types: Mapping[str, str]
    token: str


@dataclass(frozen=True)
class Staged:
    """Rows that are staged and not yet committed; no reader sees them.

    Attributes:
        source: SQL that gives the staged rows, with the table's columns in its types.
        files: Parquet files that can be registered as they are; empty where `source` must be inserted.
        discard: SQL statements that remove what was staged in DuckDB.
        folder: The folder of this write's own files; None where there are none.
        row_count: How many rows there are; None where only the commit will tell.
        keeps_files: True where `files` stay when the write ends: they are registered, not inserted from.
    """

    source: str
    files: tuple[str, ...] = ()
    discard: tuple[str, ...] = ()
    folder: str | None = None
    row_count: int | None = None
    keeps_files: bool = True


class ScanEngine(Protocol):
    """Reads the tables of one lake."""

    name: str

    def scan(
        self, table: str, snapshot_id: int, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> nw.LazyFrame[Any]:
        """The rows of a table at a snapshot, as a lazy frame of the engine.

        Args:
            table: The table, as `load_table` takes it.
            snapshot_id: The snapshot.
            columns: The columns; all by default.
            where: A condition for the rows.

        Raises:
            UnsupportedError: The engine cannot read the table exactly.
        """
        ...

    def scan_rows(self, table: str, snapshot_id: int, where: Where | None = None) -> nw.LazyFrame[Any]:
        """As `scan` of all columns, with `ROW_ID` as a column beside them."""
        ...

    def changes(self, table: str, since: int, until: int) -> nw.LazyFrame[Any]:
        """The changes of a table in a range of snapshots, both ends included; the range has been checked.

        Raises:
            UnsupportedError: The engine cannot give the changes exactly; says what to run instead.
        """
        ...

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        """The rows of a query over frames.

        Args:
            sql: A query in DuckDB's SQL.
            frames: The tables of the query, by name; the names are new.

        Raises:
            UnsupportedError: The engine cannot run it.
            QueryError: The engine refuses it.
        """
        ...


class WriteEngine(Protocol):
    """Stages rows where the commit finds them."""

    def details(self) -> Mapping[str, str]:
        """What a commit says of the engine besides its name, such as Spark's application id."""
        ...

    def adopt(self, frame: object) -> Any:
        """A frame of any library as one that this engine can work with; it is handed over once.

        Raises:
            SchemaError: narwhals does not know the type of the frame.
        """
        ...

    def schema(self, adopted: Any) -> dict[str, str]:
        """The columns of an adopted frame and their types, in DuckDB's names.

        Raises:
            SchemaError: DuckLake has no such type.
        """
        ...

    def conform(self, adopted: Any, columns: Mapping[Column, str]) -> Any:
        """An adopted frame with these columns of a table only, in the table's types.

        Args:
            adopted: The frame.
            columns: The columns, each with its type in DuckDB's names.
        """
        ...

    def stage(self, adopted: Any, request: StagingRequest) -> Staged:
        """Stages the rows of a frame as rows of a table.

        Args:
            adopted: An adopted frame whose columns have been checked.
            request: The table, with its columns and their types.

        Raises:
            SchemaError: A column that is NOT NULL has a NULL.
        """
        ...

    def stage_rows(self, adopted: Any, request: StagingRequest) -> Staged:
        """Stages the rows of a frame that are not rows of a table, but say what to do with some of them.

        Args:
            adopted: A frame of the engine.
            request: The table, with the columns of the frame and their types.
        """
        ...

    def stage_part(self, staged: Staged, condition: str, request: StagingRequest) -> Staged:
        """Stages some rows of `stage_rows` as rows of a table.

        Args:
            staged: What `stage_rows` staged.
            condition: Which of its rows, in SQL that DuckDB and Spark understand alike.
            request: The table, with its columns and their types.
        """
        ...

    def release(self, staged: Staged) -> None:
        """Ends a write: removes what was staged, except for its files if `staged.keeps_files`."""
        ...


class Engine(ScanEngine, WriteEngine, Protocol):
    """DuckDB or Spark."""


@runtime_checkable
class SparkOperations(Protocol):
    """What only an engine with a Spark session can do."""

    def read_files(self, paths: Sequence[str], types: Mapping[str, str]) -> nw.LazyFrame[Any] | None:
        """The rows of Parquet files that belong to no lake.

        Args:
            paths: Absolute paths or URIs.
            types: The columns and their types, as DuckDB finds them.

        Returns:
            A frame with these columns; None where DuckDB should read the files.
        """
        ...

    def register_views(self, frames: Mapping[str, nw.LazyFrame[Any]], session: Any = None) -> None:
        """Makes temporary views of scans.

        Args:
            frames: By the name of the view.
            session: The session that gets them; the engine's own by default.
        """
        ...

    def check(self, table: str, snapshot_id: int) -> TableCheck:
        """Compares what Spark reads of a table with what DuckDB reads.

        Raises:
            UnsupportedError: Spark cannot read the table exactly.
        """
        ...


def spark_operations(engine: Engine, needed_for: str) -> SparkOperations:
    """What only Spark can do, of an engine that has a session.

    Args:
        engine: The engine of a lake.
        needed_for: What needs a Spark session; begins the message.

    Raises:
        UnsupportedError: The engine has no session.
    """
    if isinstance(engine, SparkOperations):
        return engine
    raise UnsupportedError(
        f"{needed_for} needs a Spark session, and this lake was opened without one",
        hint="open the lake with a session: store.open(spark)",
    )
