"""The values of a store: inherited, expanded, overridden, each with its origin."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

from lakeconf.backends.registry import UnknownTypeError, metadata_backend
from lakeconf.backends.secrecy import is_secret
from lakeconf.config.codes import Code
from lakeconf.config.environment import Environment, Kind, expand
from lakeconf.config.file import ConfigSource, Table
from lakeconf.config.toml_text import dotted
from lakeconf.errors import ConfigError, Problem, listed, suggestion
from lakeconf.secret import Secret, masked

BACKENDS = ("metadata_backend", "storage_backend")
STORE_KEYS = (*BACKENDS, "alias", "attach_options", "maintenance", "committer", "extends", "branch_of")
# A command with its arguments: they are shown, and other processes see them.
WITHOUT_VARIABLES = ("metadata_backend", "password_command")
_NO_VARIABLES = "remove ${…}: the command can read the environment itself; write $${ for a literal ${"
Path: TypeAlias = "tuple[str, ...]"
# Replaces a value that cannot be resolved, so that the rest of its table can still be checked.
_PLACEHOLDER = "unresolved"
_SHORTEST_VALUE = 4


class Merged(NamedTuple):
    """The table of a store, merged with those of its parents."""

    values: Table  # as written: variables are not resolved
    places: Mapping[Path, Path]  # where each key was written, in the table of the store itself or of a parent

    def __repr__(self) -> str:
        return "Merged()"  # tools that report errors show the variables of each function


def value_at(table: object, path: Path) -> Any:
    """The value of a key, at any depth; None if it is not set."""
    for key in path:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table


class Inheritance:
    """The stores of a configuration, each merged with the stores that it extends.

    Tables are merged key by key, at every depth. A backend whose `type` differs from the parent's inherits no keys,
    because the keys of another type have other meanings.
    """

    def __init__(self, source: ConfigSource, stores: Table) -> None:
        self.source = source
        self.stores = stores
        self._merged: dict[str, Merged] = {}
        self._faults: dict[str, ConfigError] = {}

    def merged(self, name: str) -> Merged:
        """Returns the merged table of a store."""
        chain: dict[str, None] = {}
        following: str | None = name
        while following is not None and following not in self._merged:
            if following in self._faults:
                raise self._faults[following]
            chain[following] = None
            try:
                following = _parent(self.source, self.stores, chain, following)
            except ConfigError as error:
                self._faults.update(dict.fromkeys(chain, error))
                raise
        parent = Merged({}, {}) if following is None else self._merged[following]
        for child in reversed(chain):
            own = self.stores[child]
            places = {path: ("stores", child, *path) for path in _paths(own)}
            parent = self._merged[child] = Merged(_merged(parent.values, own), {**parent.places, **places})
        return self._merged[name]


def _parent(source: ConfigSource, stores: Table, chain: Collection[str], name: str) -> str | None:
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


def _circle(source: ConfigSource, stores: Table, members: list[str]) -> NoReturn:
    # Each store in a cycle finds the same cycle: report it once, at the first of them in the file.
    in_circle = set(members)
    first = next(name for name in stores if name in in_circle)
    start = members.index(first)
    circle = " -> ".join([*members[start:], *members[:start], first])
    hint = "remove extends from one of these stores"
    key = ("stores", first, "extends")
    raise ConfigError([source.problem(Code.CYCLE, f"circular inheritance: {circle}", hint=hint, key=key, store=first)])


def _paths(value: object, path: Path = ()) -> Iterator[Path]:
    yield path
    for key, below in value.items() if isinstance(value, Mapping) else ():
        yield from _paths(below, (*path, key))


def _merged(parent: Table, child: Table) -> Table:
    values = {key: value for key, value in parent.items() if key != "extends"}
    for key, value in child.items():
        above, own = values.get(key), value
        if isinstance(above, Mapping) and isinstance(own, Mapping):
            is_other = "type" in above and "type" in own and above["type"] != own["type"]
            own = own if key in BACKENDS and is_other else _merged(above, own)
        values[key] = own
    return values


class Origin(NamedTuple):
    """The origin of a value."""

    place: Path  # its key, in the table of the store itself or of a parent
    kind: Kind = "literal"  # a literal, a variable, a variable's default, or a mixture
    variable: str | None = None  # the first variable of the value, if any
    has_literal: bool = True  # True if the file itself contains part of the value or of a variable's default


class Draft:
    """A store while it is read. Without an environment, no variable is read, and none is reported as missing."""

    def __init__(
        self, stores: Inheritance, name: str, environment: Environment | None, hidden: Sequence[Secret] = ()
    ) -> None:
        source, merged = stores.source, stores.merged(name)
        self.name = name
        self.problems: list[Problem] = []
        self.origins: dict[Path, Origin] = {}
        self.unresolved: set[Path] = set()
        self.file_name = source.path.name if source.path is not None else "the configuration"
        self._source = source
        self.hidden = tuple(hidden)  # the secrets of the whole configuration
        self.looked_up: dict[str, str | None] = {}
        self._environment = environment or {}
        self._is_untrusted = environment is None
        self._places = merged.places
        self.values: dict[str, Any] = {}
        self.values = self._table(merged.values, ())

    def report(self, code: Code, message: str, key: Path = (), *, hint: str | None = None) -> None:
        """Adds a problem."""
        around = next(key[:length] for length in range(len(key), -1, -1) if key[:length] in self.origins)
        origin = self.origins[around]
        place = (*origin.place, *key[len(around) :])
        if origin.variable is not None and code not in (Code.UNSET_VARIABLE, Code.MALFORMED_VARIABLE):
            if code in (Code.ALIAS, Code.UNKNOWN_TYPE):  # they quote the value, which may be too short to be found
                message = re.sub(r"(['\"]).*\1", f"'${{{origin.variable}}}'", message)
                hint = "change the value of the variable"  # other hints about names are made from the value
            message += f" (from the variable {origin.variable})"
        message, hint = self.shown(message), None if hint is None else self.shown(hint)
        self.problems.append(self._source.problem(code, message, hint=hint, key=place, store=self.name))

    def shown(self, text: str) -> str:
        """Masks secrets in a message and replaces values of variables with `${NAME}`.

        The variables belong to the machine that reads the file, and the file may be untrusted.
        """
        text = masked(text, self.hidden)
        for name, value in self.looked_up.items():
            # A shorter value is part of too many words.
            if value and len(value) >= _SHORTEST_VALUE:
                text = text.replace(value, f"${{{name}}}").replace(repr(value)[1:-1], f"${{{name}}}")
        return text

    def absolute(self, path: str) -> str:
        """Returns the absolute path; a relative path starts from the folder of the file."""
        # resolve() would follow symbolic links, and the lake stores the path.
        return os.path.abspath(os.path.join(self._source.folder, os.path.expanduser(path)))

    def is_from_environment(self, key: Path) -> bool:
        """Returns True if the value contains an environment variable, which makes it a string for any type of key."""
        return key in self.origins and self.origins[key].kind != "literal"

    def _table(self, table: Table, key: Path) -> dict[str, Any]:
        self.origins[key] = Origin(self._places[key])
        values: dict[str, Any] = {}
        for name, value in table.items():
            below = (*key, name)
            if isinstance(value, Mapping):
                values[name] = self._table(value, below)
            else:
                self.origins[below] = Origin(self._places[below])
                values[name] = self._value(value, below)
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
        if expansion.variables and key == WITHOUT_VARIABLES:
            message = "must not contain variables: other users of the machine can see the arguments of a command"
            self.report(Code.WRONG_VALUE, message, key, hint=_NO_VARIABLES)
            self.unresolved.add(key)
            return _PLACEHOLDER
        for variable in expansion.variables:
            self.looked_up[variable] = self._environment.get(variable)
        if expansion.kind != "literal":
            details = (expansion.kind, expansion.variables[0], expansion.has_literal)
            self.origins[key] = Origin(self.origins[key].place, *details)
        for fault in expansion.faults:
            if not (self._is_untrusted and fault.code is Code.UNSET_VARIABLE):
                self.report(fault.code, fault.message, key, hint=fault.hint)
            self.unresolved.add(key)
        return _PLACEHOLDER if expansion.faults else expansion.text


def secret_texts(stores: Table) -> tuple[str, ...]:
    """Returns the secret values of all stores of a configuration, as written in the file."""
    tables = (table for table in stores.values() if isinstance(table, Mapping))
    return tuple(dict.fromkeys(text for table in tables for text in _secret_texts(table) if text))


def secrets_of(texts: Iterable[str], environment: Environment) -> tuple[Secret, ...]:
    """Returns the secrets in values, and the value of every variable that a secret contains."""
    secrets: dict[Secret, None] = {}
    for text in texts:
        expansion = expand(text, environment)
        values = [(name, environment.get(name)) for name in expansion.variables]
        secrets.update({Secret(value, variable=name): None for name, value in values if value})
        if expansion.text and not expansion.faults:
            secrets.setdefault(Secret(expansion.text, variable=getattr(expansion.text, "variable", None)))
    return tuple(secrets)


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

    name: str
    is_default: bool  # True for the default store
    metadata_backend: str | None = None  # the type of its metadata backend; None if it is missing or invalid
    storage_backend: str | None = None  # the type of its storage backend; None if it has none
    extends: str | None = None  # the store that it extends
    alias: str | None = None  # the name under which it is attached, as written in the file; default: the store's name


def outline_of(stores: Inheritance, name: str, *, is_default: bool) -> Outline:
    """Returns the summary of a store."""
    try:
        values = stores.merged(name).values
    except ConfigError:
        return Outline(name, is_default, alias=name)
    metadata, storage = (_text_at(values, (section, "type")) for section in BACKENDS)
    alias = _text_at(values, ("alias",)) or _default_alias(name, metadata, values.get("metadata_backend"))
    return Outline(name, is_default, metadata, storage, _text_at(values, ("extends",)), alias)


def _default_alias(name: str, metadata: str | None, fields: Any) -> str:
    if metadata is None:
        return name
    try:
        return metadata_backend(metadata).default_alias(name, fields)
    except UnknownTypeError:
        return name


def _text_at(table: Table, path: Path) -> str | None:
    value = value_at(table, path)
    return None if value is None or isinstance(value, Mapping) else str(value)


def secret_names(stores: Inheritance, name: str) -> tuple[str, ...]:
    """Returns the `secret_name` of each backend that sets one, as written in the file."""
    try:
        values = stores.merged(name).values
    except ConfigError:
        return ()
    names = (_text_at(values, (section, "secret_name")) for section in BACKENDS)
    return tuple(secret for secret in names if secret is not None)
