"""Generates a first configuration of one store, or adds a store to a configuration; secrets are variables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from types import MappingProxyType

from lakeconf.backends.backend import Backend
from lakeconf.backends.registry import metadata_backend, metadata_types, storage_backend, storage_types
from lakeconf.backends.secrecy import is_secret
from lakeconf.config.backend_tables import field_types, typed
from lakeconf.config.codes import Code
from lakeconf.config.config import validate
from lakeconf.config.environment import variable_alone
from lakeconf.config.file import Table
from lakeconf.config.read_store import STORE_NAME, allowed_name
from lakeconf.config.toml_text import dotted, toml_value
from lakeconf.errors import LakeconfError, suggestion
from lakeconf.secret import Secret

DEFAULT_METADATA, DEFAULT_STORAGE = "sqlite", "local"
# The storage type of a store whose metadata backend stores the files.
NO_STORAGE = "none"
# The folder of local catalogs and files, relative to the configuration file.
LOCAL_FOLDER = ".lakeconf/"
_COMMENTS: Mapping[str, str] = MappingProxyType(
    {
        "metadata_backend": "Where the catalog is: names of tables, snapshots, files.",
        "storage_backend": "Where the Parquet files are.",
    }
)


def first_configuration(store: str, metadata: str, storage: str | None, values: Mapping[tuple[str, str], str]) -> str:
    """The text of a lakeconf.toml with one store."""
    text = f'default_store = "{store}"\n' + _tables(store, metadata, storage, values)
    _check(tomllib.loads(text), {})
    return text


def with_store(text: str, store: str, metadata: str, storage: str | None, values: Mapping[tuple[str, str], str]) -> str:
    """The text of a lakeconf.toml with one more store. The rest of the text stays as it is.

    If the file has one store and no `default_store`, that store becomes the default.
    """
    before = tomllib.loads(text)
    found = before.get("stores")
    declared = found if isinstance(found, Mapping) else {}
    if store in declared:
        raise LakeconfError(f"the file already declares the store {store!r}", hint="choose a name with --store")
    tables = _tables(store, metadata, storage, values, folder=f"{LOCAL_FOLDER}{store}/")
    start, wanted = "", dict(before)
    if len(declared) == 1 and "default_store" not in before:
        (wanted["default_store"],) = declared
        start = f"default_store = {toml_value(wanted['default_store'])}\n\n"
    wanted["stores"] = {**declared, **tomllib.loads(tables)["stores"]}
    line_end = "\r\n" if "\r\n" in text else "\n"
    made = start.replace("\n", line_end) + text.rstrip() + (line_end + tables.replace("\n", line_end))
    try:
        is_extended = tomllib.loads(made) == wanted
    except tomllib.TOMLDecodeError:
        is_extended = False
    if not is_extended:
        hint = "write each store as a table: [stores.dev.metadata_backend]"
        raise LakeconfError("a store cannot be added to this file: its `stores` are not tables", hint=hint)
    _check(wanted, before)
    return made


def _tables(
    store: str, metadata: str, storage: str | None, values: Mapping[tuple[str, str], str], folder: str = LOCAL_FOLDER
) -> str:
    """The tables of a store, after an empty line each."""
    if not STORE_NAME.fullmatch(store):
        raise LakeconfError(f"invalid store name {store!r}", hint=f"write it as {allowed_name(store)}")
    kinds = {"metadata_backend": metadata, "storage_backend": storage}
    for section, name in values:
        if kinds.get(section) is None:
            raise LakeconfError(
                f"{section}.{name} cannot be set: the store has no {section}",
                hint=f"use one of the sections: {', '.join(kinds)}",
            )
    lines = []
    for section, kind in kinds.items():
        if kind is not None:
            given = {name: value for (part, name), value in values.items() if part == section}
            backend = _backend(section, kind, given, folder)
            lines += ["", f"# {_COMMENTS[section]}", f"[stores.{store}.{section}]", *backend]
    return "\n".join(lines) + "\n"


def _check(data: Table, before: Table) -> None:
    """Raises if a configuration has problems that it did not have before, except variables that are not set."""
    known = {(problem.code, problem.key, problem.message) for problem in (validate(before) if before else ())}
    for problem in validate(data):
        is_new = (problem.code, problem.key, problem.message) not in known
        if is_new and problem.code != Code.UNSET_VARIABLE.code:
            raise LakeconfError(f"{problem.key}: {problem.message}", hint=problem.hint)


def _backend(section: str, kind: str, given: Mapping[str, str], folder: str) -> list[str]:
    """The lines of a backend's table."""
    known = metadata_types() if section == "metadata_backend" else storage_types()
    if kind not in known:
        hint = suggestion(kind, known, f"use one of: {', '.join(known)}")
        raise LakeconfError(f"unknown type {kind!r} of {section}", hint=hint)
    if "type" in given:
        raise LakeconfError(f"{section}.type is already {kind}", hint="set it with --metadata and --storage")
    model = metadata_backend(kind) if section == "metadata_backend" else storage_backend(kind)
    template = model.init_template()
    fields = {name: value and _below(folder, value) for name, value in template.fields.items()} | dict(given)
    lines = [f'type = "{kind}"']
    for name, value in fields.items():
        text = _checked(section, model, name, value)
        allowed: set[type] = field_types(model, name) if name in model.model_fields else {str}
        lines.append(f"{dotted((name,))} = {toml_value(typed(text, allowed))}")
    if template.secret_parameters and not template.without_parameters & fields.keys():
        lines.append(f"secret_parameters = {toml_value(template.secret_parameters)}")
    return lines


def _below(folder: str, value: str) -> str:
    """A default in the folder of the store, if it is a path in the folder of local lakes."""
    return folder + value.removeprefix(LOCAL_FOLDER) if value.startswith(LOCAL_FOLDER) else value


def _checked(section: str, model: type[Backend], name: str, value: str | None) -> str:
    if value is None:
        meaning = (model.model_fields[name].description or name).rstrip(".")
        raise LakeconfError(f"{section}.{name} is missing", hint=f"pass --set {section}.{name}=… ({meaning})")
    is_hidden = is_secret((section, name)) or (name in model.model_fields and Secret in field_types(model, name))
    if is_hidden and variable_alone(value) is None:
        raise LakeconfError(
            f"{section}.{name} is a secret, so its value must not be in the file",
            hint=f"use a variable: --set '{section}.{name}=${{MY_{name.upper()}}}'",
        )
    return value
