"""docs/integrations/dbt.md: a dbt project with a profile for two stores."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from doc_pages import block, named
from shell import run_shell

from lakeconf.errors import LakeconfError
from lakeconf.integrations.dbt import Plugin

if TYPE_CHECKING:
    from pathlib import Path

    from server_project import Project

PAGE = "integrations/dbt.md"
EVENTS = """
    CREATE SCHEMA raw;
    CREATE TABLE raw.events AS SELECT * FROM (VALUES
        (1, 'purchase', TIMESTAMP '2024-01-01 10:00:00', 29.99::DECIMAL(10, 2)),
        (2, 'login', TIMESTAMP '2024-01-01 11:00:00', NULL)
    ) AS t(user_id, event_type, event_timestamp, revenue)
"""
DAILY = "SELECT event_date::VARCHAR, users, revenue FROM shop.daily_revenue ORDER BY 1"


def write_project(folder: Path) -> None:
    (folder / "models").mkdir()
    for name, text in (named(PAGE, "yaml") | named(PAGE, "sql")).items():
        (folder / name).write_text(text)


@pytest.mark.slow
def test_incremental_model_on_two_stores(server_project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    server_project.rows(EVENTS)
    write_project(server_project.folder)
    output = run_shell(block(PAGE, "sh", "dbt run"))
    assert server_project.rows(DAILY, "analytics") == [("2024-01-01", 2, Decimal("29.99"))]
    server_project.rows("INSERT INTO raw.events VALUES (1, 'purchase', '2024-01-02 09:00:00', 10)")
    output += run_shell(block(PAGE, "sh", "dbt run"))
    second = ("2024-01-02", 1, Decimal("10.00"))
    assert server_project.rows(DAILY, "analytics") == [("2024-01-01", 2, Decimal("29.99")), second]
    assert (server_project.folder / "logs" / "dbt.log").stat().st_size > 0
    server_project.assert_no_secret(text=output)
    monkeypatch.setenv("LAKE_PG_PASSWORD", "planted-hunter2")
    server_project.secrets["planted"] = "planted-hunter2"
    output = run_shell("! " + block(PAGE, "sh", "dbt run"))
    assert "password authentication failed" in output
    server_project.assert_no_secret(text=output)


def test_invalid_plugin_configuration_is_refused() -> None:
    configs: list[dict[str, object]] = [{}, {"stores": "prod"}, {"stores": []}, {"stores": ["prod"], "store": "x"}]
    for config in configs:
        with pytest.raises(LakeconfError, match="plugin lakeconf"):
            Plugin("lakeconf", config)
