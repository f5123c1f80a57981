"""Spark as the engine: executors read and write the Parquet files, the driver plans and hands their names over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
from pyspark.sql import DataFrame, SparkSession

from lakeconf.catalog.predicate import columns_of
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.scan import plan_with_inlined_rows
from lakeconf.catalog.table import TableInfo, load_table
from lakeconf.catalog.where import Where, parse
from lakeconf.connection import Connection
from lakeconf.engines.base import Staged
from lakeconf.engines.duckdb import arrow, native_frame
from lakeconf.engines.feed import changes_sql
from lakeconf.engines.fingerprint import TableCheck
from lakeconf.engines.selection import selected
from lakeconf.engines.spark.check import check
from lakeconf.engines.spark.hadoop import check_session
from lakeconf.engines.spark.predicate import to_spark
from lakeconf.engines.spark.reading import quoted
from lakeconf.engines.spark.scan import read
from lakeconf.engines.spark.session import from_arrow
from lakeconf.engines.spark.views import register
from lakeconf.engines.spark.write import duckdb_schema, remove_folder, stage_files
from lakeconf.errors import SparkError, UnsupportedError
from lakeconf.secret import Secret


class SparkEngine:
    """Reads and writes the Parquet files with Spark.

    Args:
        spark: The user's session; its settings neither change nor matter.
        location: The lake's data path, as the catalog has it.
        settings: The Hadoop settings with which the session must reach it.

    Raises:
        SparkError: The session lacks a setting, or has it otherwise.
    """

    name = "spark"

    def __init__(self, spark: SparkSession, location: str, settings: Mapping[str, str | Secret]) -> None:
        check_session(spark, location, settings)
        self._spark = spark
        self._location = location

    def details(self) -> Mapping[str, str]:
        context = self._spark.sparkContext
        return {"spark": context.version, "application_id": str(context.applicationId)}

    def scan(
        self,
        reader: CatalogReader,
        table: str,
        snapshot_id: int,
        columns: Sequence[str] | None,
        where: Where | None,
    ) -> nw.LazyFrame[Any]:
        if where is None:
            return nw.from_native(read(self._spark, *plan_with_inlined_rows(reader, table, snapshot_id, columns)))
        info = load_table(reader, table, snapshot_id)
        wanted = selected(info, columns)
        predicate = parse(where, info.columns)
        # The columns of the condition are read as well, and left out after it.
        names = list(dict.fromkeys(column.name for column in (*wanted, *columns_of(predicate))))
        planned = plan_with_inlined_rows(reader, table, snapshot_id, names, predicate)
        frame = read(self._spark, *planned).where(to_spark(predicate))
        return nw.from_native(frame.select(*(quoted(column.name) for column in wanted)))

    def changes(self, reader: CatalogReader, table: str, since: int, until: int) -> nw.LazyFrame[Any]:
        raise UnsupportedError(
            f"the changes of {table} are found by DuckDB, and would all pass through the driver on their way to Spark",
            hint=f'read them with DuckDB: lake.sql("{changes_sql(reader, table, since, until)}")',
        )

    def register_views(self, frames: Mapping[str, nw.LazyFrame[Any]], session: Any) -> None:
        views = {name: frame.to_native() for name, frame in frames.items()}
        register(self._spark if session is None else session, views)

    def check(self, reader: CatalogReader, table: str, snapshot_id: int) -> TableCheck:
        frame = self.scan(reader, table, snapshot_id, None, None).to_native()
        return check(frame, reader, load_table(reader, table, snapshot_id), snapshot_id)

    def adopt(self, frame: object) -> DataFrame:
        native = native_frame(frame)
        if not isinstance(native, DataFrame):
            return from_arrow(self._spark, arrow(native))
        if native.sparkSession.sparkContext is not self._spark.sparkContext:
            raise SparkError(
                "the frame belongs to another Spark application than the one that the lake was opened with",
                hint="open the lake with the frame's own session: store.open(frame.sparkSession)",
            )
        return native

    def schema(self, adopted: DataFrame) -> dict[str, str]:
        return duckdb_schema(adopted)

    def stage(
        self, adopted: DataFrame, table: TableInfo, types: Mapping[str, str], writer: Connection, token: str
    ) -> Staged:
        return stage_files(self._spark, adopted, table, types, writer, self._location, token)

    def remove(self, staged: Staged) -> None:
        if staged.folder is not None:
            remove_folder(self._spark, staged.folder)
