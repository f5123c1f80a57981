"""Summarizes a store as written in the file."""

from __future__ import annotations

from typing import NamedTuple

from lakeconf.backends.registry import UnknownTypeError, metadata_backend
from lakeconf.config.inheritance import BACKENDS, Branch, Inheritance, Leaf
from lakeconf.errors import ConfigError


class Outline(NamedTuple):
    """Summary of a store; variables are not resolved, and nothing is validated.

    Attributes:
        name: The store's name.
        is_default: True for the default store.
        metadata_backend: The type of its metadata backend; None if it is missing or invalid.
        storage_backend: The type of its storage backend; None if it has none.
        extends: The store that it extends.
        alias: The name under which it is attached, as written in the file; default: the store's name.
    """

    name: str
    is_default: bool
    metadata_backend: str | None = None
    storage_backend: str | None = None
    extends: str | None = None
    alias: str | None = None


def outline_of(stores: Inheritance, name: str, *, is_default: bool) -> Outline:
    """Returns the summary of a store.

    Args:
        stores: The stores.
        name: The store's name.
        is_default: True if it is the default store.
    """
    try:
        tree = stores.tree(name)
    except ConfigError:
        return Outline(name, is_default, alias=name)
    metadata, storage = (_raw(tree.entries.get(section), "type") for section in BACKENDS)
    alias = _raw(tree, "alias") or _default_alias(name, metadata, tree.entries.get("metadata_backend"))
    return Outline(name, is_default, metadata, storage, _raw(tree, "extends"), alias)


def _default_alias(name: str, metadata: str | None, table: Branch | Leaf | None) -> str:
    if metadata is None or not isinstance(table, Branch):
        return name
    try:
        backend = metadata_backend(metadata)
    except UnknownTypeError:
        return name
    fields = {key: entry.value for key, entry in table.entries.items() if isinstance(entry, Leaf)}
    return backend.default_alias(name, fields)


def _raw(table: Branch | Leaf | None, key: str) -> str | None:
    entry = table.entries.get(key) if isinstance(table, Branch) else None
    return str(entry.value) if isinstance(entry, Leaf) else None


def secret_names(stores: Inheritance, name: str) -> tuple[str, ...]:
    """Returns the `secret_name` of each backend that sets one, as written in the file."""
    try:
        tree = stores.tree(name)
    except ConfigError:
        return ()
    found = (_raw(tree.entries.get(section), "secret_name") for section in BACKENDS)
    return tuple(secret for secret in found if secret is not None)
