"""Checks the types of the arguments of a store that Python code makes; TOML cannot hold others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from lakeconf.backends.base import MetadataBackend, StorageBackend
from lakeconf.errors import LakeconfError
from lakeconf.secret import Secret

Found = TypeVar("Found")
_NAME = 'pass the name of the store: Store("dev", …)'
_METADATA = 'pass a backend: SQLiteMetadata(uri="catalog.sqlite"); get_store() makes a store from TOML'
_STORAGE = 'pass a backend: LocalStorage(path="data"), or None if the metadata backend keeps the files'


def check_arguments(name: object, metadata_backend: object, storage_backend: object, alias: object) -> None:
    """Checks the location and the names of a store. No error contains a value: it may be a secret."""
    _check("name", name, str, "a text", _NAME)
    if not name:
        raise LakeconfError("the name of the store is empty", hint=_NAME)
    _check("metadata_backend", metadata_backend, MetadataBackend, "a metadata backend", _METADATA)
    if storage_backend is not None:
        _check("storage_backend", storage_backend, StorageBackend, "a storage backend", _STORAGE)
    if alias is not None:
        _check("alias", alias, str, "a text", "omit it to attach the lake under the name of the store")


def checked_table(values: Mapping[str, Found] | None, argument: str, example: str) -> Mapping[str, Found]:
    """Returns a dictionary of options, which is empty for None."""
    if values is None:
        return {}
    hint = f"write {argument}={example}"
    _check(argument, values, Mapping, "a dictionary", hint)
    for key in values:
        _check(f"a key of {argument}", key, str, "a text", hint)
    return values


def checked_secrets(hidden: Iterable[Secret]) -> tuple[Secret, ...]:
    """Returns secrets as a tuple."""
    hint = 'write hidden=[Secret("…")]'
    _check("hidden", hidden, Iterable, "a list of secrets", hint)
    secrets = tuple(hidden)
    for one in secrets:
        _check("an element of hidden", one, Secret, "a secret", hint)
    return secrets


def _check(argument: str, value: object, kind: type, what: str, hint: str) -> None:
    if not isinstance(value, kind):
        found = "None" if value is None else f"a value of the type {type(value).__name__}"
        raise LakeconfError(f"{argument} is {found}, and not {what}", hint=hint)
