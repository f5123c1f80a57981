"""A configuration: its stores, and its problems."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from lakeconf.backends.backend import StorageBackend
from lakeconf.config.backend_tables import type_name
from lakeconf.config.checks import data_path_problems, shared_secrets
from lakeconf.config.codes import Code
from lakeconf.config.environment import Environment, ProcessVariables, expand
from lakeconf.config.file import ConfigSource, Table, check_limits, find
from lakeconf.config.read_store import StoreReading, in_order, read_store, structure_problems
from lakeconf.config.resolve import Inheritance, Outline, outline_of, secret_texts, secrets_of
from lakeconf.config.resolve import Path as Key
from lakeconf.errors import ConfigError, Problem, listed, suggestion
from lakeconf.secret import Secret, hidden
from lakeconf.store import Store

FilePath: TypeAlias = str | os.PathLike[str]


def init(source: FilePath | Table | None = None) -> Config:
    """Finds and reads the configuration. Each call reads the file again; there is no global state.

    Args:
        source: A file, a folder that contains one, or the configuration itself as a dict. None: the file that
            `LAKECONF_CONFIG` names, else `lakeconf.toml` or `[tool.lakeconf]` in `pyproject.toml`, from the working
            directory up to the root of its repository.

    Returns:
        The configuration; a store is read on first access.

    Raises:
        ConfigError: No file was found, it is not valid TOML, or a key outside the tables of the stores is invalid.
    """
    config = read(source)
    if config.problems:
        raise ConfigError(config.problems)
    return config


def validate(source: Config | FilePath | Table | None = None, *stores: str) -> list[Problem]:
    """Finds all problems of a configuration, including missing variables, without connecting to anything.

    Args:
        source: A `Config`, or a source as for `init`.
        *stores: The names of the stores to check; default: all.

    Returns:
        The problems in the order of the file; an empty list if the configuration is valid.

    Raises:
        ConfigError: One of the stores does not exist.
    """
    try:
        config = source if isinstance(source, Config) else read(source)
    except ConfigError as error:
        return list(error.problems)
    names = [config.known(name) for name in stores] or config.names
    of_stores = [problem for name in names for problem in config.reading(name).problems]
    return in_order([*config.problems, *of_stores, *config.checked(names)])


def read(source: FilePath | Table | None, *, trusted: bool = True) -> Config:
    """Reads a configuration like `init`, but keeps its problems in `Config.problems` instead of raising them.

    If it is not trusted, no variable is read, and none is reported as missing.
    """
    variables = ProcessVariables() if trusted else None
    if not isinstance(source, Mapping):
        return Config(find(source, trusted=trusted), variables)
    check_limits(source)
    return Config(ConfigSource(source), variables)


def _storage_of(path: str | None, name: str) -> StorageBackend | None:
    """The storage backend of a store, in another process than the one that read the store from this file."""
    # The file may be in another folder there.
    return init(path if path is not None and Path(path).exists() else None).get_store(name).storage_backend


def _from_file(store: Store, file: str | None) -> Store:
    parent = None if store.branch_of is None else _from_file(store.branch_of, file)
    return store.replace(config=file, reread=functools.partial(_storage_of, file, store.name), branch_of=parent)


class Config:
    """A configuration; create it with `init()`.

    Args:
        source: The content of the file.
        environment: The environment variables, which are read with the store that uses them. None for an untrusted
            file: no variable is read, and none is reported as missing.

    Attributes:
        path: The file; None for a dict.
        names: The names of the stores, in the order of the file.
        problems: The problems outside the tables of the stores; `init()` raises them.
    """

    def __init__(self, source: ConfigSource, environment: Environment | None) -> None:
        self._source = source
        self._environment = environment
        stores = source.data.get("stores")
        self._tables: Table = stores if isinstance(stores, Mapping) else {}
        self._readings: dict[str, StoreReading] = {}
        self._read_before: dict[str, StoreReading] = {}
        self.inheritance = Inheritance(source, self._tables)
        self.path: Path | None = source.path
        self.names = tuple(self._tables)
        self.problems = tuple(in_order(self._structure()))

    def __reduce__(self) -> tuple[object, ...]:
        # Do not pickle the environment: Spark sends closures to executors.
        if any(expand(text, {}).has_literal for text in self._secret_texts):
            raise TypeError(
                "this configuration cannot be pickled, because its file contains a secret: "
                'reference a variable instead, "${VARIABLE}", or pickle the name of a store'
            )
        return (_unpickled, (self._source,))

    def __repr__(self) -> str:
        return f"Config({str(self.path) if self.path else 'dict'!r}, stores={list(self.names)})"

    @property
    def default_store(self) -> str | None:
        """The name of the default store: `default_store`, or the only store; None if there is neither.

        Raises:
            ConfigError: `default_store` references an unset variable or does not name a store.
        """
        default = self._source.data.get("default_store")
        if default is None:
            return next(iter(self._tables)) if len(self._tables) == 1 else None
        key = ("default_store",)
        if not isinstance(default, str):
            message = f"must be a string, not {type_name(default)}"
            hint = "write the name of a store in quotes"
            raise ConfigError([self._source.problem(Code.WRONG_TYPE, message, hint=hint, key=key)])
        expansion = expand(default, self._environment or {})
        if self._environment is None and expansion.variables:
            return None
        if expansion.faults:
            problem = self._source.problem
            raise ConfigError([problem(f.code, f.message, hint=f.hint, key=key) for f in expansion.faults])
        if self._tables and expansion.text not in self._tables:
            # The value of a variable is neither shown nor used for a suggestion: the file may be untrusted.
            raise ConfigError([self._unknown_store(default, key)])
        return expansion.text

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The secrets of all stores, except those with unset variables. Their values are masked in all output."""
        return secrets_of(self._secret_texts, self._environment or {})

    @functools.cached_property
    def _secret_texts(self) -> tuple[str, ...]:
        return secret_texts(self._tables)

    @property
    def is_untrusted(self) -> bool:
        """True if the file, and those that it names, may be hostile."""
        return self._environment is None

    @property
    def pipeline(self) -> Table:
        """The table `[pipeline]` as written in the file; empty if it is missing."""
        table = self._source.data.get("pipeline")
        return table if isinstance(table, Mapping) else {}

    def problem(self, code: Code, message: str, key: Key, *, hint: str | None = None) -> Problem:
        """Creates a problem with the position of a key."""
        return self._source.problem(code, message, hint=hint, key=key)

    def place(self, key: Key) -> Problem:
        """Returns the position of a key, as a problem without a message."""
        return self._source.problem(Code.WRONG_VALUE, "", key=key)

    def get_store(self, name: str | None = None) -> Store:
        """Returns a store.

        Args:
            name: The store's name; None for the default store.

        Raises:
            ConfigError: The store does not exist or is invalid; the error lists all of its problems.
        """
        # Keep the reading out of local variables: it contains secrets, and error reporting tools show locals.
        store, problems = self.reading(self.known(name))[:2]
        if store is None:
            raise ConfigError(problems)
        return store

    def known(self, name: str | None) -> str:
        """Checks that a store exists and returns its name; None stands for the default store."""
        if name is None:
            name = self.default_store
            if name is None:
                hint = f'write default_store = "{self.names[0]}", or name one of: {", ".join(self.names)}'
                raise ConfigError([self._source.problem(Code.NO_DEFAULT_STORE, "default_store is not set", hint=hint)])
        if name not in self.names:
            raise ConfigError([self._unknown_store(name)])
        return name

    def reading(self, name: str) -> StoreReading:
        """Returns the values and the problems of the table of a store that exists."""
        if name not in self._readings:
            reading = self._read(name)
            problems = [*reading.problems, *self._shared_secrets(name, reading)]
            store = None
            if reading.store is not None and not problems:
                file = None if self.path is None else str(self.path.resolve())
                store = _from_file(reading.store, file)
            located = None if problems else reading.located
            reading = reading._replace(store=store, located=located, problems=tuple(problems))
            if store is None:
                return reading  # not cached: its variables may be set later
            self._readings[name] = reading
        return self._readings[name]

    def outline(self) -> list[Outline]:
        """Returns a summary of every store."""
        try:
            default = self.default_store
        except ConfigError:
            default = None
        secrets = self.secrets
        outlines = (outline_of(self.inheritance, name, is_default=name == default) for name in self.names)
        return [Outline._make(hidden(tuple(outline), secrets)) for outline in outlines]

    def _read(self, name: str) -> StoreReading:
        cached = self._read_before.get(name)
        environment = self._environment or {}
        if cached is None or any(environment.get(variable) != value for variable, value in cached.variables.items()):
            cached = self._read_before[name] = read_store(self.inheritance, name, self._environment, self.secrets)
        return cached

    def _shared_secrets(self, name: str, reading: StoreReading) -> Iterator[Problem]:
        for secret, other in shared_secrets(self.inheritance, name, self._read):
            path = ((secret.key or "").rpartition(".")[2], "secret_name")
            origin = reading.origins.get(path)
            # Without the name, which may be the value of a variable.
            yield self._source.problem(
                Code.SHARED_SECRET,
                f"the store {other!r} defines a secret of this name differently",
                hint="use another name",
                key=("stores", name, *path) if origin is None else origin.place,
                store=name,
            )

    def checked(self, names: Collection[str]) -> Iterator[Problem]:
        """Yields the problems between these stores and the others, and that of the default store."""
        yield from self._default_store_problems()
        stores = {name: store for name in self.names if (store := self.reading(name).located) is not None}
        yield from data_path_problems(self._source, stores, names)

    def _structure(self) -> Iterator[Problem]:
        yield from structure_problems(self._source)
        default = self._source.data.get("default_store")
        # Resolve its variables on access only: they may be unset if the default store is not used.
        if default is not None and not (isinstance(default, str) and "$" in default):
            yield from self._default_store_problems()

    def _default_store_problems(self) -> tuple[Problem, ...]:
        """Returns the problems of `default_store`."""
        try:
            self.default_store  # noqa: B018 - raises if it does not name a store
        except ConfigError as error:
            return error.problems
        return ()

    def _unknown_store(self, name: object, key: Key = ()) -> Problem:
        hint = f"{suggestion(str(name), self._tables)} use one of the stores: {listed(self.names)}".lstrip()
        message = f"unknown store {name!r}"
        return self._source.problem(Code.UNKNOWN_STORE, message, hint=hint, key=key)


def _unpickled(source: ConfigSource) -> Config:
    return Config(source, ProcessVariables())
