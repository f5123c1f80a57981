"""The values of a store, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lakeconf.backends.secrecy import holds_credentials, is_secret
from lakeconf.config.config import Config
from lakeconf.config.resolve import Origin, Path
from lakeconf.config.schema import json_schema
from lakeconf.secret import MASK, Secret, masked
from lakeconf.store import Store


class StoreValue(NamedTuple):
    """A key of a store."""

    key: str  # the dotted key
    value: str  # its value as text; `***` for a secret
    origin: str  # where the value came from, in words


def store_values(config: Config, name: str) -> list[StoreValue]:
    """The values of a store without problems: nothing masks the value of a misspelt key. Then the keys not set."""
    store, reading = config.get_store(name), config.reading(name)
    values = [
        StoreValue(".".join(path), _text(path, value, store.secrets), _origin(config, name, origin))
        for path, origin in reading.origins.items()
        if not isinstance(value := reading.value(path), Mapping)
    ]
    prefixes = tuple(".".join((*path, "")) for path in reading.origins)
    unset = [
        possible for possible in _possible(store) if not any(key.startswith(f"{possible[0]}.") for key in prefixes)
    ]
    return values + [StoreValue(key, default, "not set") for key, default in unset]


def _possible(store: Store) -> Iterator[tuple[str, str]]:
    """Every key of a store, with its default."""
    tables = json_schema()["$defs"]
    for name in tables["store"]["properties"]:
        backend = getattr(store, name, None) if name in ("metadata_backend", "storage_backend") else None
        definition = f"{name}.{backend.type}" if backend is not None else name
        fields = {} if backend is None else type(backend).model_fields
        for key in tables.get(definition, {}).get("properties", {}):
            default = fields[key].default if key in fields and not fields[key].is_required() else None
            yield f"{name}.{key}", "" if default is None else str(default)
        if definition not in tables:
            yield name, ""


def _origin(config: Config, store: str, origin: Origin) -> str:
    problem = config.place(origin.place)
    place = "the configuration" if problem.file is None else f"{problem.file.name}:{problem.line}"
    words = {
        "literal": place,
        "variable": f"the variable {origin.variable}, named in {place}",
        "default": f"the default in {place}, because the variable {origin.variable} is not set",
        "mixed": f"{place}, with the variable {origin.variable}",
    }[origin.kind]
    parent = origin.place[1]
    return words if parent == store else f"{words}, inherited from stores.{parent}"


def _text(path: Path, value: Any, secrets: Sequence[Secret]) -> str:
    if isinstance(value, list) and not is_secret(path):
        return f"[{', '.join(_text(path, item, secrets) for item in value)}]"
    return MASK if is_secret(path) or holds_credentials(path[-1], str(value)) else masked(str(value), secrets)
