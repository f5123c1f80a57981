"""One store is used by all tools: dlt loads, SQLMesh and dbt transform, Polars reads, Dagster writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import polars as pl
from doc_pages import block, named
from shell import run_shell

import lakeconf
from lakeconf.integrations.dagster import LakeIOManager

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from server_project import Project

EVENTS, USERS = 3000, 200
TOTAL = sum(range(1, EVENTS + 1)) / 4
# 999 events on the first day, 1000 on the next two, one on the last.
DAILY = """
MODEL (
  name prod.shop.daily,
  kind INCREMENTAL_BY_TIME_RANGE (time_column event_date),
  cron '@daily'
);

SELECT
  DATE '2024-01-01' + (created_at // 1000)::INT AS event_date,
  count(*) AS events,
  count(DISTINCT user_id) AS users,
  SUM(revenue) AS revenue
FROM prod.raw.events
WHERE DATE '2024-01-01' + (created_at // 1000)::INT BETWEEN @start_ds AND @end_ds
GROUP BY 1
"""
TOTALS = """
{{ config(materialized='table') }}
SELECT sum(events) AS events, max(users) AS users, sum(revenue) AS revenue FROM {{ source('shop', 'daily') }}
"""
SOURCES = """
sources:
  - {name: shop, database: prod, schema: shop, tables: [{name: daily}]}
"""


def load_with_dlt(project: Project, home: Path) -> str:
    (project.folder / "load.py").write_text(named("integrations/dlt.md", "python")["load.py"])
    output = run_shell("python load.py", DLT_DATA_DIR=str(home))
    assert project.rows("SELECT count(*), sum(revenue) FROM raw.events") == [(EVENTS, TOTAL)]
    return output


def transform_with_sqlmesh(project: Project) -> str:
    folder = project.folder / "sqlmesh"
    (folder / "models").mkdir(parents=True)
    (folder / "config.py").write_text(named("integrations/sqlmesh.md", "python")["config.py"])
    (folder / "models" / "daily.sql").write_text(DAILY)
    commands = block("integrations/sqlmesh.md", "sh", "sqlmesh plan").splitlines()
    output = run_shell(f"cd sqlmesh; {commands[0]}")
    query = "SELECT count(*), sum(events), max(users), sum(revenue) FROM shop.daily"
    assert project.rows(query) == [(4, EVENTS, USERS, TOTAL)]
    return output


def transform_with_dbt(project: Project) -> str:
    folder = project.folder / "dbt"
    (folder / "models").mkdir(parents=True)
    page = named("integrations/dbt.md", "yaml")
    profile = (
        page["profiles.yml"].replace("database: analytics", "database: prod").replace("schema: shop", "schema: mart")
    )
    files = {"profiles.yml": profile, "dbt_project.yml": page["dbt_project.yml"]}
    files |= {"models/sources.yml": SOURCES, "models/totals.sql": TOTALS}
    for name, text in files.items():
        (folder / name).write_text(text)
    output = run_shell(f"cd dbt; {block('integrations/dbt.md', 'sh', 'dbt run')}")
    assert project.rows("FROM mart.totals") == [(EVENTS, USERS, TOTAL)]
    return output


def write_with_dagster(home: Path) -> dg.ExecuteInProcessResult:
    @dg.asset(key=["report", "summary"], ins={"totals": dg.AssetIn(["mart", "totals"])})
    def summary(totals: pl.DataFrame) -> pl.DataFrame:
        return totals.select(average=pl.col("revenue") / pl.col("events"), revenue="revenue")

    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home), {"telemetry": {"enabled": False}}) as instance:
        return dg.materialize(
            [summary, dg.AssetSpec(["mart", "totals"])],
            instance=instance,
            resources={"io_manager": LakeIOManager(store="prod")},
        )


def test_all_tools_share_one_store(server_project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    (server_project.folder / ".git").mkdir()  # the search for lakeconf.toml from the folders of the tools ends here
    homes = {name: server_project.folder.parent / name for name in ("dlt", "dagster")}
    output = load_with_dlt(server_project, homes["dlt"])
    output += transform_with_sqlmesh(server_project)
    output += transform_with_dbt(server_project)
    read = lakeconf.scan_polars("prod", "mart.totals").filter(pl.col("users") == USERS).select("revenue")
    assert read.collect().item() == TOTAL
    assert write_with_dagster(homes["dagster"]).success
    assert server_project.rows("FROM report.summary") == [(TOTAL / EVENTS, TOTAL)]
    shown = capfd.readouterr()
    server_project.assert_no_secret(*homes.values(), text=output + shown.out + shown.err)
