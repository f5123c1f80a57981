"""Deduplicated events, and their number by type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import narwhals as nw

from lakeconf.pipelines import Append, Full, Merge, Model, model

Frame = nw.LazyFrame[Any]

raw_events = Model("raw.events", Append(files="landing/*.parquet"), folder=Path(__file__).parent)


@model("clean.events", Merge("event_id", changes_of="raw_events", update=False), partitioned_by=["event_date"])
def events(raw_events: Frame) -> Frame:
    """Deduplicated events."""
    new = raw_events.filter(nw.col("change_type") == "insert").drop("snapshot_id", "rowid", "change_type")
    once = new.unique(subset="event_id", keep="any")
    return once.with_columns(nw.col("event_timestamp").cast(nw.Date).alias("event_date"))


@model("clean.events_by_type", Full(), inputs={"events": "clean.events"})
def events_by_type(events: Frame) -> Frame:
    """Number of events by type."""
    return events.group_by("event_type").agg(nw.len().cast(nw.Int64).alias("events"))
