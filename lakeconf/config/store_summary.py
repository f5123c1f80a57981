"""A store at a glance, as it stands in the file."""

from __future__ import annotations

from typing import NamedTuple

from lakeconf.config.inheritance import BACKENDS, Branch, Inheritance, Leaf
from lakeconf.errors import ConfigError


class Outline(NamedTuple):
    """A store at a glance: no variable is resolved, and nothing is checked.

    Attributes:
        name: Its name.
        is_default: True for the store that is used where none is named.
        metadata_backend: The type of its metadata backend; None where it cannot be told.
        storage_backend: The type of its storage backend; None where it has none.
        extends: The store that it extends.
        alias: The name under which it is attached, as the file gives it; the store's own unless given.
    """

    name: str
    is_default: bool
    metadata_backend: str | None = None
    storage_backend: str | None = None
    extends: str | None = None
    alias: str | None = None


def outline_of(stores: Inheritance, name: str, *, is_default: bool) -> Outline:
    """The outline of a store.

    Args:
        stores: The stores.
        name: The store's name.
        is_default: True where it is the default store.
    """
    try:
        tree = stores.tree(name)
    except ConfigError:
        return Outline(name, is_default, alias=name)
    metadata, storage = (_raw(tree.entries.get(section), "type") for section in BACKENDS)
    own = _raw(tree.entries.get("metadata_backend"), "database") if metadata == "motherduck" else None
    return Outline(name, is_default, metadata, storage, _raw(tree, "extends"), _raw(tree, "alias") or own or name)


def _raw(table: Branch | Leaf | None, key: str) -> str | None:
    entry = table.entries.get(key) if isinstance(table, Branch) else None
    return str(entry.value) if isinstance(entry, Leaf) else None


def secret_names(stores: Inheritance, name: str) -> tuple[str, ...]:
    """The `secret_name` of each backend of a store, where it has one, with its variables as they stand in the file."""
    try:
        tree = stores.tree(name)
    except ConfigError:
        return ()
    found = (_raw(tree.entries.get(section), "secret_name") for section in BACKENDS)
    return tuple(secret for secret in found if secret is not None)
