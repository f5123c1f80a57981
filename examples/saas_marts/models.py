"""Raw tables from the landing zone, staging tables and marts."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import narwhals as nw

from lakeconf.pipelines import Append, Full, Incremental, Model, View, model

Frame = nw.LazyFrame[Any]
LANDING = os.environ.get("LANDING", "landing")


def landed(table: str) -> Model:
    """A raw table; each run loads only new files."""
    return Model(f"raw.{table}", Append(files=f"{LANDING}/{table}/*.parquet"), folder=Path(__file__).parent)


raw_users = landed("users")
raw_events = landed("events")
raw_invoices = landed("invoices")
raw_tickets = landed("support_tickets")


@model("staging.users", View(), inputs={"users": "raw.users"})
def stg_users(users: Frame) -> Frame:
    """Users without their email addresses."""
    return users.select("user_id", "plan", "country", nw.col("signed_up_at").cast(nw.Date).alias("signed_up_on"))


@model("staging.events", View(), inputs={"events": "raw.events"})
def stg_events(events: Frame) -> Frame:
    """Events with their date."""
    return events.with_columns(nw.col("occurred_at").cast(nw.Date).alias("event_date"))


@model("staging.invoices", View(), inputs={"invoices": "raw.invoices"})
def stg_invoices(invoices: Frame) -> Frame:
    """Valid invoices, with their date."""
    issued_on = nw.col("issued_at").cast(nw.Date)
    return invoices.filter(nw.col("status") != "void").with_columns(issued_on.alias("issued_on"))


@model("staging.tickets", View(), inputs={"tickets": "raw.support_tickets"})
def stg_tickets(tickets: Frame) -> Frame:
    """Tickets, with a flag that says whether they are resolved."""
    return tickets.with_columns(nw.col("resolved_at").is_null().alias("is_open"))


@model("intermediate.revenue_by_user", View(), inputs={"invoices": "staging.invoices"})
def revenue_by_user(invoices: Frame) -> Frame:
    """Total payments of each user."""
    paid = invoices.filter(nw.col("status") == "paid")
    return paid.group_by("user_id").agg(nw.col("amount").sum().alias("lifetime_revenue"), nw.len().alias("invoices"))


@model(
    "marts.dim_users",
    Full(),
    inputs={"users": "staging.users", "tickets": "staging.tickets", "sessions": "staging.sessions"},
    audits={"a row for each user": "SELECT user_id FROM marts.dim_users GROUP BY user_id HAVING count(*) > 1"},
)
def dim_users(users: Frame, revenue_by_user: Frame, tickets: Frame, sessions: Frame) -> Frame:
    """Users with their lifetime revenue, tickets and sessions."""
    by_user = tickets.group_by("user_id").agg(
        nw.len().alias("tickets"), nw.col("is_open").cast(nw.Int64).sum().alias("open_tickets")
    )
    counted = sessions.group_by("user_id").agg(nw.len().alias("sessions"), nw.col("ended_at").max().alias("last_seen"))
    joined = users.join(revenue_by_user, on="user_id", how="left")
    joined = joined.join(by_user, on="user_id", how="left").join(counted, on="user_id", how="left")
    counts = nw.col("invoices", "tickets", "open_tickets", "sessions").fill_null(0).cast(nw.Int64)
    return joined.with_columns(nw.col("lifetime_revenue").fill_null(0).cast(nw.Decimal(18, 2)), counts)


@model(
    "marts.fct_daily_active_users",
    Incremental("event_date", start=date(2024, 1, 1), batch=365),
    inputs={"events": "staging.events"},
)
def fct_daily_active_users(events: Frame, start: date, end: date) -> Frame:
    """Active users and their events, by day."""
    wanted = events.filter(nw.col("event_date") >= start, nw.col("event_date") < end)
    kinds = ("page_view", "feature_used", "upgrade", "signup")
    counts = [(nw.col("event_type") == kind).cast(nw.Int64).sum().alias(f"{kind}s") for kind in kinds]
    return wanted.group_by("event_date").agg(nw.col("user_id").n_unique().alias("active_users"), *counts)


@model("marts.fct_revenue", Full(), inputs={"invoices": "staging.invoices", "users": "staging.users"})
def fct_revenue(invoices: Frame, users: Frame) -> Frame:
    """Revenue by day, plan, country and invoice status."""
    keys = ("issued_on", "plan", "country", "status")
    joined = invoices.join(users, on="user_id", how="inner")
    return joined.group_by(*keys).agg(
        nw.col("amount").sum().cast(nw.Decimal(18, 2)).alias("revenue"), nw.len().cast(nw.Int64).alias("invoices")
    )
