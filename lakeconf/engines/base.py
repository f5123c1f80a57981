"""What an engine does for a lake: it carries out a scan, and stages the rows of a write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import narwhals as nw

from lakeconf.catalog.predicate.parse import Where
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import Column, TableInfo
from lakeconf.connection.connection import Connection
from lakeconf.engines.checksum import TableCheck

# The column by which rows are told apart: DuckLake's row id.
ROW_ID = "__lakeconf_row_id"


@dataclass(frozen=True)
class Staged:
    """Rows that are written down and not yet committed; nobody sees them.

    Attributes:
        source: SQL that gives the staged rows, with the table's columns in its types.
        files: Parquet files that can be registered as they are; empty where `source` must be inserted.
        discard: SQL statements that remove what the staging left in DuckDB.
        folder: The folder of this write's own files; None where there are none.
        row_count: How many rows there are; None where only the commit will tell.
        keeps_files: False where the rows are inserted from the files, which are then of no more use.
    """

    source: str
    files: tuple[str, ...] = ()
    discard: tuple[str, ...] = ()
    folder: str | None = None
    row_count: int | None = None
    keeps_files: bool = True


class Engine(Protocol):
    """DuckDB or Spark."""

    name: str

    def details(self) -> Mapping[str, str]:
        """What a commit says of the engine besides its name, such as Spark's application id."""
        ...

    def scan(
        self,
        reader: CatalogReader,
        table: str,
        snapshot_id: int,
        columns: Sequence[str] | None,
        where: Where | None,
    ) -> nw.LazyFrame[Any]:
        """The rows of a table at a snapshot, as a lazy frame of the engine."""
        ...

    def scan_rows(self, reader: CatalogReader, table: str, snapshot_id: int, where: Where | None) -> nw.LazyFrame[Any]:
        """The rows of a table at a snapshot, with `ROW_ID` as a column beside the others."""
        ...

    def changes(self, reader: CatalogReader, table: str, since: int, until: int) -> nw.LazyFrame[Any]:
        """The changes of a table in a range of snapshots, both ends included; the range has been checked.

        Raises:
            UnsupportedError: The engine cannot; says what to run instead.
        """
        ...

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        """The rows of a query over frames.

        Args:
            sql: A query in DuckDB's SQL.
            frames: What its tables are, by name; the names are new.

        Raises:
            UnsupportedError: The engine cannot run it.
            QueryError: It refuses it.
        """
        ...

    def read_files(self, paths: Sequence[str], types: Mapping[str, str]) -> nw.LazyFrame[Any] | None:
        """The rows of Parquet files that belong to no lake.

        Args:
            paths: Absolute paths or URIs.
            types: The columns and their types, as DuckDB finds them.

        Returns:
            A frame with these columns; None where it is better to have DuckDB read the files.
        """
        ...

    def register_views(self, frames: Mapping[str, nw.LazyFrame[Any]], session: Any) -> None:
        """Makes temporary views of scans.

        Args:
            frames: By the name of the view.
            session: The session that gets them; the engine's own where None.

        Raises:
            UnsupportedError: The engine has no session.
        """
        ...

    def check(self, reader: CatalogReader, table: str, snapshot_id: int) -> TableCheck:
        """Compares what the engine reads of a table with what DuckDB reads.

        Raises:
            UnsupportedError: The engine is DuckDB itself, or cannot read the table exactly.
        """
        ...

    def adopt(self, frame: object) -> Any:
        """The frame as one that this engine can work with; what another library holds is handed over once.

        Raises:
            SchemaError: It is no frame that narwhals takes.
        """
        ...

    def schema(self, adopted: Any) -> dict[str, str]:
        """The columns of an adopted frame and their types, in DuckDB's names.

        Raises:
            SchemaError: A type is one that DuckLake has not.
        """
        ...

    def conform(self, adopted: Any, columns: Sequence[Column], types: Mapping[str, str]) -> Any:
        """An adopted frame with these columns of a table only, in the table's types."""
        ...

    def stage(self, adopted: Any, table: TableInfo, types: Mapping[str, str], writer: Connection, token: str) -> Staged:
        """Writes the rows of a frame down where the commit finds them.

        Args:
            adopted: An adopted frame whose columns have been checked.
            table: The table that it is for.
            types: The table's columns and their types, in DuckDB's names.
            writer: The connection that will commit.
            token: The name of this write.
        """
        ...

    def stage_rows(
        self, adopted: Any, table: TableInfo, types: Mapping[str, str], writer: Connection, token: str
    ) -> Staged:
        """Writes the rows of a frame down that are not rows of the table, but say what to do with some of them.

        Args:
            adopted: A frame of the engine.
            table: The table that they are about.
            types: The frame's columns, and the types that `source` gives them, in DuckDB's names.
            writer: The connection that will commit.
            token: The name of this write.
        """
        ...

    def stage_part(
        self,
        staged: Staged,
        condition: str,
        table: TableInfo,
        types: Mapping[str, str],
        writer: Connection,
        token: str,
    ) -> Staged:
        """Stages those of what `stage_rows` wrote down that are to be rows of the table.

        Args:
            staged: What it wrote down.
            condition: Which of them, in SQL that DuckDB and Spark understand alike.
            table: The table that they are for.
            types: The table's columns and their types, in DuckDB's names.
            writer: The connection that will commit.
            token: The name of this write.
        """
        ...

    def release(self, staged: Staged, *, keep_files: bool) -> None:
        """Ends a write.

        Args:
            staged: What it has staged.
            keep_files: True where its files have been committed; else they are removed.
        """
        ...
