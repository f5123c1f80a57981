"""docs/integrations/sqlmesh.md: a SQLMesh project with a gateway for two stores; and one on the catalog of Spark."""

from __future__ import annotations

import traceback
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import pytest
from doc_pages import block, named
from shell import run_shell

import lakeconf
from lakeconf.errors import ConfigError, ConnectionFailed
from lakeconf.integrations.sqlmesh import LakeConnectionConfig, connection

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
    assert isinstance(made, LakeConnectionConfig)
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


SPARK_FILES = {
    "models/orders.sql": """
        MODEL (name shop.orders, kind SEED (path '../seeds/orders.csv'),
          columns (id INT, customer TEXT, price INT, day DATE));
    """,
    "models/priced.sql": """
        MODEL (name shop.priced, kind FULL, audits (not_null(columns := (id)), unique_values(columns := (id))));
        SELECT id, CAST(price AS DECIMAL(9, 2)) AS price FROM shop.orders
    """,
    "models/daily.sql": """
        MODEL (name shop.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT count(*) AS orders, day FROM shop.orders WHERE day BETWEEN @start_date AND @end_date GROUP BY day
    """,
    "models/spent.sql": """
        MODEL (name shop.spent, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key customer));
        SELECT customer, sum(price) AS spent FROM shop.orders GROUP BY customer
    """,
    "models/parts.sql": """
        MODEL (name shop.parts, kind INCREMENTAL_BY_PARTITION, partitioned_by (customer));
        SELECT customer, id FROM shop.orders
    """,
    "models/history.sql": """
        MODEL (name shop.history, kind SCD_TYPE_2_BY_COLUMN (unique_key customer, columns [spent]));
        SELECT customer, spent FROM shop.spent
    """,
}
ORDERS = "id,customer,price,day\n1,ann,10,2024-01-01\n2,bob,20,2024-01-02\n3,ann,30,2024-01-02\n"
ON_SPARK = {
    "SELECT id, price::INTEGER FROM shop.priced": [(1, 10), (2, 20), (3, 30)],
    "SELECT orders, day::VARCHAR FROM shop.daily": [(1, "2024-01-01"), (2, "2024-01-02")],
    "SELECT customer, spent FROM shop.spent": [("ann", 40), ("bob", 20)],
    "SELECT customer, id FROM shop.parts": [("ann", 1), ("ann", 3), ("bob", 2)],
    "SELECT customer, spent, valid_to IS NULL FROM shop.history": [("ann", 40, True), ("bob", 20, True)],
}


@pytest.mark.slow
@pytest.mark.prove  # tests/lake/test_named_writes.py has its statements
def test_two_plans_on_the_catalog_of_spark(project: Path) -> None:
    files = SPARK_FILES | {"seeds/orders.csv": ORDERS} | named("spark-sql.md", "yaml")
    for name, text in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    run_shell(block("spark-sql.md", "sh", "lakeconf export spark"))
    plan = "SQLMESH__DISABLE_ANONYMIZED_ANALYTICS=true SPARK_CONF_DIR=conf sqlmesh plan --auto-apply --no-prompts"
    run_shell(plan)
    lake = lakeconf.init().get_store("dev")
    with lake.connect() as connection:
        rows = {query: connection.execute(f"{query} ORDER BY ALL").fetchall() for query in ON_SPARK}
    assert rows == ON_SPARK
    # SQLMesh decides which rows it computes again; to build all of them, it overwrites the table.
    priced = project / "models" / "priced.sql"
    priced.write_text(priced.read_text().replace("AS price", "AS price, price * 2 AS double"))
    run_shell(plan)
    run_shell(f"{plan} --restate-model shop.priced")
    with lake.connect() as connection:
        rows = {"double": connection.execute("SELECT double FROM shop.priced ORDER BY ALL").fetchall()}
    assert rows == {"double": [(20,), (40,), (60,)]}
    failed = run_shell(f"! ({plan.replace('plan', 'plan dev')} --include-unmodified)")  # it needs views
    assert "Execution failed for node" in failed
