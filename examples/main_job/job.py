"""The main job: loads two months of events into a lake with Spark, and computes daily revenue.

Usage: python job.py [FOLDER OF THE CSV FILES]
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Column, Table

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from lakeconf.catalog.snapshot import Snapshot

LAKE = Path(".lakeconf")
FOLDER = LAKE / "events"
CSV_SCHEMA = """
    event_id STRING, user_id BIGINT, event_type STRING, event_timestamp TIMESTAMP_NTZ, country STRING,
    revenue DECIMAL(10, 2)
"""
DAILY_REVENUE_SQL = """
    SELECT CAST(event_timestamp AS DATE) AS event_date,
           count(DISTINCT user_id) AS users,
           count(*) FILTER (event_type = 'purchase') AS purchases,
           coalesce(sum(revenue) FILTER (event_type = 'purchase'), 0) AS revenue
    FROM raw.events WHERE event_id IS NOT NULL GROUP BY ALL ORDER BY ALL
"""
LOG_SETTINGS = Path(__file__).resolve().parent / "log4j2.properties"
console = Console(highlight=False)


def daily_revenue(events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Daily revenue: the same code for Spark, DuckDB and every other narwhals backend."""
    purchases = nw.when(nw.col("event_type") == "purchase").then(nw.col("revenue"))
    return (
        events.filter(~nw.col("event_id").is_null())
        .with_columns(event_date=nw.col("event_timestamp").dt.date(), purchase=purchases)
        .group_by("event_date")
        .agg(users=nw.col("user_id").n_unique(), purchases=nw.col("purchase").count(), revenue=nw.col("purchase").sum())
    )


def load(lake: lakeconf.Lake, months: list[DataFrame]) -> None:
    """Loads the files into `raw.events`: the first replaces the table's contents, so that the job can be run again."""
    first, *others = months
    if "raw.events" not in lake.tables():
        lake.create_table("raw.events", like=first)
    lake.table("raw.events").overwrite(first)
    for month in others:
        lake.table("raw.events").append(month)


def transform(lake: lakeconf.Lake) -> None:
    """Computes `analytics.daily_revenue` from `raw.events`."""
    daily = daily_revenue(lake.table("raw.events").scan())
    if "analytics.daily_revenue" not in lake.tables():
        lake.create_table("analytics.daily_revenue", like=daily)
    lake.table("analytics.daily_revenue").overwrite(daily)


def start_spark(store: lakeconf.Store) -> SparkSession:
    """A local session with access to the store's files."""
    settings = {
        "spark.master": "local[*]",
        "spark.app.name": "lakeconf main job",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return lakeconf.spark_session(store, settings=settings)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Shows a progress indicator, and finally the elapsed time."""
    started = time.perf_counter()
    with console.status(f"{title} …"):
        yield
    console.print(f"[green]✓[/] {title} [dim]{time.perf_counter() - started:.1f} s[/]")


def read_days(lake: lakeconf.Lake) -> list[tuple[object, ...]]:
    """The rows of `analytics.daily_revenue`, in order."""
    days = lake.table("analytics.daily_revenue").scan().sort("event_date").collect()
    return list(days.iter_rows())


def show(days: list[tuple[object, ...]], snapshots: Iterable[Snapshot]) -> None:
    """Prints the first days of the result, and the snapshots of the lake."""
    print_rows(
        f"analytics.daily_revenue, the first 7 of {len(days)} days",
        ["event_date", "users", "purchases", "revenue"],
        days[:7],
    )
    rows = [(s.snapshot_id, f"{s.time:%Y-%m-%d %H:%M:%S}", s.changes) for s in snapshots]
    print_rows("Snapshots", ["version", "time", "changes"], rows)


def print_rows(title: str, columns: list[str], rows: Iterable[tuple[object, ...]]) -> None:
    """Prints a small table."""
    table = Table(*(Column(name, overflow="fold") for name in columns))
    for row in rows:
        table.add_row(*map(str, row))
    console.print(f"\n[bold]{title}[/]", table, sep="\n")


def show_files(folder: Path) -> None:
    """Prints the files on disk: the catalog, and the Parquet files of each table, including those of old snapshots."""
    data = folder / "data"
    places: dict[Path, list[int]] = {}
    for path in [*folder.glob("catalog.sqlite"), *sorted(data.rglob("*.parquet"))]:
        place = data.joinpath(*path.relative_to(data).parts[:2]) if data in path.parents else path
        places.setdefault(place, []).append(path.stat().st_size)
    rows = [(place, len(sizes), f"{sum(sizes) / 1024:,.0f} KB") for place, sizes in places.items()]
    print_rows("On disk", ["where", "files", "size"], rows)


def check(store: lakeconf.Store, by_spark: list[tuple[object, ...]]) -> None:
    """Queries the same rows with DuckDB, which reads the lake independently of Spark."""
    with store.connect() as connection:
        by_duckdb = connection.execute(DAILY_REVENUE_SQL).fetchall()
        ((events,),) = connection.execute("SELECT count(*) FROM raw.events").fetchall()
    if by_spark != by_duckdb:
        different = [day for day in zip(by_spark, by_duckdb, strict=False) if day[0] != day[1]]
        raise lakeconf.LakeconfError(f"Spark and DuckDB do not read the same: {different or (by_spark, by_duckdb)}")
    revenue = sum(day[-1] for day in by_duckdb)
    console.print(
        f"\n[green]✓[/] DuckDB reads the same lake and finds the same: {len(by_duckdb)} days, "
        f"{events:,} events, {revenue:,} of revenue\n"
    )


def main(folder: Path) -> None:
    """Runs the job on the default store of lakeconf.toml."""
    paths = sorted(folder.glob("events-*.csv"))
    if not paths:
        raise lakeconf.LakeconfError(f"no events-*.csv in {folder}", hint="run make_events.py first")
    store = lakeconf.init().get_store()
    console.print(f"\n[bold]The SQL of store {store.name!r}[/bold], from lakeconf.toml (secrets would show as '***')\n")
    for statement in store.preview_sql():
        console.print(Syntax(statement, "sql", theme="ansi_dark", background_color="default", word_wrap=True))
    console.print()
    with step("Starting Spark"):
        spark = start_spark(store)
    with store.open(spark) as lake:
        with step(f"Loading {len(paths)} CSV files into raw.events"):
            load(lake, [spark.read.csv(str(path.resolve()), header=True, schema=CSV_SCHEMA) for path in paths])
        with step("Making analytics.daily_revenue"):
            transform(lake)
        with step("Reading it back with Spark"):
            days = read_days(lake)
        show(days, lake.snapshots())
    show_files(LAKE)
    check(store, days)
    spark.stop()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
    except lakeconf.LakeconfError as error:
        Console(stderr=True, highlight=False, markup=False).print(f"error: {error}")
        sys.exit(1)
