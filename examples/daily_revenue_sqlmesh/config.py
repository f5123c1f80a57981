"""SQLMesh's configuration: the lake is a store's name, and the state is in a database of its own."""

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
