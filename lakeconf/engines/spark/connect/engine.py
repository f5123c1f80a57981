"""The engine for a session of Spark Connect: Spark reads the Parquet files, with public calls only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from lakeconf.catalog.inlined_changes import plan_changes_with_inlined_rows
from lakeconf.catalog.predicate.nodes import Predicate, columns_of
from lakeconf.catalog.predicate.where import Where, predicate_of
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.row_size import with_bytes_per_row
from lakeconf.catalog.scan import plan_with_inlined_rows
from lakeconf.catalog.table import Column, load_table
from lakeconf.connection.connection import Connection
from lakeconf.connection.removal import remove_files
from lakeconf.engines.base import Staged, StagingRequest
from lakeconf.engines.change_feed import not_on_spark, refuse_hidden
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.foreign_frames import arrow_table, native_frame
from lakeconf.engines.schema_check import selected
from lakeconf.engines.sorting import SortedFiles, SortRequest
from lakeconf.engines.spark.connect.scan import read, read_changes
from lakeconf.engines.spark.connect.settings import first_line, settings_of
from lakeconf.engines.spark.connect.write import is_writable, remove_staged, stage_frame
from lakeconf.engines.spark.read.accelerators import refuse_settings
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.read.predicate import to_spark
from lakeconf.engines.spark.sql import collected
from lakeconf.engines.spark.types import duckdb_schema
from lakeconf.engines.staging import announce, manifest_path, staging_folder
from lakeconf.errors import SparkError, UnsupportedError


class ConnectEngine:
    """Reads with Spark through Spark Connect; DuckDB computes and writes all changes.

    Args:
        spark: The user's session; its settings do not change.
        reader: The lake.
        writer: The connection that commits.

    Raises:
        SparkError: The process also uses a classic session, so that pyspark's functions are those of classic sessions.
        UnsupportedError: An engine replaces Spark's Parquet reader.
    """

    name = "spark-connect"

    def __init__(self, spark: SparkSession, reader: CatalogReader, writer: Connection) -> None:
        if not is_remote():
            raise SparkError(
                "the session is one of Spark Connect, but pyspark is in the mode for classic sessions",
                hint="create the session in a process without a classic session: SparkSession.builder.remote(…)",
            )
        refuse_settings(settings_of(spark))
        self._spark = spark
        self._reader = reader
        self._writer = writer
        self._duckdb = DuckDBEngine(reader, writer)

    def details(self) -> Mapping[str, str]:
        return {"spark": self._spark.version}

    def for_small_merges(self) -> None:
        return None

    def scan(
        self, table: str, snapshot_id: int, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> nw.LazyFrame[Any]:
        info = load_table(self._reader, table, snapshot_id)
        wanted = selected(info, columns)
        predicate = None if where is None else predicate_of(where, info.columns)
        # The scan also reads the columns of the condition, and drops them after the filter.
        needed = [*wanted, *(columns_of(predicate) if predicate is not None else ())]
        names = list(dict.fromkeys(column.name for column in needed))
        planned = plan_with_inlined_rows(self._reader, table, snapshot_id, names, predicate)
        frame = read(self._spark, self._reader, *planned)
        if predicate is None:
            return nw.from_native(frame)
        return nw.from_native(frame.where(to_spark(predicate)).select(*(quoted(column.name) for column in wanted)))

    def scan_rows(self, table: str, snapshot_id: int, where: Where | Predicate | None = None) -> nw.LazyFrame[Any]:
        return self._duckdb.scan_rows(table, snapshot_id, where)

    def changes(self, table: str, since: int, until: int) -> nw.LazyFrame[Any]:
        refuse_hidden(load_table(self._reader, table, until))
        try:
            planned = plan_changes_with_inlined_rows(self._reader, table, since, until)
            return nw.from_native(read_changes(self._spark, self._reader, *planned))
        except UnsupportedError as error:
            raise not_on_spark(self._reader, table, since, until, error) from error

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        return self._duckdb.query(sql, {name: self._local(frame) for name, frame in frames.items()})

    def adopt(self, frame: object) -> Any:
        native = native_frame(frame)
        if not isinstance(native, DataFrame):
            return self._duckdb.adopt(native)
        if native.sparkSession is not self._spark:
            raise SparkError(
                "the frame belongs to another session of Spark Connect than the lake",
                hint="open the lake with the frame's own session: store.open(frame.sparkSession)",
            )
        return native

    def joinable(self, frame: object) -> Any:
        adopted = self.adopt(frame)
        if isinstance(adopted, DataFrame):
            return adopted
        return self._spark.createDataFrame(arrow_table(adopted))

    def schema(self, adopted: Any) -> dict[str, str]:
        if not isinstance(adopted, DataFrame):
            return self._duckdb.schema(adopted)
        try:
            # The server finds errors of the frame only now.
            _ = adopted.schema
        except Exception as error:  # also of gRPC, if the session was stopped
            raise SparkError(f"the server cannot describe the frame: {first_line(error)}") from error
        return duckdb_schema(adopted)

    def conform(self, adopted: Any, columns: Mapping[Column, str]) -> Any:
        return self._duckdb.conform(self._local(adopted), columns)

    def stage(self, adopted: Any, request: StagingRequest) -> Staged:
        if not isinstance(adopted, DataFrame) or not is_writable(self._spark, request.table):
            return self._duckdb.stage(self._local(adopted), request)
        folder = staging_folder(request.table, request.token)
        announce(self._writer, folder, self._reader.lake_id)
        try:
            sized = replace(request, table=with_bytes_per_row(self._reader, request.table))
            return stage_frame(self._spark, self._writer, adopted, sized)
        except Exception:
            # After an interruption, tasks may still write: the manifest lets a cleanup find their files.
            remove_files(self._writer, [manifest_path(folder)])
            raise

    def stage_rows(self, adopted: Any, request: StagingRequest) -> Staged:
        return self._duckdb.stage_rows(self._local(adopted), request)

    def staged_rows(self, staged: Staged, columns: Sequence[str]) -> Any:
        return self._duckdb.staged_rows(staged, columns)

    def stage_part(self, staged: Staged, condition: str, request: StagingRequest) -> Staged:
        return self._duckdb.stage_part(staged, condition, request)

    def stage_sorted(self, request: SortRequest) -> SortedFiles:
        return self._duckdb.stage_sorted(request)

    def release(self, staged: Staged) -> None:
        self._duckdb.discard(staged)
        if staged.folder is None:
            return
        if not staged.keeps_files:
            remove_staged(self._writer, staged.folder)
        placed = () if staged.keeps_files else staged.placed_files
        remove_files(self._writer, [*placed, manifest_path(staged.folder)])

    def _local(self, frame: Any) -> Any:
        """A frame as rows of DuckDB; those of Spark are sent to this process."""
        if not isinstance(frame, DataFrame):
            return self._duckdb.adopt(frame)
        return self._duckdb.adopt(collected(frame))
