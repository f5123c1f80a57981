"""SQLMesh configuration: the lake is the name of a store, and SQLMesh keeps its state in a separate database."""

from __future__ import annotations

from sqlmesh.core.config import Config, DuckDBConnectionConfig, GatewayConfig, ModelDefaultsConfig

from lakeconf.integrations.sqlmesh import connection

config = Config(
    gateways={
        "lake": GatewayConfig(
            connection=connection("shop"),
            state_connection=DuckDBConnectionConfig(database=".lakeconf/sqlmesh_state.db"),
        )
    },
    model_defaults=ModelDefaultsConfig(dialect="duckdb", start="2024-01-01"),
)
