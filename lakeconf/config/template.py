"""Generates a first configuration: one store, with variables for secrets."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from types import MappingProxyType

from lakeconf.backends.base import Backend
from lakeconf.backends.registry import metadata_backend, metadata_types, storage_backend, storage_types
from lakeconf.backends.secrecy import is_secret
from lakeconf.config.backend import field_types, typed
from lakeconf.config.codes import Code
from lakeconf.config.load_store import allowed_name
from lakeconf.config.model import validate
from lakeconf.config.structure import STORE_NAME
from lakeconf.config.toml_text import dotted, toml_value
from lakeconf.config.variables import variable_alone
from lakeconf.errors import LakeconfError, suggestion
from lakeconf.secret import Secret

DEFAULT_METADATA, DEFAULT_STORAGE = "sqlite", "local"
# The storage type of a store whose metadata backend stores the files.
NO_STORAGE = "none"
_COMMENTS = MappingProxyType(
    {
        "metadata_backend": "Where the catalog is: names of tables, snapshots, files.",
        "storage_backend": "Where the Parquet files are.",
    }
)


def first_configuration(store: str, metadata: str, storage: str | None, values: Mapping[tuple[str, str], str]) -> str:
    """The text of a lakeconf.toml with one store.

    Args:
        store: The name of the store.
        metadata: The type of the metadata backend.
        storage: The type of the storage backend; None if MotherDuck stores the files.
        values: Fields by section and name, such as `("storage_backend", "bucket")`. Other fields have defaults.

    Raises:
        LakeconfError: A name, a type or a field is invalid, a value is missing, or a secret is not a variable.
    """
    if not STORE_NAME.fullmatch(store):
        raise LakeconfError(f"invalid store name {store!r}", hint=f"write it as {allowed_name(store)}")
    kinds = {"metadata_backend": metadata, "storage_backend": storage}
    for section, name in values:
        if kinds.get(section) is None:
            raise LakeconfError(
                f"{section}.{name} cannot be set: the store has no {section}", hint=f"sections: {', '.join(kinds)}"
            )
    lines = [f'default_store = "{store}"']
    for section, kind in kinds.items():
        if kind is not None:
            given = {name: value for (part, name), value in values.items() if part == section}
            lines += ["", f"# {_COMMENTS[section]}", f"[stores.{store}.{section}]", *_backend(section, kind, given)]
    text = "\n".join(lines) + "\n"
    for problem in validate(tomllib.loads(text)):
        if problem.code != Code.UNSET_VARIABLE.code:
            raise LakeconfError(f"{problem.key}: {problem.message}", hint=problem.hint)
    return text


def _backend(section: str, kind: str, given: Mapping[str, str]) -> list[str]:
    """The lines of a backend's table."""
    known = metadata_types() if section == "metadata_backend" else storage_types()
    if kind not in known:
        hint = suggestion(kind, known, f"known types: {', '.join(known)}")
        raise LakeconfError(f"unknown type {kind!r} of {section}", hint=hint)
    if "type" in given:
        raise LakeconfError(f"{section}.type is already {kind}", hint="set it with --metadata and --storage")
    model = metadata_backend(kind) if section == "metadata_backend" else storage_backend(kind)
    template = model.init_template()
    fields = {**template.fields, **given}
    lines = [f'type = "{kind}"']
    for name, value in fields.items():
        text = _checked(section, model, name, value)
        allowed: set[type] = field_types(model, name) if name in model.model_fields else {str}
        lines.append(f"{dotted((name,))} = {toml_value(typed(text, allowed))}")
    if template.secret_parameters and not template.without_parameters & fields.keys():
        lines.append(f"secret_parameters = {toml_value(template.secret_parameters)}")
    return lines


def holds_secret(model: type[Backend], section: str, name: str) -> bool:
    """True if a field of a backend is a secret, by its type or its name."""
    return is_secret((section, name)) or (name in model.model_fields and Secret in field_types(model, name))


def _checked(section: str, model: type[Backend], name: str, value: str | None) -> str:
    if value is None:
        raise LakeconfError(f"{section}.{name} is missing", hint=f"--set {section}.{name}=…")
    if holds_secret(model, section, name) and variable_alone(value) is None:
        raise LakeconfError(
            f"{section}.{name} is a secret, so its value must not be in the file",
            hint=f"use a variable: --set '{section}.{name}=${{MY_{name.upper()}}}'",
        )
    return value
