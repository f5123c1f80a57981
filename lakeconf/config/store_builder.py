"""Collects a store's resolved values, their origins and the problems while the store is read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from lakeconf.backends.secrecy import is_secret
from lakeconf.config.codes import Code
from lakeconf.config.file import Source
from lakeconf.config.inheritance import Branch, Path
from lakeconf.config.variables import Environment, Kind, expand
from lakeconf.errors import Problem
from lakeconf.secret import FromVariable, Secret, masked

# Replaces a value that cannot be resolved, so that the rest of its table can still be checked.
_PLACEHOLDER = "unresolved"
_SHORTEST_VALUE = 4


class Origin(NamedTuple):
    """The origin of a value.

    Attributes:
        place: Its key, in the table of the store itself or of a parent.
        kind: A literal, a variable, a variable's default, a mixture, or an override by the environment.
        variable: The first variable of the value, if any.
        has_literal: True if the file itself contains part of the value or of a variable's default.
    """

    place: Path
    kind: Kind | Literal["override"] = "literal"
    variable: str | None = None
    has_literal: bool = True


class Draft:
    """A store while it is read.

    Args:
        source: The file, for the positions of problems.
        name: The store's name.
        tree: Its table, merged with those of its parents.
        environment: The environment variables; None if they must not be read: then none is reported as missing.
        hidden: The secrets of the whole configuration.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        tree: Branch,
        environment: Environment | None,
        hidden: Sequence[Secret] = (),
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
        self._secrets = _secrets(self.values)

    def report(self, code: Code, message: str, key: Path = (), *, hint: str | None = None) -> None:
        """Adds a problem.

        Args:
            code: The kind of problem.
            message: What is wrong.
            key: The key inside the store's table; the table may lack it.
            hint: How to fix it.
        """
        around = next(key[:length] for length in range(len(key), -1, -1) if key[:length] in self.origins)
        origin = self.origins[around]
        place = (*origin.place, *key[len(around) :])
        is_override = origin.kind == "override"
        if origin.variable is not None and code not in (Code.UNSET_VARIABLE, Code.MALFORMED_VARIABLE):
            message += f" ({'set by' if is_override else 'from'} the variable {origin.variable})"
        at = () if is_override else place
        message, hint = self.shown(message), None if hint is None else self.shown(hint)
        self.problems.append(self._source.problem(code, message, hint=hint, key=place, at=at, store=self.name))

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
        if isinstance(value, FromVariable):
            self._note_use(value, value.variable)
            self.origins[key] = Origin(self.origins[key].place, "override", value.variable, has_literal=False)
            return value
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


def _secrets(value: Any, path: Path = ()) -> list[Secret]:
    if isinstance(value, Mapping):
        below = (_secrets(item, (*path, str(key))) for key, item in value.items())
        return [secret for found in below for secret in found]
    if isinstance(value, list):
        return [secret for item in value for secret in _secrets(item, path)]
    if isinstance(value, str):
        return [Secret(value)] if value and is_secret(path) else []
    return [value] if isinstance(value, Secret) else []
