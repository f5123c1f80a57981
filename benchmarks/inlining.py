"""Small commits in the catalog (`data_inlining_row_limit`) against files, which are the default.

Usage: python benchmarks/inlining.py [COMMITS]      (default: 200)

Appends of ten rows each on the DuckDB engine, with SQLite and PostgreSQL and local files. Both lakes take turns.
Appends and DuckDB's reads are CPU time of this process, reads on Spark are elapsed time.
"""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa

import lakeconf

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from local_stores import on_postgres, store_of
from servers import postgres

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, READS = 10, 5
LIMITS = {"files": 0, "in the catalog": ROWS}
HEADER = "| catalog | what | files | in the catalog |\n|---|---|---|---|"


def rows_of(number: int) -> pa.Table:
    """Ten rows of five columns."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "at": [moment + dt.timedelta(seconds=i) for i in ids],
            "kind": [f"kind {i % 7}" for i in ids],
            "amount": [i / 7 for i in ids],
            "note": [f"a note about number {i}" for i in ids],
        }
    )


def measure(catalog: str, stores: dict[str, lakeconf.Store], commits: int) -> None:
    """Prints the rows of one catalog; `stores` has the two lakes."""
    times: dict[str, dict[str, list[float]]] = {"append": {}, "read on DuckDB": {}, "read on Spark": {}}

    def note(what: str, name: str, clock: Callable[[], float], run: Callable[[], object]) -> None:
        started = clock()
        run()
        times[what].setdefault(name, []).append((clock() - started) * 1000)

    with ExitStack() as stack:
        tables = {}
        for name, store in stores.items():
            lake = stack.enter_context(store.open())
            lake.create_table("t", rows_of(0))
            tables[name] = lake.table("t")
        for number in range(commits):
            for name, table in tables.items():
                note("append", name, time.process_time, partial(table.append, rows_of(number)))
        for name, table in list(tables.items()) * READS:
            note("read on DuckDB", name, time.process_time, lambda table=table: table.scan().collect("pyarrow"))
    spark = lakeconf.spark_session(*stores.values(), settings={"spark.master": "local[2]", "spark.ui.enabled": "false"})
    with ExitStack() as stack:
        tables = {name: stack.enter_context(store.open(spark)).table("t") for name, store in stores.items()}
        for name, table in list(tables.items()) * READS:
            note("read on Spark", name, time.perf_counter, lambda table=table: table.scan().to_native().collect())
    spark.stop()
    for what, of_lakes in times.items():
        print(
            f"| {catalog} | {what} | " + " | ".join(f"{median(of_lakes[n]):.0f} ms" for n in LIMITS) + " |", flush=True
        )


def main(commits: int = 200) -> None:
    """Prints the table."""
    print(f"{HEADER}")
    with tempfile.TemporaryDirectory() as folder, postgres() as server:
        for catalog in ("SQLite", "PostgreSQL"):
            stores = {}
            for name, limit in LIMITS.items():
                path = Path(folder, f"{catalog} {name}")
                path.mkdir()
                backend = on_postgres(server) if catalog == "PostgreSQL" else None
                stores[name] = store_of(path, backend, data_inlining_row_limit=limit)
            measure(catalog, stores, commits)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
