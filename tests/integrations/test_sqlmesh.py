"""docs/integrations/sqlmesh.md: a SQLMesh project with a gateway for two stores."""

from __future__ import annotations

import traceback
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import pytest
from doc_pages import block, named
from shell import run_shell
from sqlmesh.core.config import DuckDBConnectionConfig

from lakeconf.errors import ConfigError, ConnectionFailed
from lakeconf.integrations.sqlmesh import connection

if TYPE_CHECKING:
    from pathlib import Path

    from server_project import Project

PAGE = "integrations/sqlmesh.md"
EVENTS = """
    CREATE SCHEMA raw;
    CREATE TABLE raw.events AS SELECT * FROM (VALUES
        (1, 'purchase', TIMESTAMP '2024-01-01 10:00:00', 29.99::DECIMAL(10, 2)),
        (2, 'login', TIMESTAMP '2024-01-01 11:00:00', NULL),
        (1, 'purchase', TIMESTAMP '2024-01-02 12:00:00', 29.99)
    ) AS t(user_id, event_type, event_timestamp, revenue)
"""


def write_project(folder: Path) -> None:
    (folder / "models").mkdir()
    for name, text in (named(PAGE, "python") | named(PAGE, "sql")).items():
        (folder / name).write_text(text)


@pytest.mark.slow
def test_plan_and_run_on_two_stores(server_project: Project) -> None:
    server_project.rows(EVENTS)
    write_project(server_project.folder)
    output = run_shell(block(PAGE, "sh", "sqlmesh plan"))
    found = server_project.rows(
        "SELECT event_date::VARCHAR, users, revenue FROM shop.daily_revenue ORDER BY 1", "analytics"
    )
    assert found == [("2024-01-01", 2, Decimal("29.99")), ("2024-01-02", 1, Decimal("29.99"))]
    assert (server_project.folder / "sqlmesh_state.db").exists()
    server_project.assert_no_secret(text=output)


def test_connection_is_a_duckdb_connection_of_sqlmesh(project: Path) -> None:
    made = connection("dev")
    assert isinstance(made, DuckDBConnectionConfig)
    assert made.get_catalog() == "dev"
    adapter = made.create_engine_adapter()
    assert adapter.fetchone("SELECT current_database()") == ("dev",)
    with duckdb.connect() as instance:
        for _ in range(2):
            cursor = instance.cursor()
            made._cursor_init(cursor)
            assert cursor.execute("SELECT current_database()").fetchone() == ("dev",)
    adapter.close()


def test_connection_and_its_errors_show_no_secrets(server_project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    made = connection("prod", "analytics", config=server_project.folder)
    shown = f"{made!r}{made.json()}{made.dict()}"
    assert "prod" in shown
    server_project.assert_no_secret(text=shown)
    with pytest.raises(ConfigError, match="unknown store 'prd'"):
        connection("prd").create_engine_adapter()
    monkeypatch.setenv("LAKE_PG_PASSWORD", "planted-hunter2")
    with pytest.raises(ConnectionFailed, match="password authentication failed") as caught:
        connection("prod").create_engine_adapter().fetchone("SELECT 1")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
