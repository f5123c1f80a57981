"""Loads new files from the landing zone into raw tables, with dlt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlt
import pyarrow.parquet as pq

from lakeconf.integrations.dlt import destination

HERE = Path(__file__).parent
LANDING = HERE / "landing"
TABLES = ("users", "events", "invoices", "support_tickets")


def landed(table: str) -> Any:
    """A raw table; dlt stores the names of its loaded files in the lake, next to the data."""

    @dlt.resource(name=table, write_disposition="append")
    def rows() -> Iterator[Any]:
        loaded = dlt.current.resource_state().setdefault("files", [])
        for path in sorted((LANDING / table).glob("*.parquet")):
            if path.name not in loaded:
                yield pq.read_table(path)
                loaded.append(path.name)

    return rows


def main() -> None:
    work = str(HERE / ".lakeconf" / "dlt")
    pipeline = dlt.pipeline("saas", pipelines_dir=work, destination=destination("landed"), dataset_name="raw")
    pipeline.run([landed(table) for table in TABLES])
    trace: Any = pipeline.last_trace
    counts = trace.last_normalize_info.row_counts
    print("loaded:", ", ".join(f"{table} {counts.get(table, 0)}" for table in TABLES))


if __name__ == "__main__":
    main()
