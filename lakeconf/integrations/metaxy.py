"""Converts the DuckLake stores of a metaxy configuration to lakeconf.toml."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakeconf.backends.registry import metadata_backend, storage_backend
from lakeconf.backends.secrecy import holds_credentials, is_secret
from lakeconf.config.codes import Code
from lakeconf.config.load_store import allowed_name
from lakeconf.config.model import validate
from lakeconf.config.structure import STORE_NAME
from lakeconf.config.toml_text import dotted, toml_value
from lakeconf.config.variables import variable_alone
from lakeconf.errors import LakeconfError

# metaxy has used both spellings.
_SECTIONS = {"metadata_backend": ("metadata_backend", "catalog"), "storage_backend": ("storage_backend", "storage")}
_TAKEN = {"alias", "attach_options", *(name for names in _SECTIONS.values() for name in names)}


@dataclass
class Imported:
    """A lakeconf.toml converted from another configuration.

    Attributes:
        text: The content of the file.
        notes: Omitted and replaced settings, and remaining steps.
        types: The backend types of the store that is being converted, by section.
    """

    text: str = ""
    notes: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)


def from_metaxy(path: str | os.PathLike[str]) -> Imported:
    """Converts the stores of a metaxy.toml to a lakeconf.toml without copying secrets.

    Args:
        path: The metaxy.toml.

    Raises:
        LakeconfError: The file cannot be read, is not valid TOML, or has no DuckLake store.
    """
    data = _read(Path(path))
    imported = Imported()
    stores = data.get("stores")
    stores = stores if isinstance(stores, Mapping) else {}
    lines: list[str] = []
    names: dict[str, str] = {}
    for name, store in stores.items():
        lake = _ducklake(store)
        if lake is None:
            imported.notes.append(f"stores.{name} is not a DuckLake store and was omitted")
            continue
        allowed = _free_name(name, [*names.values(), *(other for other in stores if other != name)])
        if allowed != name:
            imported.notes.append(f"stores.{name} was renamed to {allowed}: lower-case letters, digits, underscores")
        names[name] = allowed
        lines += _store(allowed, lake, imported)
        imported.notes += [
            f"stores.{name}.config.{key} does not apply to a lake" for key in store["config"] if key != "ducklake"
        ]
    if not names:
        raise LakeconfError(
            f"{path} has no DuckLake store", hint="name a file with a DuckLake store: [stores.<name>.config.ducklake]"
        )
    imported.notes += [f"{key} applies to metaxy only" for key in data if key not in ("store", "stores")]
    default = data.get("store", "dev" if "dev" in names else next(iter(names)))
    if default not in names:
        imported.notes.append(f"the default store {default} was not converted")
    elif len(names) > 1:
        lines = [f'default_store = "{names[default]}"', *lines]
    text = "\n".join(lines).lstrip("\n") + "\n"
    found = validate(tomllib.loads(text))
    imported.notes += [f"to fix: {one}" for one in found if one.code != Code.UNSET_VARIABLE.code]
    imported.text = "".join(f"# {' '.join(note.split())}\n" for note in imported.notes) + text
    return imported


def _free_name(name: str, taken: Collection[str]) -> str:
    """Returns the name if it is valid, else a similar valid name that no other store has."""
    allowed = name if STORE_NAME.fullmatch(name) else allowed_name(name)
    if allowed == name or allowed not in taken:
        return allowed
    return next(one for one in (f"{allowed}_{number}" for number in range(2, len(taken) + 3)) if one not in taken)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LakeconfError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise LakeconfError(f"{path} is not valid TOML: {error}") from error


def _ducklake(store: object) -> Mapping[str, Any] | None:
    config = store.get("config") if isinstance(store, Mapping) else None
    lake = config.get("ducklake") if isinstance(config, Mapping) else None
    return lake if isinstance(lake, Mapping) else None


def _store(name: str, lake: Mapping[str, Any], imported: Imported) -> Iterator[str]:
    imported.notes += [f"stores.{name}: ducklake.{key} is not supported" for key in lake if key not in _TAKEN]
    yield ""
    if "alias" in lake:
        yield f"[stores.{name}]"
        yield f"alias = {toml_value(lake['alias'])}"
        yield ""
    for section, spellings in _SECTIONS.items():
        yield from _table(name, section, next((lake[one] for one in spellings if one in lake), None), imported)
    yield from _table(name, "attach_options", lake.get("attach_options"), imported)


def _table(name: str, section: str, found: object, imported: Imported) -> Iterator[str]:
    if not isinstance(found, Mapping):
        if found is not None:
            imported.notes.append(f"stores.{name}: {section} is not a table and was omitted")
        return
    yield f"[stores.{name}.{section}]"
    imported.types[section] = str(found.get("type"))
    for key, value in found.items():
        yield f"{dotted((key,))} = {toml_value(_without_secrets(value, key, (name, section), imported))}"
    yield ""


def _without_secrets(value: Any, key: str, place: tuple[str, ...], imported: Imported) -> Any:
    """Replaces literal secrets in a value with variables, including partial secrets and defaults."""
    if not _is_secret(key, place, imported.types):
        if isinstance(value, Mapping):
            return {name: _without_secrets(item, name, (*place, key), imported) for name, item in value.items()}
        if not any(holds_credentials(key, text) for text in _texts(value)):
            return value
    if isinstance(value, str) and variable_alone(value) is not None:
        return value
    words = "_".join((place[0], place[1].removesuffix("_backend"), *place[2:], key))
    variable = re.sub(r"\W", "_", words, flags=re.ASCII).upper()
    imported.notes.append(f"the secret {'.'.join((*place, key))} was not copied: export {variable}=…")
    return f"${{{variable}}}"


def _is_secret(key: str, place: tuple[str, ...], types: Mapping[str, str]) -> bool:
    """Returns True unless the key is known not to be secret: an unknown key, such as `dsn`, may contain a secret."""
    section, *below = place[1:]
    if is_secret((section, *below, key)):
        return True
    if below or section not in _SECTIONS:
        return False
    find = metadata_backend if section == "metadata_backend" else storage_backend
    try:
        return key not in find(types.get(section, "")).model_fields
    except LakeconfError:
        return key != "type"


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []
