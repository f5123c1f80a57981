"""Applies environment variables that override keys: `LAKECONF_STORES__PROD__METADATA_BACKEND__HOST=…`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeconf.config.codes import Code
from lakeconf.config.file import LOCATION_VARIABLE, Source, Table
from lakeconf.config.toml_text import dotted
from lakeconf.config.variables import Environment
from lakeconf.errors import Problem, suggestion
from lakeconf.secret import FromVariable

PREFIX = "LAKECONF_"
_DEFAULT_STORE = f"{PREFIX}DEFAULT_STORE"


def overridden(source: Source, environment: Environment) -> tuple[Table, list[Problem]]:
    """Returns the configuration with overrides from the environment applied.

    Args:
        source: The content of the file; it is not changed.
        environment: The environment variables.

    Returns:
        The data, in which each override is a `FromVariable`, and the problems.
    """
    data: Table = source.data
    problems: list[Problem] = []
    for variable in overrides(environment):
        if variable == _DEFAULT_STORE:
            data = {**data, "default_store": FromVariable(environment[variable], variable)}
            continue
        keys = variable[len(PREFIX) :].lower().split("__")
        fault = _fault(keys, data)
        if fault is None:
            value = FromVariable(environment[variable], variable)
            try:
                data = _with(data, keys, value)
            except TypeError as error:
                fault = str(error), "override a single key"
        if fault is not None:
            message, hint = fault
            problems.append(source.problem(Code.OVERRIDE, f"the variable {variable} {message}", hint=hint))
    return data, problems


def overrides(environment: Environment) -> tuple[str, ...]:
    """Returns the names of the variables that override keys; excludes other `LAKECONF_…` variables."""
    ours = (name for name in environment if name.startswith(PREFIX) and name != LOCATION_VARIABLE)
    return tuple(sorted(name for name in ours if name == _DEFAULT_STORE or "__" in name[len(PREFIX) :]))


def _fault(keys: list[str], data: Table) -> tuple[str, str] | None:
    """Returns the problem with a variable's name and a hint, or None if the name is valid."""
    form = f"use {PREFIX}STORES__<store>__<key>, with two underscores between keys"
    stores = data.get("stores")
    if keys[0] != "stores" or len(keys) < 3 or "" in keys:
        return "does not override a key", form
    if not isinstance(stores, Mapping) or keys[1] not in stores:
        names = list(stores) if isinstance(stores, Mapping) else []
        hint = suggestion(
            keys[1], names, f"use one of the stores: {', '.join(names)}" if names else "declare the store in the file"
        )
        return f"overrides a key of the unknown store {keys[1]!r}", hint
    return None


def _with(table: Table, keys: list[str], value: FromVariable, above: tuple[str, ...] = ()) -> Table:
    # Variable names ignore case, keys may not: match KMS_KEY_ID in the file, too.
    key = next((known for known in table if known.lower() == keys[0]), keys[0])
    inner = table.get(key)
    path = dotted((*above, key))
    changed: Any = value
    if len(keys) > 1:
        if inner is not None and not isinstance(inner, Mapping):
            raise TypeError(f"overrides a key below {path}, which is not a table")
        changed = _with(inner or {}, keys[1:], value, (*above, key))
    elif isinstance(inner, Mapping):
        raise TypeError(f"overrides {path}, which is a table")
    return {**table, key: changed}
