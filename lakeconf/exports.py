"""The files with which other tools use stores: names of stores and of variables, never a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from lakeconf.config.model import Config
from lakeconf.errors import LakeconfError
from lakeconf.secret import Secret


class Export(NamedTuple):
    """A file for a tool.

    Attributes:
        file_name: What the tool wants it to be called.
        text: What it holds.
        notes: What the tool cannot do with these stores, or what it needs besides.
    """

    file_name: str
    text: str
    notes: Sequence[str] = ()


def export(config: Config, tool: str, *names: str) -> Export:
    """The file with which a tool uses stores.

    Args:
        config: The configuration.
        tool: One of `TOOLS`.
        *names: The stores; the default one unless given. The first is the one that the tool writes to.

    Returns:
        The file, and what cannot be said in it; comments at its top say so too.

    Raises:
        ConfigError: There is no such store, or, where its fields are needed, it is wrong.
        LakeconfError: The tool takes one store, a secret stands in the file itself, or there is no such tool.
    """
    if tool not in TOOLS:
        raise LakeconfError(f"there is no export for {tool!r}", hint=f"there are {', '.join(TOOLS)}")
    known = tuple(config.known(name) for name in names) or (config.known(None),)
    made = TOOLS[tool](config, known)
    mark = "--" if tool == "duckdb" else "#"
    head = [f"{mark} Made by `lakeconf export {' '.join((tool, *known))}`: names of stores and variables, no secret."]
    head += [f"{mark} {note}" for note in made.notes]
    return made._replace(text="\n".join(head) + "\n" + made.text)


def _sqlmesh(config: Config, names: Sequence[str]) -> Export:  # noqa: ARG001 - as all of them
    quoted = ", ".join(f'"{name}"' for name in names)
    text = f"""\
from sqlmesh.core.config import Config, DuckDBConnectionConfig, GatewayConfig, ModelDefaultsConfig

from lakeconf.integrations.sqlmesh import connection

config = Config(
    gateways={{
        "lake": GatewayConfig(
            connection=connection({quoted}),
            state_connection=DuckDBConnectionConfig(database="sqlmesh_state.db"),
        )
    }},
    model_defaults=ModelDefaultsConfig(dialect="duckdb", start="2024-01-01"),
)
"""
    return Export("config.py", text, ["A config.yaml cannot say this: keep the connection in Python."])


def _dbt(config: Config, names: Sequence[str]) -> Export:
    aliases = {one.name: one.alias for one in config.outline()}
    lines = [
        f'        - {{path: "ducklake:lakeconf_{name}", alias: {aliases[name]}, is_ducklake: true}}' for name in names
    ]
    attach = "\n".join(lines)
    text = f"""\
lakeconf:
  target: {names[0]}
  outputs:
    {names[0]}:
      type: duckdb
      path: ":memory:"
      database: {aliases[names[0]]}
      schema: main
      threads: 1
      plugins:
        - module: lakeconf.integrations.dbt
          config: {{stores: [{", ".join(names)}]}}
      attach:
{attach}
"""
    notes = ["threads: 1, since DuckLake damages memory where threads of one DuckDB write at once (ducklake#1248)."]
    return Export("profiles.yml", text, notes)


def _dlt(config: Config, names: Sequence[str]) -> Export:  # noqa: ARG001 - as all of them
    text = f"""\
import dlt

from lakeconf.integrations.dlt import destination

pipeline = dlt.pipeline("lake", destination=destination("{_one("dlt", names)}"), dataset_name="raw")
"""
    notes = [
        "config.toml and secrets.toml of dlt are not needed, and what they say of a destination has no effect.",
        f'A script that says destination="ducklake": python -m lakeconf.integrations.dlt {names[0]} python load.py',
    ]
    return Export("lake.py", text, notes)


def _dagster(config: Config, names: Sequence[str]) -> Export:  # noqa: ARG001 - as all of them
    name = _one("dagster", names)
    text = f"""\
from dagster import Definitions

from lakeconf.integrations.dagster import LakeIOManager, LakeResource

definitions = Definitions(
    assets=[],
    resources={{"io_manager": LakeIOManager(store="{name}"), "lake": LakeResource(store="{name}")}},
)
"""
    return Export("definitions.py", text, ["dagster-duckdb's resource takes a path, and a lake needs secrets."])


def _duckdb(config: Config, names: Sequence[str]) -> Export:
    statements = config.get_store(_one("duckdb", names)).preview_sql(portable=True)
    return Export("init.sql", "\n".join(statements) + "\n", ["Run it by: duckdb -init init.sql"])


def _spark(config: Config, names: Sequence[str]) -> Export:
    settings: dict[str, str] = {}
    notes = ["Hadoop puts in the variables; they are set where the driver and the executors run."]
    for name in names:
        found = _spark_settings(config, name)
        settings.update(found)
        if not found:
            notes.append(f"The store {name} is on local files, and needs no setting.")
    width = max(map(len, settings), default=0)
    text = "".join(f"{key:<{width}}  {value}\n" for key, value in sorted(settings.items()))
    return Export("spark-defaults.conf", text, notes)


def _spark_settings(config: Config, name: str) -> Mapping[str, str]:
    backend = config.get_store(name).storage_backend
    if backend is None:
        return {}
    reading = config.reading(name)
    # What came from a variable alone is written as that variable, secret or not.
    given = {_at(reading.values, path): one.variable for path, one in reading.origins.items() if one.kind == "variable"}
    settings = dict(backend.spark_packages())
    for key, value in backend.hadoop_settings().items():
        text = value.reveal() if isinstance(value, Secret) else value
        if text not in given and isinstance(value, Secret):
            raise LakeconfError(
                f"the store {name!r} has a secret in the file, which an export must not hold: {key}",
                hint="take it from a variable: ${…}",
            )
        settings[f"spark.hadoop.{key}"] = f"${{env.{given[text]}}}" if text in given else text
    return settings


def _at(values: Any, path: Sequence[str]) -> str:
    for part in path:
        values = values[part]
    return str(values)


def _one(tool: str, names: Sequence[str]) -> str:
    if len(names) > 1:
        raise LakeconfError(f"{tool} takes one store at a time", hint=f"name one of {', '.join(names)}")
    return names[0]


TOOLS: Mapping[str, Callable[[Config, Sequence[str]], Export]] = MappingProxyType(
    {"dagster": _dagster, "dbt": _dbt, "dlt": _dlt, "duckdb": _duckdb, "spark": _spark, "sqlmesh": _sqlmesh}
)
