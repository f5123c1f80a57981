"""A model whose definition changes: columns are added, renamed and widened; an audit rejects invalid data."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakeconf
from lakeconf.pipelines import Full, Merge, Model, Pipeline, Query, Seed, run

HERE = Path(__file__).parent
SEED = Model(
    "staging.orders",
    Seed("orders.csv", {"id": "INTEGER", "customer": "VARCHAR", "day": "DATE", "amount": "DECIMAL(8,2)"}),
    folder=HERE,
)
AUDITS = {"an order has an amount": "FROM mart.revenue WHERE revenue IS NULL OR revenue <= 0"}
FIRST = Query(
    "SELECT customer, CAST(sum(amount) AS DECIMAL(12,2)) AS total, CAST(count(*) AS INTEGER) AS orders "
    "FROM staging.orders GROUP BY ALL"
)
SECOND = Query(
    "SELECT customer, CAST(sum(amount) AS DECIMAL(12,2)) AS revenue, count(*) AS orders, max(day) AS last_day "
    "FROM staging.orders GROUP BY ALL"
)
# Changes of the orders since the last run, one row per order.
LOG = Model(
    "mart.order_log",
    Merge("id", changes_of="orders"),
    Query("SELECT id, amount, change_type AS last_change FROM orders WHERE change_type <> 'update_preimage'"),
    {"orders": "staging.orders"},
)


def revenue(query: Query, **given: Any) -> Pipeline:
    """The pipeline with this definition of the revenue model."""
    return Pipeline([SEED, LOG, Model("mart.revenue", Full(), query, **given)])


def show(title: str, pipeline: Pipeline, lake: lakeconf.Lake) -> None:
    print(title)
    for result in run(pipeline, lake):
        print(f"  {result.status:<7} {result.model}: {result.reason}")
        if result.error is not None:
            print("   ", result.error.message.replace("\n", "\n    "))


def main() -> None:
    shutil.rmtree(HERE / ".lakeconf", ignore_errors=True)
    store = lakeconf.init(HERE).get_store()
    session = lakeconf.spark_session(store) if sys.argv[1:] == ["spark"] else None
    with store.open(session) as lake:
        show("the first run:", revenue(FIRST), lake)
        show("nothing has changed:", revenue(FIRST), lake)
        changed = revenue(SECOND, renamed={"total": "revenue"}, audits=AUDITS)
        show("total is called revenue, orders is wider, last_day is new:", changed, lake)
        print(" ", lake.table("mart.revenue").schema)
        lake.table("staging.orders").update({"amount": 30}, "id = 1")
        lake.table("staging.orders").append(
            pa.table({"id": pa.array([4], pa.int32()), "customer": ["eve"], "day": [None], "amount": [None]}).cast(
                pa.schema(
                    [
                        ("id", pa.int32()),
                        ("customer", pa.string()),
                        ("day", pa.date32()),
                        ("amount", pa.decimal128(8, 2)),
                    ]
                )
            )
        )
        before = lake.snapshot_id
        show("an order without an amount:", changed, lake)
        native: Any = lake.sql("FROM mart.revenue ORDER BY ALL").to_native()
        print("  mart.revenue is as it was:", *native.fetchall())
        native = lake.sql("FROM mart.order_log ORDER BY ALL").to_native()
        print("  mart.order_log:", *((number, str(amount), change) for number, amount, change in native.fetchall()))
        print(f"  one snapshot was made: {lake.refresh() == before + 1}")


if __name__ == "__main__":
    main()
