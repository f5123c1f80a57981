"""Generates the data of a SaaS product in its landing zone: deterministic batches of Parquet files.

`python generate.py 10 landing` writes ten batches into the folder `landing`. All batches contain the same 2,000 users;
each covers about 30 days.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

USERS, EVENTS, INVOICES, TICKETS = 2_000, 50_000, 5_000, 1_500
EVENT_TYPES = {"page_view": 60, "feature_used": 33, "upgrade": 4, "signup": 3}
PLANS = {"free": 50, "starter": 25, "pro": 18, "enterprise": 7}
COUNTRIES = {"US": 40, "DE": 20, "GB": 15, "IN": 15, "BR": 10}
STATUSES = {"paid": 85, "open": 10, "void": 5}
PRIORITIES = {"low": 40, "normal": 40, "high": 15, "urgent": 5}
SECONDS = 30 * 86_400


def users(random: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "user_id": np.arange(1, USERS + 1),
            "email": [f"user{number}@example.com" for number in range(1, USERS + 1)],
            "plan": pick(random, PLANS, USERS),
            "country": pick(random, COUNTRIES, USERS),
            "signed_up_at": moments("2023-01-01", random.integers(0, 365 * 86_400, USERS)),
        }
    )


def events(random: np.random.Generator, batch: int) -> pa.Table:
    return pa.table(
        {
            "event_id": ids(batch, EVENTS),
            # Some users are more active than others.
            "user_id": 1 + (USERS * random.beta(1, 3, EVENTS)).astype(np.int64),
            "event_type": pick(random, EVENT_TYPES, EVENTS),
            "occurred_at": moments("2024-01-01", batch * SECONDS + random.integers(0, SECONDS, EVENTS)),
        }
    )


def invoices(random: np.random.Generator, batch: int) -> pa.Table:
    return pa.table(
        {
            "invoice_id": ids(batch, INVOICES),
            "user_id": random.integers(1, USERS + 1, INVOICES),
            "cents": random.integers(900, 50_000, INVOICES),
            "status": pick(random, STATUSES, INVOICES),
            "issued_at": moments("2024-01-01", batch * SECONDS + random.integers(0, SECONDS, INVOICES)),
        }
    )


def support_tickets(random: np.random.Generator, batch: int) -> pa.Table:
    opened = batch * SECONDS + random.integers(0, SECONDS, TICKETS)
    hours = random.integers(1, 200, TICKETS)
    is_open = random.random(TICKETS) < 0.1
    return pa.table(
        {
            "ticket_id": ids(batch, TICKETS),
            "user_id": random.integers(1, USERS + 1, TICKETS),
            "priority": pick(random, PRIORITIES, TICKETS),
            "opened_at": moments("2024-01-01", opened),
            "resolved_at": pa.array(moments("2024-01-01", opened + 3600 * hours), mask=is_open),
        }
    )


def ids(batch: int, count: int) -> np.ndarray:
    return np.arange(batch * count + 1, (batch + 1) * count + 1)


def pick(random: np.random.Generator, weights: dict[str, int], count: int) -> np.ndarray:
    return random.choice(list(weights), size=count, p=np.array(list(weights.values())) / 100)


def moments(start: str, seconds: np.ndarray) -> np.ndarray:
    return np.datetime64(start, "us") + seconds.astype("timedelta64[s]")


def leave(connection: duckdb.DuckDBPyConnection, landing: str, table: str, batch: int, rows: pa.Table) -> None:
    """Writes a file; amounts of money are of type DECIMAL."""
    if "://" not in landing:
        (Path(landing) / table).mkdir(parents=True, exist_ok=True)
    made = connection.from_arrow(rows)
    money = "(cents / 100)::DECIMAL(10, 2) AS amount"
    columns = ", ".join(money if name == "cents" else name for name in made.columns)
    made.project(columns).write_parquet(f"{landing}/{table}/batch-{batch + 1:04}.parquet")


def generated(connection: duckdb.DuckDBPyConnection, landing: str) -> int:
    """The number of existing batches."""
    return len(connection.execute("FROM glob(?)", [f"{landing}/events/*.parquet"]).fetchall())


def generate(connection: duckdb.DuckDBPyConnection, landing: str, batches: int) -> None:
    """Adds batches after the existing ones.

    Args:
        connection: A connection with access to the landing zone.
        landing: Its folder or URI.
        batches: The number of batches.
    """
    first = generated(connection, landing)
    if first == 0:
        leave(connection, landing, "users", 0, users(np.random.default_rng(0)))
    for batch in range(first, first + batches):
        random = np.random.default_rng(batch + 1)
        for table, make in (("events", events), ("invoices", invoices), ("support_tickets", support_tickets)):
            leave(connection, landing, table, batch, make(random, batch))
    print(f"{batches} batch{'es' if batches > 1 else ''} of {EVENTS:,} events behind {first}")


if __name__ == "__main__":
    count, folder = (*sys.argv[1:], *("1", "landing")[len(sys.argv) - 1 :])
    with duckdb.connect() as local:
        generate(local, folder, int(count))
