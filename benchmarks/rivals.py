"""lakeconf beside Delta Lake and Iceberg in one session of Spark 4.0, each relative to plain Parquet files.

Deletes and updates are merge-on-read in all three: Iceberg's delete files, Delta's deletion vectors, DuckLake's delete
files. Needs PySpark 4.0, as in `.venv-spark` after `make test-spark`, and Maven for the jars.

Usage: python benchmarks/rivals.py [ROWS]      (default: 2,000,000)
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from ratios import medians
from spark_write import fresh, make_source, new_store

import lakeconf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JARS = {
    "io.delta": ("delta-spark_2.13:4.0.1", "delta-storage:4.0.1"),
    "org.antlr": ("antlr4-runtime:4.13.1",),
    "org.apache.iceberg": ("iceberg-spark-runtime-4.0_2.13:1.10.0",),
}
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "6g",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
}
MERGE_ON_READ = ", ".join(f"'write.{what}.mode'='merge-on-read'" for what in ("delete", "update", "merge"))
DAYS, MANY = 30, 10_000
numbers = itertools.count()


class Format(Protocol):
    """A table format: the operations on a table by its name."""

    def create(self, name: str, frame: DataFrame, *, by_day: bool = False) -> None:
        """Creates an empty table."""
        ...

    def append(self, name: str, frame: DataFrame) -> None:
        """Adds rows."""
        ...

    def overwrite_day(self, name: str, frame: DataFrame, day: str) -> None:
        """Replaces the rows of a day."""
        ...

    def delete(self, name: str, condition: str) -> None:
        """Deletes rows."""
        ...

    def merge(self, name: str, changes: DataFrame) -> None:
        """Updates rows with the same id, and inserts the others."""
        ...

    def read(self, name: str, where: str | None = None) -> DataFrame:
        """The rows, or those that satisfy a condition."""
        ...

    def adopt(self, name: str, files: Path) -> None:
        """Creates a table from Parquet files."""
        ...


class Plain:
    """Parquet files without a format; a delete or a merge writes all rows again, as a job without a format does."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder

    def create(self, name: str, frame: DataFrame, *, by_day: bool = False) -> None:  # noqa: ARG002 - as for a format
        (self._folder / name).mkdir()
        if by_day:
            (self._folder / f"{name}.by_day").touch()

    def append(self, name: str, frame: DataFrame) -> None:
        if (self._folder / f"{name}.by_day").exists():
            frame.repartition("day").write.mode("append").partitionBy("day").parquet(self._path(name))
        else:
            frame.write.mode("append").parquet(self._path(name))

    def overwrite_day(self, name: str, frame: DataFrame, day: str) -> None:
        frame.drop("day").write.mode("overwrite").parquet(f"{self._path(name)}/day={day}")

    def delete(self, name: str, condition: str) -> None:
        self._rewrite(name, self.read(name).where(f"NOT ({condition})"))

    def merge(self, name: str, changes: DataFrame) -> None:
        self._rewrite(name, self.read(name).join(changes, "id", "left_anti").unionByName(changes))

    def read(self, name: str, where: str | None = None) -> DataFrame:
        return self._spark.read.option("inferTimestampNTZ", "true").parquet(self._path(name)).where(where or "true")

    def adopt(self, name: str, files: Path) -> None:
        shutil.copytree(files, self._folder / name)

    def _rewrite(self, name: str, rows: DataFrame) -> None:
        rows.write.parquet(self._path("written"))
        shutil.rmtree(self._path(name))
        Path(self._path("written")).rename(self._path(name))

    def _path(self, name: str) -> str:
        return str(self._folder / name)


class Ducklake:
    """lakeconf."""

    def __init__(self, lake: lakeconf.Lake, store: lakeconf.Store) -> None:
        self._lake, self._store = lake, store

    def create(self, name: str, frame: DataFrame, *, by_day: bool = False) -> None:
        self._lake.create_table(name, frame, partitioned_by=["day"] * by_day)

    def append(self, name: str, frame: DataFrame) -> None:
        self._lake.table(name).append(frame)

    def overwrite_day(self, name: str, frame: DataFrame, day: str) -> None:
        self._lake.table(name).overwrite(frame, f"day = DATE '{day}'")

    def delete(self, name: str, condition: str) -> None:
        self._lake.table(name).delete(condition)

    def merge(self, name: str, changes: DataFrame) -> None:
        self._lake.table(name).merge(changes, on="id")

    def read(self, name: str, where: str | None = None) -> DataFrame:
        found: DataFrame = self._lake.table(name).scan(where=where).to_native()
        return found

    def adopt(self, name: str, files: Path) -> None:
        self._lake.create_table(name, {"id": "BIGINT", "n": "BIGINT"})
        with self._store.connect() as con:
            con.execute(f"CALL ducklake_add_data_files('bench', '{name}', '{files}/*.parquet')")
        self._lake.refresh()


class Sql:
    """Delta Lake or Iceberg, with Spark's SQL."""

    def __init__(self, spark: SparkSession, folder: Path, kind: str) -> None:
        self._spark, self._folder, self._kind = spark, folder, kind

    def create(self, name: str, frame: DataFrame, *, by_day: bool = False) -> None:
        columns = ", ".join(f"{column} {kind}" for column, kind in frame.dtypes)
        by = " PARTITIONED BY (day)" * by_day
        properties = f" TBLPROPERTIES ('format-version'='2', {MERGE_ON_READ})" if self._kind == "iceberg" else ""
        self._spark.sql(f"CREATE TABLE {self._table(name)} ({columns}) USING {self._kind}{by}{properties}")

    def append(self, name: str, frame: DataFrame) -> None:
        if self._kind == "iceberg":
            frame.writeTo(self._table(name)).append()
        else:
            frame.write.format("delta").mode("append").save(str(self._folder / name))

    def overwrite_day(self, name: str, frame: DataFrame, day: str) -> None:
        if self._kind == "iceberg":
            frame.writeTo(self._table(name)).overwritePartitions()
        else:
            one = frame.write.format("delta").mode("overwrite").option("replaceWhere", f"day = '{day}'")
            one.save(str(self._folder / name))

    def delete(self, name: str, condition: str) -> None:
        self._spark.sql(f"DELETE FROM {self._table(name)} WHERE {condition}")

    def merge(self, name: str, changes: DataFrame) -> None:
        changes.createOrReplaceTempView("changes")
        self._spark.sql(
            f"MERGE INTO {self._table(name)} AS t USING changes AS c ON t.id = c.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def read(self, name: str, where: str | None = None) -> DataFrame:
        return self._spark.table(self._table(name)).where(where or "true")

    def adopt(self, name: str, files: Path) -> None:
        if self._kind == "iceberg":
            self.create(name, self._spark.createDataFrame([], "id long, n long"))
            self._spark.sql(f"CALL ice.system.add_files(table => 'db.{name}', source_table => '`parquet`.`{files}`')")
        else:
            shutil.copytree(files, self._folder / name)
            self._spark.sql(f"CONVERT TO DELTA parquet.`{self._folder / name}`")

    def _table(self, name: str) -> str:
        return f"ice.db.{name}" if self._kind == "iceberg" else f"delta.`{self._folder / name}`"


Formats = Mapping[str, Format]


def measure(what: str, formats: Formats, run: Callable[[Format, int], object], repeats: int = 3) -> None:
    """Prints the seconds of each format, and its ratio to plain files; `run` receives the number of the run."""
    counts = {name: itertools.count() for name in formats}

    def repeated(name: str) -> Callable[[], object]:
        return lambda: run(formats[name], next(counts[name]))

    taken = medians({name: repeated(name) for name in formats}, repeats)
    plain = taken["plain"]
    cells = [f"{taken[name]:.2f} ({taken[name] / plain:.2f})" for name in formats]
    best = min(taken["delta"], taken["iceberg"])
    verdict = "reached" if taken["lakeconf"] <= best else f"missed by {taken['lakeconf'] / best - 1:.0%}"
    print(f"| {what} | {' | '.join(cells)} | {verdict} |", flush=True)


def measure_appends(formats: Formats, frame: DataFrame, by_day: DataFrame, few: DataFrame) -> None:
    """Appends to new tables, the overwrite of a day, and small appends."""

    def append(one: Format, _: int) -> None:
        name = f"appended_{next(numbers)}"
        one.create(name, frame)
        one.append(name, frame)

    def partitioned(one: Format, _: int) -> None:
        name = f"spread_{next(numbers)}"
        one.create(name, by_day, by_day=True)
        one.append(name, by_day)

    measure("append of all rows", formats, append)
    measure(f"append to {DAYS} days", formats, partitioned)
    for one in formats.values():
        one.create("days", by_day, by_day=True)
        one.append("days", by_day)
        one.create("few", few)
    day = "2024-01-07"
    same_day = by_day.where(f"day = DATE '{day}'")
    measure(f"overwrite of a day of {DAYS}", formats, lambda one, _: one.overwrite_day("days", same_day, day))
    measure("append of 10 rows", formats, lambda one, _: one.append("few", few), repeats=11)


def measure_reads(formats: Formats, state: str) -> None:
    """Reads of one column and of five."""

    def read(*columns: str) -> Callable[[Format, int], object]:
        return lambda one, _: one.read("t").selectExpr(*(f"max({column})" for column in columns)).collect()

    measure(f"read one column, {state}", formats, read("amount"))
    measure(f"read five columns, {state}", formats, read("id", "user_id", "amount", "kind", "note"))


def measure_changes(formats: Formats, frame: DataFrame, rows: int) -> None:
    """Deletes and merges of a table, and reads between them."""
    for one in formats.values():
        one.create("t", frame)
        one.append("t", frame)
    measure_reads(formats, "clean")
    measure("delete of 1 %", formats, lambda one, run: one.delete("t", f"id % 100 = {run}"))
    measure_reads(formats, "after deletes")
    for percent in (1, 20):
        every = 100 // percent
        new_id = f"id + CASE WHEN id % {2 * every} = 0 THEN {rows} ELSE 0 END AS id"
        columns = [column for column in frame.columns if column not in ("id", "amount")]
        changes = frame.where(f"id % {every} = 0").selectExpr(new_id, "amount + 1 AS amount", *columns)
        measure(f"merge of {percent} %", formats, lambda one, _, changes=changes: one.merge("t", changes))
    measure_reads(formats, "after merges")


def measure_planning(formats: Formats, folder: Path) -> None:
    """Reads one row of a table with many files."""
    files = folder / "many"
    files.mkdir()
    for number in range(MANY):
        pq.write_table(pa.table({"id": [number], "n": [number]}), files / f"{number:05}.parquet")
    for one in formats.values():
        one.adopt("many", files)
    measure(f"one row of {MANY:,} files", formats, lambda one, run: one.read("many", f"id = {run}").collect())


def jars(folder: Path) -> Iterator[str]:
    """Copies the jars of Delta Lake and Iceberg from Maven's repositories."""
    for group, artifacts in JARS.items():
        for artifact in artifacts:
            copied = [f"-Dartifact={group}:{artifact}", f"-DoutputDirectory={folder}"]
            subprocess.run(["mvn", "--batch-mode", "--quiet", "dependency:copy", *copied], check=True)  # noqa: S607
            yield str(folder / f"{artifact.replace(':', '-')}.jar")


def main(rows: int) -> None:
    """Creates the data, starts Spark, and measures."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        source, store = make_source(folder / "source", rows), new_store(fresh(folder))
        paths = {"spark.jars": ",".join(jars(folder)), "spark.sql.catalog.ice.warehouse": str(folder / "ice")}
        spark = lakeconf.spark_session(store, settings=SETTINGS | paths)
        spark.sparkContext.setLogLevel("ERROR")
        frame = spark.read.option("inferTimestampNTZ", "true").parquet(str(source))
        columns = [column for column in frame.columns if column != "day"]
        by_day = frame.selectExpr(*columns, f"date_add(DATE'2024-01-01', CAST(id * 7919 % {DAYS} AS INT)) AS day")
        few = spark.createDataFrame([(number, f"row {number}") for number in range(10)], "id long, name string")
        lake = stack.enter_context(store.open(spark))
        formats: dict[str, Format] = {
            "plain": Plain(spark, fresh(folder)),
            "lakeconf": Ducklake(lake, store),
            "delta": Sql(spark, fresh(folder), "delta"),
            "iceberg": Sql(spark, fresh(folder), "iceberg"),
        }
        print(f"| seconds (ratio to plain Parquet), Spark {spark.version} | {' | '.join(formats)} | |")
        print(f"|---|{'---|' * len(formats)}---|")
        measure_appends(formats, frame, by_day, few)
        measure_changes(formats, frame, rows)
        measure_planning(formats, folder)
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
