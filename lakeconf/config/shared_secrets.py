"""Finds secrets with the same name and different fields: the store attached last would replace the others' secret."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from lakeconf.config.inheritance import Inheritance
from lakeconf.config.load_store import Reading
from lakeconf.config.store_summary import secret_names
from lakeconf.sql import CreateSecret


class SharedSecrets:
    """Finds secrets with the same name and different fields.

    Args:
        stores: The stores.
        read: Reads a store.
    """

    def __init__(self, stores: Inheritance, read: Callable[[str], Reading]) -> None:
        self._stores = stores
        self._read = read
        self._names: dict[str, tuple[str, ...]] = {}
        self._fields: dict[int, tuple[Reading, Mapping[str, Hashable]]] = {}

    def clashes(self, name: str, reading: Reading) -> Iterator[tuple[CreateSecret, str]]:
        """Yields the secrets of a store that another store defines differently, with the name of that store.

        Args:
            name: The store's name.
            reading: The values of its table.
        """
        for secret in reading.secrets:
            own = _fields(secret)
            others = (other for other in self._stores.stores if other != name and self._mentions(other, secret.name))
            key = secret.name.lower()
            clashing = next((other for other in others if self._of(other).get(key, own) != own), None)
            if clashing is not None:
                yield secret, clashing

    def _of(self, name: str) -> Mapping[str, Hashable]:
        reading = self._read(name)
        known = self._fields.get(id(reading))
        if known is None:
            known = reading, {secret.name.lower(): _fields(secret) for secret in reading.secrets}
            self._fields[id(reading)] = known
        return known[1]

    def _mentions(self, name: str, secret: str) -> bool:
        if name not in self._names:
            self._names[name] = secret_names(self._stores, name)
        return any("$" in found or found.lower() == secret.lower() for found in self._names[name])


def _fields(secret: CreateSecret) -> Hashable:
    return secret.type, _frozen(dict(secret.options))


def _frozen(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return frozenset((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    # 1 and True are equal in Python, but are different parameters.
    return type(value).__name__, value if isinstance(value, Hashable) else repr(value)
