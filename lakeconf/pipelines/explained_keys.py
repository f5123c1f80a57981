"""Explains the keys of `[pipeline]`: what each means, and the values of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from lakeconf.config.explain_key import KeyOrigin
from lakeconf.config.model import Config
from lakeconf.config.toml_text import toml_value
from lakeconf.errors import LakeconfError, suggestion
from lakeconf.pipelines.declaration import KEYS, TEST_KEYS, Declaration, keys_of
from lakeconf.pipelines.kinds import KINDS
from lakeconf.pipelines.places import dotted_key, key_place
from lakeconf.pipelines.schema import UNIT_TEST_KEYS
from lakeconf.secret import masked

_UNSET = "(not set)"


class ModelKey(NamedTuple):
    """The meaning of a key.

    Attributes:
        key: The key.
        kinds: The kinds of models that have it, as text.
        meaning: A sentence.
        example: The key with a value, as TOML.
    """

    key: str
    kinds: str
    meaning: str
    example: str


def model_keys() -> list[ModelKey]:
    """Returns the keys of models and of their unit tests, in the order of the reference."""
    found = []
    for key, (meaning, example) in KEYS.items():
        kinds = [kind for kind in KINDS if key in keys_of(kind)]
        every = "all kinds" if len(kinds) == len(KINDS) else ", ".join(kinds)
        found.append(ModelKey(key, every, meaning, f"{key} = {toml_value(example)}"))
    tests = ((key, meaning, example) for key, (meaning, example, _) in UNIT_TEST_KEYS.items())
    return found + [ModelKey(key, "unit test", meaning, f"{key} = {toml_value(one)}") for key, meaning, one in tests]


def described_keys(key: str) -> list[ModelKey]:
    """Returns what a key of `[pipeline]` means; several if models and unit tests have it, all for `pipeline`.

    Args:
        key: A key such as `time_column`, alone or after `pipeline.models.`; a kind of models; or `pipeline`.

    Raises:
        LakeconfError: The key does not exist.
    """
    every = model_keys()
    last = key.removeprefix("pipeline").removeprefix(".models").removeprefix(".")
    if last.removeprefix("tests.") in TEST_KEYS:
        name = last.removeprefix("tests.")
        meaning, example = TEST_KEYS[name]
        return [ModelKey(name, "tests of all kinds", meaning, f"tests = {{ {name} = {toml_value(example)} }}")]
    if last in ("", "tests"):
        return [one for one in every if last != "tests" or one.kinds == "unit test"]
    if last in KINDS:
        return [one for one in every if one.key in keys_of(last) and one.kinds != "unit test"]
    found = [one for one in every if one.key == last]
    if not found:
        known = {one.key: None for one in every} | dict.fromkeys((*KINDS, *TEST_KEYS))
        hint = suggestion(last, known, "run lakeconf explain pipeline, which lists the keys")
        raise LakeconfError(f"{key!r} is neither a code nor a key of a model", hint=hint)
    return found


def model_values(config: Config, key: str) -> list[KeyOrigin]:
    """Returns a key of a declared model with its value, or all keys of the model.

    Args:
        config: The configuration.
        key: The dotted key, such as `pipeline.models."raw.events".files`; the quotes are optional.

    Raises:
        LakeconfError: There is no such model in the file, or it does not have the key.
    """
    parts = [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|([^."]+)', key)][2:]
    models = config.pipeline.get("models", {})
    models = models if isinstance(models, Mapping) else {}
    tables = {name: table for name, table in models.items() if isinstance(table, Mapping)}
    for count in (1, 2):  # with quotes, and without
        name = ".".join(parts[:count])
        if name in tables:
            return _values(config, name, tables[name], parts[count:])
    hint = suggestion(name, tables, f"use one of: {', '.join(tables)}" if tables else "declare it in [pipeline.models]")
    raise LakeconfError(f"the file declares no model {name!r}", hint=hint)


def _values(config: Config, name: str, table: Mapping[str, Any], below: list[str]) -> list[KeyOrigin]:
    kind = table.get("kind", "full")
    known = keys_of(kind) if isinstance(kind, str) and kind in KINDS else tuple(Declaration.model_fields)
    place = ("pipeline", "models", name)
    found = []
    for key in known:
        origin = key_place(config, (*place, key)) if key in table else "not set"
        value = masked(toml_value(table[key]), config.secrets) if key in table else _UNSET
        if key == "kind" and key not in table:
            value, origin = "full", "the default"
        found.append(KeyOrigin(dotted_key(config, (*place, key)), value, origin, KEYS[key].meaning))
    if not below:
        return found
    if below[0] not in known:
        hint = suggestion(below[0], known, f"use one of: {', '.join(known)}")
        raise LakeconfError(f"the model {name} of kind {kind} has no key {below[0]!r}", hint=hint)
    return [found[known.index(below[0])]]
