"""Generates batches, loads new files into raw tables, and builds the marts.

`python run.py 10 --engine spark` processes ten batches on Spark; `--config server.toml` uses Postgres and S3;
`LANDING=s3://bucket/landing` puts the landing zone into the bucket as well.
Each step can also run alone: generate.py, and the two commands that this script prints.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import date, timedelta
from pathlib import Path

import generate

import lakeconf
from lakeconf.cli import app

HERE = Path(__file__).parent


def run(*arguments: str) -> None:
    """Runs a lakeconf command, and exits if it fails."""
    print(f"$ lakeconf {' '.join(arguments)}", flush=True)
    # In this process, so that Spark starts only once.
    code = app.run(arguments)
    if code:
        sys.exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("batches", type=int, nargs="?", default=1, help="how many batches to generate; 0 for none")
    parser.add_argument("--engine", default="duckdb", choices=["duckdb", "spark"])
    parser.add_argument("--config", default="lakeconf.toml", help="lakeconf.toml, or server.toml")
    given = parser.parse_args()
    os.chdir(HERE)
    (HERE / ".lakeconf").mkdir(exist_ok=True)
    landing = os.environ.get("LANDING", str(HERE / "landing"))
    with lakeconf.init(given.config).get_store().connect() as connection:
        if given.batches:
            generate.generate(connection, landing, given.batches)
        days = 30 * generate.generated(connection, landing)
    options = ["--engine", given.engine, "--config", given.config]
    run("run", "raw.*", *options)
    run("run", "staging.*", "marts.*", "--to", str(date(2024, 1, 1) + timedelta(days)), *options)
    with lakeconf.init(given.config).get_store().open() as lake:
        for query in (
            "SELECT count(*) AS users, sum(lifetime_revenue) AS paid, sum(sessions) AS sessions FROM marts.dim_users",
            "SELECT count(*) AS days, sum(page_views) AS page_views FROM marts.fct_daily_active_users",
            "SELECT sum(revenue) AS revenue, sum(invoices) AS invoices FROM marts.fct_revenue",
        ):
            print(dict(lake.sql(query).collect("pyarrow").rows(named=True)[0]))


if __name__ == "__main__":
    main()
