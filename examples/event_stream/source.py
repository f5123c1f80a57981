"""The source application: inserts events into a table of its Postgres, and functions that extract them from there."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from lakeconf import Store
from lakeconf.errors import ConnectionFailed

WEIGHTS = {"user_login": 35, "api_request": 25, "page_view": 20, "purchase": 10, "error": 7, "signup": 3}
START = datetime(2024, 6, 1)
# Events may be inserted late, so the extraction reads this period again.
LATENESS = timedelta(minutes=10)


@contextmanager
def attached(store: Store) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the lake, with the schema `app` of the Postgres that contains its catalog as `source`."""
    with store.connect() as connection:
        # Uses the lake's own secret, so no credentials are repeated.
        connection.execute(f"ATTACH '' AS source (TYPE postgres, SECRET lakeconf_{store.name}__metadata)")
        yield connection


def insert(connection: duckdb.DuckDBPyConnection, hour: int, count: int) -> int:
    """Inserts the events of an hour, and a few late events of the previous hour."""
    connection.execute("CREATE SCHEMA IF NOT EXISTS source.app")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS source.app.events "
        "(event_id BIGINT, event_type VARCHAR, event_timestamp TIMESTAMP, details VARCHAR)"
    )
    made = random.Random(hour)
    late = count // 50 if hour else 0
    rows = [event(made, hour * 1_000_000 + number, hour, is_late=number < late) for number in range(count)]
    connection.register("made", pa.Table.from_pylist(rows))
    connection.execute("INSERT INTO source.app.events SELECT * FROM made")
    return count


def event(made: random.Random, event_id: int, hour: int, *, is_late: bool) -> dict[str, Any]:
    (kind,) = made.choices(list(WEIGHTS), list(WEIGHTS.values()))
    seconds = made.uniform(-LATENESS.total_seconds() + 1, 0) if is_late else made.uniform(0, 3600)
    details: dict[str, Any] = {"user_id": f"user_{made.randint(1000, 1199)}"}
    if kind == "api_request":
        (status,) = made.choices([200, 201, 400, 404, 500], [50, 10, 10, 15, 5])
        details |= {"status_code": status, "response_time_ms": made.randint(10, 2000)}
    if kind == "error":
        details["severity"] = made.choice(["warning", "critical"])
    moment = START + timedelta(hours=hour, seconds=round(seconds, 3))
    return {"event_id": event_id, "event_type": kind, "event_timestamp": moment, "details": json.dumps(details)}


def extract(connection: duckdb.DuckDBPyConnection, landing: Path) -> int:
    """Copies events newer than those in the lake into a file, and returns their number.

    The position is derived from the lake only. If a run fails before its file is loaded, the next run reads the same
    events again, and the lake stores each of them once.
    """
    exists = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'events' AND schema_name = 'raw'")
    known = exists.fetchone() is not None
    newest = connection.execute("SELECT max(event_timestamp) FROM raw.events").fetchone() if known else None
    since = newest[0] - LATENESS if newest and newest[0] else START
    new = connection.sql("FROM source.app.events WHERE event_timestamp >= $since", params={"since": since})
    rows = new.to_arrow_table()
    landing.mkdir(exist_ok=True)
    connection.from_arrow(rows).write_parquet(str(landing / f"{len(list(landing.iterdir())):06}.parquet"))
    return int(rows.num_rows)


def extract_with_patience(store: Store, landing: Path, attempts: int = 3) -> int:
    """Runs `extract`, and retries if the source does not respond."""
    for attempt in range(attempts):
        try:
            with attached(store) as connection:
                return extract(connection, landing)
        except (duckdb.Error, ConnectionFailed) as error:
            if attempt == attempts - 1:
                raise
            print(f"the source does not answer ({type(error).__name__}), again in {2**attempt} s")
            time.sleep(2**attempt)
    raise AssertionError
