# Made by `lakeconf export dagster prod`: names of stores and variables, no secret.
# dagster-duckdb's resource takes a path, and a lake needs secrets.
from dagster import Definitions

from lakeconf.integrations.dagster import LakeIOManager, LakeResource

definitions = Definitions(
    assets=[],
    resources={"io_manager": LakeIOManager(store="prod"), "lake": LakeResource(store="prod")},
)
