"""Collects the secrets of a whole configuration, so that their values are masked everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from lakeconf.backends.secrecy import is_secret
from lakeconf.config.file import Table
from lakeconf.config.variables import Environment, expand
from lakeconf.secret import FromVariable, Secret


class HiddenValues:
    """The secret values of all stores of a configuration.

    Args:
        stores: The tables of all stores, as written in the file.
    """

    def __init__(self, stores: Table) -> None:
        self._stores = stores

    def secrets(self, environment: Environment) -> tuple[Secret, ...]:
        """Returns the secrets, and the value of every variable that a secret contains.

        Args:
            environment: The environment variables.
        """
        found: dict[Secret, None] = {}
        for text in self._texts:
            if isinstance(text, FromVariable):
                found.setdefault(Secret(text, variable=text.variable))
                continue
            expansion = expand(text, environment)
            values = [(name, environment.get(name)) for name in expansion.variables]
            found.update({Secret(value, variable=name): None for name, value in values if value})
            if expansion.text and not expansion.faults:
                found.setdefault(Secret(expansion.text, variable=getattr(expansion.text, "variable", None)))
        return tuple(found)

    def has_literal(self) -> bool:
        """Returns True if the file itself contains a secret or part of one."""
        return any(expand(text, {}).has_literal for text in self._texts if not isinstance(text, FromVariable))

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        tables = (table for table in self._stores.values() if isinstance(table, Mapping))
        return tuple(dict.fromkeys(text for table in tables for text in _secret_texts(table, ()) if text))


def _secret_texts(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secret_texts(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secret_texts(item, path)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and is_secret(path):
        yield value if isinstance(value, str) else str(value)
