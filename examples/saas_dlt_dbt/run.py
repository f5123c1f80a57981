"""Generates batches, loads them with dlt, and builds the marts with dbt. Each step can also run alone.

`python run.py 10` processes ten batches; `LAKECONF_CONFIG=server.toml` uses Postgres and S3.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lakeconf

HERE = Path(__file__).parent
GENERATE = HERE.parent / "saas_marts" / "generate.py"


def main() -> None:
    os.chdir(HERE)
    (HERE / ".lakeconf").mkdir(exist_ok=True)
    batches = sys.argv[1] if len(sys.argv) > 1 else "1"
    dbt = str(Path(sys.executable).with_name("dbt"))
    for command in (
        [sys.executable, str(GENERATE), batches, "landing"],
        [sys.executable, "load.py"],
        [dbt, "--quiet", "run", "--profiles-dir", "."],
    ):
        done = subprocess.run(command, check=False)
        if done.returncode:
            sys.exit(done.returncode)
    with lakeconf.init(os.environ.get("LAKECONF_CONFIG")).get_store("analytics").open() as lake:
        for query in (
            "SELECT count(*) AS users, sum(lifetime_revenue) AS paid, sum(sessions) AS sessions FROM marts.dim_users",
            "SELECT count(*) AS days, sum(page_views) AS page_views FROM marts.fct_daily_active_users",
            "SELECT sum(revenue) AS revenue, sum(invoices) AS invoices FROM marts.fct_revenue",
        ):
            print(dict(lake.sql(query).collect("pyarrow").rows(named=True)[0]))


if __name__ == "__main__":
    main()
