"""Resolves `extends`: merges the table of a store with the tables of its parents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, TypeAlias

from lakeconf.config.codes import Code
from lakeconf.config.file import Source, Table
from lakeconf.errors import ConfigError, listed, suggestion

BACKENDS = ("metadata_backend", "storage_backend")
STORE_KEYS = (*BACKENDS, "alias", "attach_options", "maintenance", "committer", "extends")

Path: TypeAlias = "tuple[str, ...]"


class Leaf(NamedTuple):
    """A value that is not a table, as written in the file.

    Attributes:
        value: The value.
        place: Its key, in the table of the store itself or of a parent.
    """

    value: Any
    place: Path

    def __repr__(self) -> str:
        return f"Leaf(place={self.place})"


class Branch(NamedTuple):
    """A table merged with the tables of the parents.

    Attributes:
        entries: Its keys and values.
        place: Its key in the most derived store that declares it.
    """

    entries: Mapping[str, Leaf | Branch]
    place: Path


def leaves(branch: Branch) -> Iterator[Leaf]:
    """Yields all values of a table, at every depth."""
    for entry in branch.entries.values():
        if isinstance(entry, Branch):
            yield from leaves(entry)
        else:
            yield entry


class Inheritance:
    """The stores of a configuration, each merged with the stores that it extends.

    Tables are merged key by key, at every depth. A backend whose `type` differs from the parent's inherits no keys,
    because the keys of another type have other meanings.

    Args:
        source: The file, for the positions of problems.
        stores: The tables of all stores.
    """

    def __init__(self, source: Source, stores: Table) -> None:
        self.source = source
        self.stores = stores
        self._trees: dict[str, Branch] = {}

    def tree(self, name: str) -> Branch:
        """Returns the merged table of a store.

        Args:
            name: The store's name.

        Raises:
            ConfigError: A parent does not exist or is not a table, or the inheritance is circular.
        """
        chain: dict[str, None] = {}
        following: str | None = name
        while following is not None and following not in self._trees:
            chain[following] = None
            following = _parent(self.source, self.stores, chain, following)
        tree = None if following is None else self._trees[following]
        for child in reversed(chain):
            own = _branch(self.stores[child], ("stores", child))
            tree = self._trees[child] = own if tree is None else _merged(tree, own)
        return self._trees[name]


def _parent(source: Source, stores: Table, chain: Collection[str], name: str) -> str | None:
    asked = next(iter(chain))
    key = ("stores", name, "extends")
    table = stores[name]
    if not isinstance(table, Mapping):
        problem = source.problem(
            Code.WRONG_TYPE,
            "must be a table",
            hint=f"write [stores.{name}.metadata_backend] …",
            key=key[:2],
            store=asked,
        )
        raise ConfigError([problem])
    parent = table.get("extends")
    if parent is None:
        return None
    if isinstance(parent, str) and parent in chain:
        every = list(chain)
        _circle(source, stores, every[every.index(parent) :])
    if isinstance(parent, str) and parent in stores:
        return parent
    message, hint, code = "must be a string", "write the name of one store in quotes", Code.WRONG_TYPE
    if isinstance(parent, str):
        message, code = f"unknown store {str(parent)!r}", Code.UNKNOWN_PARENT
        hint = suggestion(parent, stores, f"use one of the stores: {listed(stores)}")
    raise ConfigError([source.problem(code, message, hint=hint, key=key, store=asked)])


def _circle(source: Source, stores: Table, members: list[str]) -> NoReturn:
    # Each store in a cycle finds the same cycle: report it once, at the first of them in the file.
    known = set(members)
    first = next(name for name in stores if name in known)
    start = members.index(first)
    circle = " -> ".join([*members[start:], *members[:start], first])
    hint = "remove extends from one of these stores"
    key = ("stores", first, "extends")
    raise ConfigError([source.problem(Code.CYCLE, f"circular inheritance: {circle}", hint=hint, key=key, store=first)])


def _branch(table: Table, place: Path) -> Branch:
    entries: dict[str, Leaf | Branch] = {}
    for key, value in table.items():
        below = (*place, str(key))
        entries[str(key)] = _branch(value, below) if isinstance(value, Mapping) else Leaf(value, below)
    return Branch(entries, place)


def _merged(parent: Branch, child: Branch) -> Branch:
    entries = {key: entry for key, entry in parent.entries.items() if key != "extends"}
    for key, entry in child.entries.items():
        entries[key] = _merged_entry(key, entries.get(key), entry)
    return Branch(entries, child.place)


def _merged_entry(key: str, above: Leaf | Branch | None, own: Leaf | Branch) -> Leaf | Branch:
    if not (isinstance(above, Branch) and isinstance(own, Branch)):
        return own
    if key in BACKENDS and _changes_type(above, own):
        return own
    return _merged(above, own)


def _changes_type(parent: Branch, child: Branch) -> bool:
    own, above = child.entries.get("type"), parent.entries.get("type")
    return isinstance(own, Leaf) and isinstance(above, Leaf) and own.value != above.value
