# Made by `lakeconf export sqlmesh prod`: names of stores and variables, no secret.
# A config.yaml cannot say this: keep the connection in Python.
from sqlmesh.core.config import Config, DuckDBConnectionConfig, GatewayConfig, ModelDefaultsConfig

from lakeconf.integrations.sqlmesh import connection

config = Config(
    gateways={
        "lake": GatewayConfig(
            connection=connection("prod"),
            state_connection=DuckDBConnectionConfig(database="sqlmesh_state.db"),
        )
    },
    model_defaults=ModelDefaultsConfig(dialect="duckdb", start="2024-01-01"),
)
