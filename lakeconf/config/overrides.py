"""Keys that the environment gives in place of the file: `LAKECONF_STORES__PROD__METADATA_BACKEND__HOST=…`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeconf.config.codes import Code
from lakeconf.config.file import LOCATION_VARIABLE, Source, Table, dotted
from lakeconf.errors import Problem, suggestion
from lakeconf.secret import FromVariable

PREFIX = "LAKECONF_"
_DEFAULT_STORE = f"{PREFIX}DEFAULT_STORE"


def overridden(source: Source, environment: Mapping[str, str]) -> tuple[Table, list[Problem]]:
    """The configuration with the keys that the environment gives, as though they stood in the file.

    Args:
        source: What the file says; it is not changed.
        environment: The variables, by name.

    Returns:
        The data, in which a `FromVariable` is an override, and what does not fit.
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
                fault = str(error), "name a single key"
        if fault is not None:
            message, hint = fault
            problems.append(source.problem(Code.OVERRIDE, f"the variable {variable} {message}", hint=hint))
    return data, problems


def overrides(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the variables that override keys; `LAKECONF_SOMETHING` is of another form, and not among them."""
    ours = (name for name in environment if name.startswith(PREFIX) and name != LOCATION_VARIABLE)
    return tuple(sorted(name for name in ours if name == _DEFAULT_STORE or "__" in name[len(PREFIX) :]))


def _fault(keys: list[str], data: Table) -> tuple[str, str] | None:
    """What is wrong with the name of a variable, and a hint."""
    form = f"the form is {PREFIX}STORES__<store>__<key>, with two underscores between keys"
    stores = data.get("stores")
    if keys[0] != "stores" or len(keys) < 3 or "" in keys:
        return "overrides no key", form
    if not isinstance(stores, Mapping) or keys[1] not in stores:
        names = list(stores) if isinstance(stores, Mapping) else []
        hint = suggestion(keys[1], names, f"there are: {', '.join(names) or 'none'}")
        return f"overrides a key of the store {keys[1]!r}, which does not exist", hint
    return None


def _with(table: Table, keys: list[str], value: FromVariable, above: tuple[str, ...] = ()) -> Table:
    # The names of variables know no case, keys may: KMS_KEY_ID in the file is the same key.
    key = next((known for known in table if known.lower() == keys[0]), keys[0])
    inner = table.get(key)
    path = dotted((*above, key))
    changed: Any = value
    if len(keys) > 1:
        if inner is not None and not isinstance(inner, Mapping):
            raise TypeError(f"goes below {path}, which is no table")
        changed = _with(inner or {}, keys[1:], value, (*above, key))
    elif isinstance(inner, Mapping):
        raise TypeError(f"names {path}, which is a table")
    return {**table, key: changed}
