"""Two hours of events: generation, extraction from Postgres, promotion without duplicates, time travel, maintenance.

`python run.py spark` uses Spark instead of DuckDB. PGHOST, PGPORT, PGDATABASE, PGUSER and LAKE_PG_PASSWORD select the
Postgres; the database must be empty.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import source

import lakeconf
from lakeconf.cli import app

HERE = Path(__file__).parent
LANDING = HERE / "landing"
ROWS = 1_000


def run(*arguments: str) -> None:
    """Runs a lakeconf command, and exits if it fails."""
    print(f"$ lakeconf {' '.join(arguments)}", flush=True)
    # In this process, so that Spark starts only once.
    code = app.run(arguments)
    if code:
        sys.exit(code)


def main() -> None:
    os.chdir(HERE)
    engine = sys.argv[1] if len(sys.argv) > 1 else "duckdb"
    for left in (LANDING, HERE / ".lakeconf"):
        shutil.rmtree(left, ignore_errors=True)
    store = lakeconf.init().get_store("lake")
    for hour in range(2):
        with source.attached(store) as connection:
            print(f"hour {hour}: the application inserts {source.insert(connection, hour, ROWS)} events")
        print(f"extracted {source.extract_with_patience(store, LANDING)} events")
        run("run", "--engine", engine)
    look(store)
    # For example every night; by default, snapshots are kept for 30 days.
    run("maintain", "--store", "lake", "--expire-days", "0", "--keep", "2", "--cleanup-days", "0", "--force", "--yes")


def look(store: lakeconf.Store) -> None:
    """Queries of the current rows, an earlier snapshot, and the changes."""
    with store.open() as lake:
        first, *_, last = lake.table("clean.events").history()
    with store.connect() as connection:

        def show(title: str, query: str) -> None:
            (row,) = connection.execute(query).fetchall()
            print(f"{title}: {', '.join(map(str, row))}")

        show("events read, and events kept", "SELECT (SELECT count(*) FROM raw.events), count(*) FROM clean.events")
        show(
            "the first version, and the moment of it",
            f"SELECT (SELECT count(*) FROM clean.events AT (VERSION => {first.snapshot_id})), "
            f"(SELECT count(*) FROM clean.events AT (TIMESTAMP => TIMESTAMPTZ '{first.time}'))",
        )
        feed = f"ducklake_table_changes('lake', 'clean', 'events', {first.snapshot_id + 1}, {last.snapshot_id})"
        show(
            "changes since, and critical errors among them",
            "SELECT count(*), count(*) FILTER (details->>'severity' = 'critical') "
            f"FROM {feed} WHERE change_type = 'insert'",
        )
        show(
            "the journey of user_1042",
            "SELECT string_agg(event_type, ' > ' ORDER BY event_timestamp) FROM clean.events "
            "WHERE details->>'user_id' = 'user_1042'",
        )
        show(
            "percent of logins and of requests",
            "SELECT round(100 * sum(events) FILTER (event_type = 'user_login') / sum(events)), "
            "round(100 * sum(events) FILTER (event_type = 'api_request') / sum(events)) FROM clean.events_by_type",
        )


if __name__ == "__main__":
    main()
