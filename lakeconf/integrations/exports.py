"""The files with which other tools use stores: names of stores and of variables, never a value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from lakeconf.backends.secrecy import is_secret
from lakeconf.config.model import Config
from lakeconf.errors import LakeconfError
from lakeconf.logs import escaped
from lakeconf.secret import HiddenText, Secret, hidden


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
        LakeconfError: The tool takes one store, a secret stands in the file itself, two stores contradict each other,
            or there is no such tool.
    """
    if tool not in TOOLS:
        raise LakeconfError(f"there is no export for {tool!r}", hint=f"there are {', '.join(TOOLS)}")
    known = tuple(config.known(name) for name in names) or (config.known(None),)
    made = TOOLS[tool](config, known)
    mark = "--" if tool == "duckdb" else "#"
    head = [f"{mark} Made by `lakeconf export {' '.join((tool, *known))}`: names of stores and variables, no secret."]
    # A key of a table of the configuration may hold anything, and a line end would end the comment.
    made = made._replace(notes=[escaped(note) for note in made.notes])
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
    aliases = {name: _dbt_alias(config, name) for name in names}
    lines = [
        f'        - {{path: "ducklake:lakeconf_{name}", alias: {json.dumps(aliases[name])}, is_ducklake: true}}'
        for name in names
    ]
    attach = "\n".join(lines)
    text = f"""\
lakeconf:
  target: {json.dumps(names[0])}
  outputs:
    {json.dumps(names[0])}:
      type: duckdb
      path: ":memory:"
      database: {json.dumps(aliases[names[0]])}
      schema: main
      threads: 1
      plugins:
        - module: lakeconf.integrations.dbt
          config: {{stores: {json.dumps(list(names))}}}
      attach:
{attach}
"""
    notes = ["threads: 1, since DuckLake damages memory where threads of one DuckDB write at once (ducklake#1248)."]
    return Export("profiles.yml", text, notes)


def _dbt_alias(config: Config, name: str) -> str:
    """The alias of a store. dbt runs what stands between braces, so nothing but a plain name is written."""
    alias = next(one.alias for one in config.outline() if one.name == name) or name
    if "$" in alias:
        alias = config.get_store(name).alias
    if isinstance(alias, HiddenText) or not re.fullmatch(r"\w+", alias, re.ASCII):
        raise LakeconfError(
            f"the alias of the store {name!r} cannot be written for dbt",
            hint="an alias has letters, digits and underscores, and is not the value of a secret",
        )
    return alias


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
    name = _one("duckdb", names)
    store = config.get_store(name)
    notes = ["Run it by: duckdb -init init.sql"]
    if store.storage_backend is None or not store.spark_conf():
        notes.append("Paths are written in full: the file is for this folder alone.")
    notes += _written_out(config, name, "metadata_backend", "storage_backend")
    return Export("init.sql", "\n".join(store.preview_sql(portable=True)) + "\n", notes)


def _written_out(config: Config, name: str, *sections: str, but: str = "") -> list[str]:
    """Says which variables are written as their values, since they are no secrets."""
    variables = {
        one.variable: f"{one.variable} ({'.'.join(map(str, path))})"
        for path, one in config.reading(name).origins.items()
        if one.variable is not None and path[0] in sections and not is_secret(path) and path[-1] != but
    }
    return [f"Written as what they hold now: {', '.join(variables.values())}."] if variables else []


def _spark(config: Config, names: Sequence[str]) -> Export:
    settings: dict[str, str] = {}
    notes = ["Hadoop puts in the variables; they are set where the driver and the executors run."]
    for name in names:
        found = _spark_settings(config, name)
        differing = sorted(key for key in found if settings.get(key, found[key]) != found[key])
        if differing:
            raise LakeconfError(
                f"the store {name!r} has another value for {differing[0]} than a store before it on the same bucket",
                hint="export the stores one by one, for one application each",
            )
        settings.update(found)
        notes += _written_out(config, name, "storage_backend", but="key_id")
        if not found:
            notes.append(f"The store {name} is on local files, and needs no setting.")
    written = {_property(key, is_key=True): _property(value) for key, value in sorted(settings.items())}
    width = max(map(len, written), default=0)
    text = "".join(f"{key:<{width}}  {value}\n" for key, value in written.items())
    return Export("spark-defaults.conf", text, notes)


def _spark_settings(config: Config, name: str) -> Mapping[str, str]:
    backend = config.get_store(name).storage_backend
    if backend is None:
        return {}
    settings = dict(backend.spark_packages())
    for key, value in backend.hadoop_settings().items():
        # The name of a bucket is part of its settings' names.
        if isinstance(hidden(key, (*config.secrets, *backend.secrets_held())), HiddenText):
            raise LakeconfError(
                f"the store {name!r} has a bucket whose name holds a secret, which an export must not hold",
                hint="take the bucket's name from another variable than a secret",
            )
        settings[f"spark.hadoop.{key}"] = _reference(config, name, key, value)
    return settings


def _reference(config: Config, name: str, key: str, value: str | Secret) -> str:
    """A setting of Hadoop: a secret as the variable that holds it, anything else as it is."""
    key_id = config.reading(name).origins.get(("storage_backend", "key_id"))
    if not isinstance(value, Secret):
        return _clear(config, name, key, value)
    variable = value.variable
    if key.endswith("access.key") and key_id is not None:
        # S3A takes the id of the key for a secret as well; lakeconf.toml may hold it.
        if key_id.has_literal:
            return _clear(config, name, key, value.reveal())
        variable = key_id.variable
    if variable is None:
        raise LakeconfError(
            f"the store {name!r} has a secret that is not one variable alone, which an export must not hold: {key}",
            hint="take it from a variable: ${…}",
        )
    return f"${{env.{variable}}}"


def _clear(config: Config, name: str, key: str, value: str) -> str:
    """A setting that is no secret, unless its value is one elsewhere; Hadoop puts in what `${…}` names."""
    found = hidden(value, (*config.secrets, *config.get_store(name).secrets))
    if isinstance(found, HiddenText) and found.variable is not None:
        return f"${{env.{found.variable}}}"
    if isinstance(found, HiddenText) or "${" in value:
        why = "is a secret elsewhere" if isinstance(found, HiddenText) else "Hadoop would take for a variable"
        raise LakeconfError(f"the store {name!r} has a value that {why}, which an export must not hold: {key}")
    return value


def _property(text: str, *, is_key: bool = False) -> str:
    """A key or a value as a file of Java properties writes it.

    Source: https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Properties.html#load(java.io.Reader)
    """
    special = "\\ :=#!" if is_key else "\\"
    parts = [f"\\{one}" if one in special else one if " " <= one <= "~" else _java_escape(one) for one in text]
    # Space before a value is left out when it is read.
    return ("\\" if not is_key and text.startswith(" ") else "") + "".join(parts)


def _java_escape(character: str) -> str:
    encoded = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{encoded[start : start + 4]}" for start in range(0, len(encoded), 4))


def _one(tool: str, names: Sequence[str]) -> str:
    if len(names) > 1:
        raise LakeconfError(f"{tool} takes one store at a time", hint=f"name one of {', '.join(names)}")
    return names[0]


TOOLS: Mapping[str, Callable[[Config, Sequence[str]], Export]] = MappingProxyType(
    {"dagster": _dagster, "dbt": _dbt, "dlt": _dlt, "duckdb": _duckdb, "spark": _spark, "sqlmesh": _sqlmesh}
)
