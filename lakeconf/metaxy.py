"""Takes over the DuckLake stores of a metaxy configuration."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakeconf.backends.base import is_secret_key
from lakeconf.config.codes import Code
from lakeconf.config.model import STORE_NAME, validate
from lakeconf.config.reading import allowed_name
from lakeconf.errors import LakeconfError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# metaxy has called them both ways.
_SECTIONS = {"metadata_backend": ("metadata_backend", "catalog"), "storage_backend": ("storage_backend", "storage")}
_TAKEN = {"alias", "attach_options", *(name for names in _SECTIONS.values() for name in names)}


@dataclass
class Imported:
    """A lakeconf.toml made of another configuration.

    Attributes:
        text: The file.
        notes: What was left out or replaced, and what is still to be done.
    """

    text: str = ""
    notes: list[str] = field(default_factory=list)


def from_metaxy(path: str | os.PathLike[str]) -> Imported:
    """The stores of a metaxy.toml as a lakeconf.toml; no secret is copied.

    Args:
        path: The metaxy.toml.

    Raises:
        LakeconfError: It cannot be read, is not TOML, or has no DuckLake store.
    """
    data = _read(Path(path))
    imported = Imported()
    stores = data.get("stores")
    lines: list[str] = []
    names = []
    for name, store in (stores if isinstance(stores, Mapping) else {}).items():
        lake = _ducklake(store)
        if lake is None:
            imported.notes.append(f"stores.{name} is no DuckLake store, and was left out")
            continue
        allowed = name if STORE_NAME.fullmatch(name) else allowed_name(name)
        if allowed != name:
            imported.notes.append(f"stores.{name} is called {allowed} now: small letters, digits and underscores")
        names.append(allowed)
        lines += _store(allowed, lake, imported)
        imported.notes += [
            f"stores.{name}.config.{key} has no meaning for a lake" for key in store["config"] if key != "ducklake"
        ]
    if not names:
        raise LakeconfError(f"{path} has no DuckLake store", hint="one has a table [stores.<name>.config.ducklake]")
    imported.notes += [f"{key} is metaxy's own" for key in data if key not in ("store", "stores")]
    default = data.get("store", "dev" if "dev" in names else names[0])
    head = [f"default_store = {json.dumps(default)}"] if len(names) > 1 and default in names else []
    imported.text = "\n".join([*head, *lines]).lstrip("\n") + "\n"
    found = validate(tomllib.loads(imported.text))
    imported.notes += [f"to be mended: {one}" for one in found if one.code != Code.UNSET_VARIABLE.code]
    return imported


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LakeconfError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise LakeconfError(f"{path} is not TOML: {error}") from error


def _ducklake(store: object) -> Mapping[str, Any] | None:
    config = store.get("config") if isinstance(store, Mapping) else None
    lake = config.get("ducklake") if isinstance(config, Mapping) else None
    return lake if isinstance(lake, Mapping) else None


def _store(name: str, lake: Mapping[str, Any], imported: Imported) -> Iterator[str]:
    imported.notes += [f"stores.{name}: ducklake.{key} has no meaning here" for key in lake if key not in _TAKEN]
    yield ""
    if "alias" in lake:
        yield f"[stores.{name}]"
        yield f"alias = {_value(lake['alias'])}"
        yield ""
    for section, spellings in _SECTIONS.items():
        found = next((lake[one] for one in spellings if isinstance(lake.get(one), Mapping)), None)
        if found is not None:
            yield f"[stores.{name}.{section}]"
            for key, value in found.items():
                yield f"{key} = {_value(_without_secrets(value, key, (name, section), imported))}"
            yield ""
    if lake.get("attach_options"):
        yield f"[stores.{name}.attach_options]"
        for key, value in lake["attach_options"].items():
            yield f"{key} = {_value(_without_secrets(value, key, (name, 'attach_options'), imported))}"
        yield ""


def _without_secrets(value: Any, key: str, place: tuple[str, ...], imported: Imported) -> Any:
    """A value in which variables stand for secrets that are written out."""
    if isinstance(value, Mapping):
        return {name: _without_secrets(item, name, (*place, key), imported) for name, item in value.items()}
    if not is_secret_key(key) or not isinstance(value, str) or "${" in value:
        return value
    variable = "_".join((place[0], place[1].removesuffix("_backend"), key)).upper()
    imported.notes.append(f"the secret {'.'.join((*place, key))} was not copied: export {variable}=…")
    return f"${{{variable}}}"


def _value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool | int | float) else str(value)
