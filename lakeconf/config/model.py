"""The configuration as an object: `init()`, `Config`, and the stores that it gives."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakeconf.config.backend import type_name, unknown_key_hint
from lakeconf.config.codes import Code
from lakeconf.config.file import Source, Table, find
from lakeconf.config.inheritance import Path as Key
from lakeconf.config.outline import Outline, outline_of, secret_names
from lakeconf.config.overrides import overridden
from lakeconf.config.reading import Reading, allowed_name, in_order, read_store
from lakeconf.config.variables import expand
from lakeconf.errors import ConfigError, Problem, nearest
from lakeconf.secret import FromVariable
from lakeconf.sql import CreateSecret
from lakeconf.store import Store

TOP_KEYS = ("default_store", "pipeline", "stores")
STORE_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def init(source: str | os.PathLike[str] | Table | None = None) -> Config:
    """Finds and reads the configuration. It may be called any number of times, and keeps nothing.

    Args:
        source: A file, a folder that holds one, or the configuration itself as a dict. None: the file that
            `LAKECONF_CONFIG` names, else `lakeconf.toml` or `[tool.lakeconf]` in `pyproject.toml`, from the working
            folder upward to the root of its repository.

    Returns:
        The configuration; its stores are read when they are asked for.

    Raises:
        ConfigError: There is none, it is not TOML, or something outside of the stores' tables is wrong.
    """
    config = _read(source)
    if config.problems:
        raise ConfigError(config.problems)
    return config


def validate(source: Config | str | os.PathLike[str] | Table | None = None, *stores: str) -> list[Problem]:
    """Everything that is wrong with a configuration, every missing variable included; connects to nothing.

    Args:
        source: A `Config`, or what `init` takes.
        *stores: The names of the stores to check; all of them unless given.

    Returns:
        The problems in the order of the file; none where all is right.

    Raises:
        ConfigError: One of the stores does not exist.
    """
    try:
        config = source if isinstance(source, Config) else _read(source)
    except ConfigError as error:
        return list(error.problems)
    names = [config.known(name) for name in stores] or config.names
    found = [problem for name in names for problem in config.reading(name).problems]
    return in_order([*config.problems, *config.default_store_problems(), *found])


def _read(source: str | os.PathLike[str] | Table | None) -> Config:
    return Config(Source(source) if isinstance(source, Mapping) else find(source), os.environ)


class Config:
    """A configuration; `init()` makes it.

    Args:
        source: What the file says.
        environment: The variables, by name; overrides are read now, the others when a store is.

    Attributes:
        path: The file; None for a dict.
        names: The names of the stores, in the order of the file.
        problems: What is wrong outside of the stores' tables; `init()` raises them.
        stores: The stores by name, each read when it is asked for. Iterating over the names reads none.
    """

    def __init__(self, source: Source, environment: Mapping[str, str]) -> None:
        self._source = source
        self._environment = environment
        self._data, problems = overridden(source, environment)
        stores = self._data.get("stores")
        self._tables: Table = stores if isinstance(stores, Mapping) else {}
        self._readings: dict[str, Reading] = {}
        self.path: Path | None = source.path
        self.names = tuple(self._tables)
        self.stores: Mapping[str, Store] = _Stores(self)
        self.problems = tuple(in_order([*problems, *self._structure()]))

    def __repr__(self) -> str:
        return f"Config({str(self.path) if self.path else 'dict'!r}, stores={list(self.names)})"

    @property
    def default_store(self) -> str | None:
        """The name of the store that is used where none is named: `default_store`, or the only one; else None.

        Raises:
            ConfigError: It is a variable that is not set, or names no store.
        """
        given = self._data.get("default_store")
        if given is None:
            return next(iter(self._tables)) if len(self._tables) == 1 else None
        key = ("default_store",)
        if not isinstance(given, str):
            message = f"should be a text, not {type_name(given)}"
            hint = "write the name of a store between quotes"
            raise ConfigError([self._source.problem(Code.WRONG_TYPE, message, hint=hint, key=key)])
        if isinstance(given, FromVariable):
            return self._checked_default(given, at=(), why=f" (given by the variable {given.variable})")
        expansion = expand(given, self._environment)
        if expansion.faults:
            problem = self._source.problem
            raise ConfigError([problem(f.code, f.message, hint=f.hint, key=key) for f in expansion.faults])
        return self._checked_default(expansion.text, at=key)

    @property
    def pipeline(self) -> Table:
        """The table `[pipeline]` as it stands in the file; empty where there is none."""
        found = self._data.get("pipeline")
        return found if isinstance(found, Mapping) else {}

    def problem(self, code: Code, message: str, key: Key, *, hint: str | None = None) -> Problem:
        """A problem with a key outside of the stores' tables, with its place."""
        return self._source.problem(code, message, hint=hint, key=key)

    def get_store(self, name: str | None = None) -> Store:
        """A store.

        Args:
            name: Its name; None for the default store.

        Raises:
            ConfigError: There is no such store, or its table is wrong; all that is wrong with it is told at once.
        """
        reading = self.reading(self.known(name))
        if reading.store is None:
            raise ConfigError(reading.problems)
        return reading.store

    def known(self, name: str | None) -> str:
        """The name of a store that exists.

        Args:
            name: Its name; None for the default store.

        Raises:
            ConfigError: There is none.
        """
        if name is None:
            name = self.default_store
            if name is None:
                hint = f'write default_store = "{self.names[0]}", or name one of: {", ".join(self.names)}'
                raise ConfigError([self._source.problem(Code.NO_DEFAULT_STORE, "there is no default_store", hint=hint)])
        if name not in self._tables:
            raise ConfigError([self._unknown_store(name)])
        return name

    def reading(self, name: str) -> Reading:
        """What a store's table says, and what is wrong with it.

        Args:
            name: The name of a store that exists.
        """
        if name not in self._readings:
            reading = self._read(name)
            problems = [*reading.problems, *self._shared_secrets(name, reading)]
            store = None if problems else reading.store
            reading = Reading(store, tuple(problems), reading.values, reading.origins)
            if store is None:
                return reading  # its variables may be set by the next time
            self._readings[name] = reading
        return self._readings[name]

    def outline(self) -> list[Outline]:
        """Every store at a glance."""
        try:
            default = self.default_store
        except ConfigError:
            default = None
        return [outline_of(self._source, self._tables, name, is_default=name == default) for name in self.names]

    def _read(self, name: str) -> Reading:
        return read_store(self._source, self._tables, name, self._environment)

    def _shared_secrets(self, name: str, reading: Reading) -> Iterator[Problem]:
        """Secrets of one name and different fields: whichever store is attached last would decide for both."""
        for secret in reading.secrets:
            for other in self._tables:
                if other == name or not self._mentions(other, secret.name):
                    continue
                if any(_differ(secret, its) for its in self._read(other).secrets):
                    section = (secret.key or "").rpartition(".")[2]
                    key = ("stores", name, section, "secret_name")
                    place = reading.origins.get((section, "secret_name"))
                    yield self._source.problem(
                        Code.SHARED_SECRET,
                        f"the store {other!r} gives the secret {secret.name!r} other fields",
                        hint=f'give it another name, such as "{secret.name}_{name}"',
                        key=place.place if place is not None else key,
                        store=name,
                    )

    def _mentions(self, name: str, secret: str) -> bool:
        names = secret_names(self._source, self._tables, name)
        return any("$" in found or found.lower() == secret.lower() for found in names)

    def _structure(self) -> Iterator[Problem]:
        problem = self._source.problem
        for key in self._data:
            if key not in TOP_KEYS:
                yield problem(Code.UNKNOWN_KEY, "unknown key", hint=unknown_key_hint(key, TOP_KEYS), key=(key,))
        stores = self._data.get("stores")
        if stores is not None and not isinstance(stores, Mapping):
            hint = 'write [stores.dev.metadata_backend] type = "sqlite" …'
            yield problem(Code.WRONG_TYPE, f"should be a table, not {type_name(stores)}", hint=hint, key=("stores",))
        elif not stores:
            hint = 'write [stores.dev.metadata_backend] type = "sqlite" …'
            yield problem(Code.MISSING_KEY, "there are no stores", hint=hint, key=("stores",))
        pipeline = self._data.get("pipeline")
        if pipeline is not None and not isinstance(pipeline, Mapping):
            hint = 'write [pipeline] python = ["models.py"]'
            yield problem(
                Code.WRONG_TYPE, f"should be a table, not {type_name(pipeline)}", hint=hint, key=("pipeline",)
            )
        for name in self._tables:
            if not STORE_NAME.fullmatch(name):
                hint = f"write it as {allowed_name(name)}: small letters, digits and single underscores"
                yield problem(Code.STORE_NAME, "is not allowed as a store's name", hint=hint, key=("stores", name))
        given = self._data.get("default_store")
        # A variable in it is looked at when the default store is asked for: it may be unset where none is.
        if given is not None and not (type(given) is str and "$" in given):
            yield from self.default_store_problems()

    def default_store_problems(self) -> tuple[Problem, ...]:
        """What is wrong with `default_store`."""
        try:
            self.default_store  # noqa: B018 - raises where it names no store
        except ConfigError as error:
            return error.problems
        return ()

    def _checked_default(self, name: str, *, at: Key, why: str = "") -> str:
        if self._tables and name not in self._tables:
            raise ConfigError([self._unknown_store(str(name), ("default_store",), at=at, why=why)])
        return str(name)

    def _unknown_store(self, name: str, key: Key = (), *, at: Key | None = None, why: str = "") -> Problem:
        near = nearest(name, self._tables)
        hint = f'did you mean "{near}"? ' if near else ""
        hint += f"there are: {', '.join(self.names)}"
        message = f"there is no store {name!r}{why}"
        return self._source.problem(Code.UNKNOWN_STORE, message, hint=hint, key=key, at=key if at is None else at)


def _differ(one: CreateSecret, other: CreateSecret) -> bool:
    same_name = one.name.lower() == other.name.lower()
    return same_name and (one.type != other.type or dict(one.options) != dict(other.options))


class _Stores(Mapping[str, Store]):
    def __init__(self, config: Config) -> None:
        self._config = config

    def __getitem__(self, name: str) -> Store:
        if name not in self:
            raise KeyError(name)
        return self._config.get_store(name)

    def __contains__(self, name: object) -> bool:
        return name in self._config.names

    def __iter__(self) -> Iterator[str]:
        return iter(self._config.names)

    def __len__(self) -> int:
        return len(self._config.names)

    def __repr__(self) -> str:
        return f"<stores: {', '.join(self)}>"
