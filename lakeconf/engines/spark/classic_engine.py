"""The engine of a classic Spark session."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb
import narwhals as nw
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakeconf.catalog.changes_plan import changes_on_spark
from lakeconf.catalog.pruning.predicates import Predicate, columns_of
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_with_inlined_rows, with_bytes_per_row
from lakeconf.catalog.pruning.where import Where, predicate_of
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table_options import Default
from lakeconf.catalog.tables import Column, TableInfo, load_table
from lakeconf.connection.connection import Connection
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.engine import FILE_ID, FILE_ROW_NUMBER, ROW_ID, PositionFiles, Staged, StagingRequest
from lakeconf.engines.file_names import announce, manifest_path, staging_folder
from lakeconf.engines.fingerprints import TableCheck
from lakeconf.engines.frames import arrow_table, native_frame
from lakeconf.engines.schema_check import selected
from lakeconf.engines.spark.hadoop import check_session
from lakeconf.engines.spark.internals import active_session_kept, is_running, rebind, require_classic
from lakeconf.engines.spark.named_schemas import described_columns, described_table, described_type
from lakeconf.engines.spark.read.change_feed import read_changes
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.read.native_scan import computed, read, read_files
from lakeconf.engines.spark.read.parts import FileAccess
from lakeconf.engines.spark.read.spark_filters import to_spark
from lakeconf.engines.spark.sessions import from_arrow, private_session, run_sql
from lakeconf.engines.spark.spark_types import collected, duckdb_schema, first_line
from lakeconf.engines.spark.table_check import check
from lakeconf.engines.spark.versions import refuse_accelerators
from lakeconf.engines.spark.write.files import stage_files
from lakeconf.engines.spark.write.staged_files import conformed, sort_positions, stage_rows, staged_frame
from lakeconf.engines.spark.write.storage import (
    LakeStorage,
    ended_session,
    expired_credentials_named,
    remove_folder,
    translated,
)
from lakeconf.errors import SparkError
from lakeconf.secret import Secret
from lakeconf.sql import qualified


class SparkEngine:
    """Reads and writes the Parquet files with Spark."""

    name = "spark"

    def __init__(
        self,
        spark: SparkSession,
        reader: CatalogReader,
        writer: Connection,
        settings: Mapping[str, str | Secret],
        access: FileAccess,
    ) -> None:
        require_classic(spark)
        self._session = spark
        check_session(self._spark, reader.data_path, settings)
        refuse_accelerators(spark)
        self._reader = reader
        self._lake_id = reader.lake_id
        self._writer = writer
        self._access = access
        self._duckdb = DuckDBEngine(reader, writer)
        self._storage = LakeStorage(spark, writer, reader.data_path)

    @property
    def _spark(self) -> SparkSession:
        """The session, which has not ended."""
        if not is_running(self._session):
            raise ended_session()
        return self._session

    def details(self) -> Mapping[str, str]:
        context = self._spark.sparkContext
        return {"spark": context.version, "application_id": str(context.applicationId)}

    def for_small_merges(self) -> DuckDBEngine:
        return self._duckdb

    def reading(self) -> AbstractContextManager[None]:
        return expired_credentials_named()

    def scan(
        self, table: str, snapshot_id: int, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> nw.LazyFrame[Any]:
        return self._scan(table, snapshot_id, columns, where, row_ids=False)

    def scan_rows(
        self, table: TableInfo, snapshot_id: int, where: Where | Predicate | None = None
    ) -> nw.LazyFrame[Any]:
        return self._scan(qualified(table.schema_name, table.name), snapshot_id, None, where, row_ids=True)

    def _scan(
        self,
        table: str,
        snapshot_id: int,
        columns: Sequence[str] | None,
        where: Where | Predicate | None,
        *,
        row_ids: bool,
    ) -> nw.LazyFrame[Any]:
        if where is None:
            planned = plan_with_inlined_rows(self._reader, table, snapshot_id, columns)
            return nw.from_native(read(self._spark, self._access, *planned, row_ids=row_ids))
        info = load_table(self._reader, table, snapshot_id)
        returned = selected(info, columns)
        predicate = predicate_of(where, info.columns)
        # The scan also reads the columns of the condition, and drops them after the filter.
        names = list(dict.fromkeys(column.name for column in (*returned, *columns_of(predicate))))
        planned = plan_with_inlined_rows(self._reader, table, snapshot_id, names, predicate)
        virtual = [ROW_ID, FILE_ID, FILE_ROW_NUMBER] if row_ids else []
        return self._read_where(*planned, [*virtual, *(quoted(column.name) for column in returned)], row_ids=row_ids)

    def json_schema(self, table: TableInfo, comments: Mapping[str, str], defaults: Mapping[str, Default]) -> str:
        return described_table(table, comments, defaults, self._reader.connection).json()

    def columns_of_json(self, schema: str) -> tuple[dict[str, str], dict[str, str]]:
        return described_columns(schema)

    def type_of_json(self, kind: str) -> str:
        return described_type(kind)

    def scan_pruned(
        self,
        table: str,
        snapshot_id: int,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        row_ids: bool = False,
    ) -> DataFrame:
        tested = columns_of(predicate) if predicate else ()
        names = None if columns is None else list(dict.fromkeys([*columns, *(column.name for column in tested)]))
        planned = plan_with_inlined_rows(self._reader, table, snapshot_id, names, predicate)
        return read(self._spark, self._access, *planned, row_ids=row_ids)

    def computed(self, columns: Sequence[Column], query: str) -> DataFrame:
        return computed(self._spark, self._reader.connection, columns, query)

    def changes(self, table: str, since: int, until: int) -> nw.LazyFrame[Any]:
        read = partial(read_changes, self._spark, self._access)
        return nw.from_native(changes_on_spark(self._reader, table, since, until, read))

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        return self._duckdb.query(sql, {name: _local(frame) for name, frame in frames.items()})

    def run_sql(
        self, text: str, frames: Mapping[str, Any], parameters: Mapping[str, str] | None = None
    ) -> nw.LazyFrame[Any]:
        joinable = {name: self.joinable(frame) for name, frame in frames.items()}
        return nw.from_native(run_sql(self._spark, text, joinable, parameters))

    def read_files(self, paths: Sequence[str], types: Mapping[str, str]) -> nw.LazyFrame[Any] | None:
        frame = read_files(self._spark, paths, types)
        return None if frame is None else nw.from_native(frame)

    def stream(self, options: Mapping[str, str]) -> DataFrame:
        return self._spark.readStream.format("lakeconf").options(**options).load()

    def find_rows(self, plan: ScanPlan) -> nw.LazyFrame[Any]:
        return self._read_where(plan, None, [ROW_ID, FILE_ID, FILE_ROW_NUMBER], row_ids=True)

    def _read_where(
        self, plan: ScanPlan, inlined: pa.Table | None, names: Sequence[str], *, row_ids: bool
    ) -> nw.LazyFrame[Any]:
        """Some columns of the rows of a plan that satisfy its condition."""
        # The user's session may ignore the case of names.
        spark = self._spark
        private = private_session(spark)
        with active_session_kept(spark):
            frame = rebind(read(spark, self._access, plan, inlined, row_ids=row_ids), private)
            frame = frame if plan.predicate is None else frame.where(to_spark(plan.predicate))
            frame = frame.select(*names)
        return nw.from_native(rebind(frame, spark))

    def count(self, rows: nw.LazyFrame[Any]) -> int:
        try:
            count: int = nw.to_native(rows).count()
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise SparkError(f"the Spark job that counts the rows failed: {first_line(error)}") from error
        return count

    def check(self, table: str, snapshot_id: int) -> TableCheck:
        frame = self.scan(table, snapshot_id).to_native()
        return check(frame, self._reader, load_table(self._reader, table, snapshot_id), snapshot_id)

    def adopt(self, frame: object) -> DataFrame | duckdb.DuckDBPyRelation:
        native = native_frame(frame)
        if isinstance(native, duckdb.DuckDBPyRelation):
            return self._duckdb.adopt(native)  # Spark lacks some of its types
        if not isinstance(native, DataFrame):
            return from_arrow(self._spark, arrow_table(native))
        if native.sparkSession.sparkContext is not self._spark.sparkContext:
            raise SparkError(
                "the frame belongs to another Spark application than the session of the lake",
                hint="open the lake with the frame's own session: store.open(frame.sparkSession)",
            )
        return native

    def joinable(self, frame: object) -> DataFrame:
        adopted = self.adopt(frame)
        return adopted if isinstance(adopted, DataFrame) else from_arrow(self._spark, arrow_table(adopted))

    def schema(self, adopted: DataFrame | duckdb.DuckDBPyRelation) -> dict[str, str]:
        return duckdb_schema(adopted) if isinstance(adopted, DataFrame) else self._duckdb.schema(adopted)

    def conform(self, adopted: DataFrame | duckdb.DuckDBPyRelation, columns: Mapping[Column, str]) -> Any:
        if not isinstance(adopted, DataFrame):
            return self._duckdb.conform(adopted, columns)
        return conformed(adopted, tuple(columns))

    def stage(self, adopted: DataFrame | duckdb.DuckDBPyRelation, request: StagingRequest) -> Staged:
        if not isinstance(adopted, DataFrame):
            return self._duckdb.stage(adopted, request)
        sized = replace(request, table=with_bytes_per_row(self._reader, request.table))
        with self._announced(staging_folder(request.table, request.token)):
            return stage_files(self._storage, adopted, sized)

    def stage_rows(self, adopted: DataFrame | duckdb.DuckDBPyRelation, request: StagingRequest) -> Staged:
        if not isinstance(adopted, DataFrame):
            return self._duckdb.stage_rows(adopted, request)
        with self._announced(staging_folder(request.table, request.token)):
            return stage_rows(self._storage, adopted, request)

    def staged_rows(self, staged: Staged, columns: Sequence[str]) -> DataFrame:
        return staged_frame(self._spark, staged, "true", columns)

    def stage_part(self, staged: Staged, condition: str, request: StagingRequest) -> Staged:
        columns = [*request.types, *([ROW_ID] if request.row_ids else [])]
        part = staged_frame(self._spark, staged, condition, columns)
        with self._announced(staging_folder(request.table, request.token)):
            return stage_files(self._storage, part, request)

    def sort_positions(self, rows: nw.LazyFrame[Any], request: StagingRequest) -> PositionFiles:
        return sort_positions(self._storage, nw.to_native(rows), request)

    def release(self, staged: Staged) -> None:
        self._duckdb.discard(staged)
        if staged.folder is None:
            return
        placed = staged.placed_files
        if not staged.keeps_files:
            for path in placed:
                remove_folder(self._spark, path)
        if placed or not staged.keeps_files:
            remove_folder(self._spark, staged.folder)
        if staged.announced:
            remove_folder(self._spark, manifest_path(staged.folder))

    @contextlib.contextmanager
    def _announced(self, folder: str) -> Iterator[None]:
        """Writes the manifest before the staged files; `release` removes it if staging succeeds."""
        announce(self._writer, folder, self._lake_id)
        try:
            yield
        except BaseException as error:
            # Without its manifest, no maintenance would find files that are left.
            with contextlib.suppress(Exception):
                remove_folder(self._spark, folder)
                remove_folder(self._spark, manifest_path(folder))
            raise translated(error) from error


def _local(frame: object) -> Any:
    """A frame for DuckDB: rows of Spark are sent to this process."""
    native = native_frame(frame)
    return collected(native) if isinstance(native, DataFrame) else native
