"""A project whose lake Spark reads through the data source, which finds it by the option `config`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake


def open_lake(folder: Path) -> Lake:
    """The lake of the project in a folder, on DuckDB."""
    return lakeconf.init(folder / "lakeconf.toml").get_store().open()


def source_of(
    spark: SparkSession, folder: Path, table: str = "raw.events", *, stream: bool = False, **options: object
) -> Any:
    """A reader of the data source for a table of the project, or for a streaming query of it."""
    reader: Any = (spark.readStream if stream else spark.read).format("lakeconf")
    for name, value in {"config": folder / "lakeconf.toml", "table": table, **options}.items():
        reader = reader.option(name, str(value))
    return reader
