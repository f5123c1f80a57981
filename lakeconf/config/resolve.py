"""The values of a store: inherited, expanded, overridden, each with its origin."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

from lakeconf.backends.registry import UnknownTypeError, metadata_backend
from lakeconf.backends.secrecy import is_secret
from lakeconf.config.codes import Code
from lakeconf.config.environment import Environment, Kind, expand
from lakeconf.config.file import Source, Table
from lakeconf.config.toml_text import dotted
from lakeconf.errors import ConfigError, Problem, listed, suggestion
from lakeconf.secret import Secret, masked

BACKENDS = ("metadata_backend", "storage_backend")
STORE_KEYS = (*BACKENDS, "alias", "attach_options", "maintenance", "committer", "extends")
Path: TypeAlias = "tuple[str, ...]"


class Leaf(NamedTuple):
    """A value that is not a table, as written in the file."""

    value: Any
    place: Path  # its key, in the table of the store itself or of a parent

    def __repr__(self) -> str:
        return f"Leaf(place={self.place})"


class Branch(NamedTuple):
    """A table merged with the tables of the parents."""

    entries: Mapping[str, Leaf | Branch]  # its keys and values
    place: Path  # its key in the most derived store that declares it


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
    """

    def __init__(self, source: Source, stores: Table) -> None:
        self.source = source
        self.stores = stores
        self._trees: dict[str, Branch] = {}
        self._faults: dict[str, ConfigError] = {}

    def tree(self, name: str) -> Branch:
        """Returns the merged table of a store."""
        chain: dict[str, None] = {}
        following: str | None = name
        while following is not None and following not in self._trees:
            if following in self._faults:
                raise self._faults[following]
            chain[following] = None
            try:
                following = _parent(self.source, self.stores, chain, following)
            except ConfigError as error:
                self._faults.update(dict.fromkeys(chain, error))
                raise
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
            hint=f"write [{dotted(('stores', name, 'metadata_backend'))}] …",
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


# Replaces a value that cannot be resolved, so that the rest of its table can still be checked.
_PLACEHOLDER = "unresolved"
_SHORTEST_VALUE = 4


class Origin(NamedTuple):
    """The origin of a value."""

    place: Path  # its key, in the table of the store itself or of a parent
    kind: Kind = "literal"  # a literal, a variable, a variable's default, or a mixture
    variable: str | None = None  # the first variable of the value, if any
    has_literal: bool = True  # True if the file itself contains part of the value or of a variable's default


class Draft:
    """A store while it is read. Without an environment, no variable is read, and none is reported as missing."""

    def __init__(
        self, source: Source, name: str, tree: Branch, environment: Environment | None, hidden: Sequence[Secret] = ()
    ) -> None:
        self.name = name
        self.problems: list[Problem] = []
        self.origins: dict[Path, Origin] = {}
        self.unresolved: set[Path] = set()
        self.file_name = source.path.name if source.path is not None else "the configuration"
        self._source = source
        self.hidden = tuple(hidden)
        self.looked_up: dict[str, str | None] = {}
        self._environment = environment or {}
        self._is_untrusted = environment is None
        self._used: dict[str, str] = {}
        self._secrets: list[Secret] = []
        self.values: dict[str, Any] = {}
        self.values = self._table(tree, ())
        self._secrets = [Secret(text) for text in _secret_texts(self.values) if text]

    def report(self, code: Code, message: str, key: Path = (), *, hint: str | None = None) -> None:
        """Adds a problem."""
        around = next(key[:length] for length in range(len(key), -1, -1) if key[:length] in self.origins)
        origin = self.origins[around]
        place = (*origin.place, *key[len(around) :])
        if origin.variable is not None and code not in (Code.UNSET_VARIABLE, Code.MALFORMED_VARIABLE):
            message += f" (from the variable {origin.variable})"
        message, hint = self.shown(message), None if hint is None else self.shown(hint)
        self.problems.append(self._source.problem(code, message, hint=hint, key=place, store=self.name))

    def shown(self, text: str) -> str:
        """Masks secrets in a message and replaces values of variables with `${NAME}`.

        The variables belong to the machine that reads the file, and the file may be untrusted.
        """
        text = masked(text, [*self._secrets, *self.hidden])
        for value, name in self._used.items():
            for form in (value, repr(value)[1:-1]):
                text = text.replace(form, f"${{{name}}}")
        return text

    def absolute(self, path: str) -> str:
        """Returns the absolute path; a relative path starts from the folder of the file."""
        # resolve() would follow symbolic links, and the lake stores the path.
        return os.path.abspath(os.path.join(self._source.folder, os.path.expanduser(path)))

    def is_from_environment(self, key: Path) -> bool:
        """Returns True if the value contains an environment variable, which makes it a string for any type of key."""
        return key in self.origins and self.origins[key].kind != "literal"

    def _table(self, branch: Branch, key: Path) -> dict[str, Any]:
        self.origins[key] = Origin(branch.place)
        values: dict[str, Any] = {}
        for name, entry in branch.entries.items():
            below = (*key, name)
            if isinstance(entry, Branch):
                values[name] = self._table(entry, below)
            else:
                self.origins[below] = Origin(entry.place)
                values[name] = self._value(entry.value, below)
        return values

    def _value(self, value: Any, key: Path) -> Any:
        if isinstance(value, str):
            return self._text(value, key)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, list):
            return [self._value(item, key) for item in value]
        return value

    def _text(self, text: str, key: Path) -> str:
        expansion = expand(text, self._environment)
        for variable in expansion.variables:
            self.looked_up[variable] = self._environment.get(variable)
            self._note_use(self.looked_up[variable], variable)
        if expansion.kind != "literal":
            found = (expansion.kind, expansion.variables[0], expansion.has_literal)
            self.origins[key] = Origin(self.origins[key].place, *found)
        for fault in expansion.faults:
            if not (self._is_untrusted and fault.code is Code.UNSET_VARIABLE):
                self.report(fault.code, fault.message, key, hint=fault.hint)
            self.unresolved.add(key)
        return _PLACEHOLDER if expansion.faults else expansion.text

    def _note_use(self, value: str | None, variable: str) -> None:
        # A shorter value is part of too many words.
        if value and len(value) >= _SHORTEST_VALUE:
            self._used.setdefault(value, variable)


def secret_texts(stores: Table) -> tuple[str, ...]:
    """Returns the secret values of all stores of a configuration, as written in the file."""
    tables = (table for table in stores.values() if isinstance(table, Mapping))
    return tuple(dict.fromkeys(text for table in tables for text in _secret_texts(table) if text))


def secrets_of(texts: Iterable[str], environment: Environment) -> tuple[Secret, ...]:
    """Returns the secrets in values, and the value of every variable that a secret contains."""
    found: dict[Secret, None] = {}
    for text in texts:
        expansion = expand(text, environment)
        values = [(name, environment.get(name)) for name in expansion.variables]
        found.update({Secret(value, variable=name): None for name, value in values if value})
        if expansion.text and not expansion.faults:
            found.setdefault(Secret(expansion.text, variable=getattr(expansion.text, "variable", None)))
    return tuple(found)


def _secret_texts(value: Any, path: Path = ()) -> Iterator[str]:
    """The values that are secrets by their keys, at every depth."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secret_texts(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secret_texts(item, path)
    elif isinstance(value, Secret):
        yield value.reveal()
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and is_secret(path):
        yield value if isinstance(value, str) else str(value)


class Outline(NamedTuple):
    """Summary of a store; variables are not resolved, and nothing is validated."""

    name: str  # the store's name
    is_default: bool  # True for the default store
    metadata_backend: str | None = None  # the type of its metadata backend; None if it is missing or invalid
    storage_backend: str | None = None  # the type of its storage backend; None if it has none
    extends: str | None = None  # the store that it extends
    alias: str | None = None  # the name under which it is attached, as written in the file; default: the store's name


def outline_of(stores: Inheritance, name: str, *, is_default: bool) -> Outline:
    """Returns the summary of a store."""
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
