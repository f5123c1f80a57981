"""Events from CSV files, and users and revenue by day."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import narwhals as nw

from lakeconf.pipelines import Append, Incremental, Model, model

raw_events = Model(
    "raw.events",
    Append(
        files="events/*.csv",
        columns={
            "event_id": "INTEGER",
            "user_id": "INTEGER",
            "event_type": "VARCHAR",
            "event_timestamp": "TIMESTAMP",
            "revenue": "DECIMAL(10,2)",
        },
    ),
    folder=Path(__file__).parent,
)


@model(
    "analytics.daily_revenue",
    Incremental("event_date", start=date(2024, 1, 1), lookback=2),
    partitioned_by=["event_date"],
    audits={"no negative revenue": "FROM analytics.daily_revenue WHERE total_revenue < 0"},
)
def daily_revenue(stg_events: nw.LazyFrame[Any], start: date, end: date) -> nw.LazyFrame[Any]:
    """Distinct users, and revenue of purchases, by day."""
    purchase = nw.when(nw.col("event_type") == "purchase").then(nw.col("revenue")).otherwise(nw.lit(0))
    return (
        stg_events.filter(nw.col("event_date") >= start, nw.col("event_date") < end)
        .with_columns(purchase.alias("purchase"))
        .group_by("event_date")
        .agg(nw.col("user_id").n_unique().alias("unique_users"), nw.col("purchase").sum().alias("total_revenue"))
    )
