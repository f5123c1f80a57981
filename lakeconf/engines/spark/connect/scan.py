"""Runs the plans of scans and change feeds through Spark Connect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakeconf.catalog.change_feed import ChangesPlan
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import Column
from lakeconf.engines.spark.connect.settings import check_reading, settings_of
from lakeconf.engines.spark.connect.source import ConnectSource
from lakeconf.engines.spark.read.change_feed import changed
from lakeconf.engines.spark.read.scan import scanned
from lakeconf.errors import StorageError, UnsupportedError


def read(
    spark: SparkSession, reader: CatalogReader, plan: ScanPlan, inlined: pa.Table | None, *, row_ids: bool = False
) -> DataFrame:
    """The rows of a plan as a frame of the user's session. Reads no rows yet.

    Args:
        spark: The user's session; its settings do not change.
        reader: The lake.
        plan: What to read.
        inlined: The rows in the catalog, as `catalog.scan.inlined_rows` returns them; None if there are none.
        row_ids: As for `lakeconf.engines.spark.read.scan.read`.

    Raises:
        StorageError: A file is missing, or differs from the one in the catalog.
        UnsupportedError: A column or a file cannot be read exactly, or a setting could change the rows.
    """
    source = _source(spark, reader, [plan])
    return source.guarded(scanned(source, plan, inlined, row_ids=row_ids))


def read_changes(spark: SparkSession, reader: CatalogReader, plan: ChangesPlan, inlined: pa.Table) -> DataFrame:
    """The changes of a plan as a frame of the user's session; see `lakeconf.engines.spark.read.change_feed`.

    Args:
        spark: The user's session; its settings do not change.
        reader: The lake.
        plan: What to read.
        inlined: The rows in the catalog, as `catalog.inlined_changes.changed_inlined_rows` returns them.
    """
    source = _source(spark, reader, [plan.inserted, plan.deleted])
    return source.guarded(changed(source, plan, inlined))


def _source(spark: SparkSession, reader: CatalogReader, plans: Sequence[ScanPlan]) -> ConnectSource:
    """The source of a scan; the files of all plans have been checked in one job."""
    check_reading(settings_of(spark))
    source = ConnectSource(spark, reader)
    for plan in plans:
        _refuse_alike(plan.columns)
        paths = Counter(file.path for file in plan.files)
        if len(paths) < len(plan.files):
            twice, _ = paths.most_common(1)[0]
            raise StorageError(f"the catalog lists {twice} twice, and Spark would read it once")
    files = [file for plan in plans for file in plan.files]
    source.prepare([*files, *(file.delete_file for file in files if file.delete_file is not None)])
    return source


def _refuse_alike(columns: Sequence[Column]) -> None:
    """Refuses names that a session may not tell apart: unlike DuckDB, it ignores the case of all letters."""
    names = [column.name for column in columns]
    if len({name.lower() for name in names}) < len(names):
        raise UnsupportedError(
            f"two columns have names that differ only by case: {', '.join(names)}",
            hint="select one of them with scan(columns=…), or read the table with DuckDB",
        )
