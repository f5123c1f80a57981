"""Explains a store's keys: value, origin and description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lakeconf.backends.registry import metadata_backend, storage_backend
from lakeconf.backends.secrecy import holds_credentials, is_secret
from lakeconf.backends.store_options import COMMITTERS
from lakeconf.config.codes import Code
from lakeconf.config.config import Config
from lakeconf.config.read_store import Reading
from lakeconf.config.resolve import Origin, Path
from lakeconf.config.schema import json_schema
from lakeconf.errors import LakeconfError, suggestion
from lakeconf.secret import MASK, Secret, masked

_BACKENDS = {"metadata_backend": metadata_backend, "storage_backend": storage_backend}


class KeyOrigin(NamedTuple):
    """A key of a store."""

    key: str  # the dotted key
    value: str  # its value as text; `***` for a secret, `(not set)` without a value
    origin: str  # where the value came from, in words
    description: str  # what the key does


def explain_key(config: Config, key: str) -> list[KeyOrigin]:
    """Explains a key of a store, such as `prod.alias`, or every key of a table, or of the store."""
    name, *below = key.removeprefix("stores.").split(".")
    store = config.known(name)
    every = list(_keys(config, store))
    found = [one for path, one in every if list(path[: len(below)]) == below]
    if not found:
        known = {one.key for _, one in every}
        hint = suggestion(key, known, f"run lakeconf stores {store}, which lists its keys")
        raise LakeconfError(f"the store {store!r} has no key {key!r}", hint=hint)
    return found


def _keys(config: Config, store: str) -> Iterator[tuple[Path, KeyOrigin]]:
    """Yields all valid keys of the store, each with its path inside the store's table."""
    reading = config.reading(store)
    secrets = (*config.secrets, *(reading.store.secrets if reading.store is not None else ()))
    for path, description, default in _possible(reading):
        if path in reading.origins:
            text = _text(path, reading.value(path), secrets)
            value, origin = text, _origin(config, store, reading.origins[path])
        else:
            value, origin = ("(not set)", "not set") if default is None else (str(default), "the default")
        yield path, KeyOrigin(".".join(("stores", store, *path)), value, origin, description)


def _possible(reading: Reading) -> Iterator[tuple[Path, str, Any]]:
    """Yields the paths of keys with their descriptions and defaults."""
    definitions = json_schema()["$defs"]
    for name, default in (("extends", None), ("alias", None), ("committer", COMMITTERS[0])):
        yield (name,), definitions["store"]["properties"][name]["description"], default
    for section, find in _BACKENDS.items():
        kind = reading.value((section, "type"))
        properties = definitions.get(f"{section}.{kind}", {}).get("properties", {})
        fields = find(kind).model_fields if properties else {}
        for name, schema in properties.items():
            field = fields.get(name)
            default = None if field is None or field.is_required() or name == "type" else field.default
            yield (section, name), schema.get("description", ""), default
    for section in ("attach_options", "maintenance"):
        properties = definitions[section]["properties"]
        for name, schema in properties.items():
            yield (section, name), schema["description"], None
        for path in reading.origins:
            if len(path) == 2 and path[0] == section and path[1] not in properties:
                yield path, "Passed to the database of the catalog.", None


def _origin(config: Config, store: str, found: Origin) -> str:
    problem = config.problem(Code.WRONG_VALUE, "", found.place)
    place = "the configuration" if problem.file is None else f"{problem.file.name}:{problem.line}"
    words = {
        "literal": place,
        "variable": f"the variable {found.variable}, named in {place}",
        "default": f"the default in {place}, because the variable {found.variable} is not set",
        "mixed": f"{place}, with the variable {found.variable}",
    }[found.kind]
    parent = found.place[1] if len(found.place) > 1 else store
    return words if parent == store else f"{words}, inherited from stores.{parent}"


def _text(path: Path, value: Any, secrets: Sequence[Secret]) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_text((*path, name), item, secrets)}" for name, item in value.items())
    if isinstance(value, list) and not is_secret(path):
        return f"[{', '.join(_text(path, item, secrets) for item in value)}]"
    return MASK if is_secret(path) or holds_credentials(path[-1], str(value)) else masked(str(value), secrets)
