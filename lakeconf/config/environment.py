"""Variables in values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from lakeconf.config.codes import Code
from lakeconf.secret import FromVariable

Kind: TypeAlias = Literal["literal", "variable", "default", "mixed"]
_TOKEN = re.compile(
    r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<operator>:[-?])(?P<word>[^{}]*))?\}|(?P<malformed>\{))",
    re.ASCII,
)
_FORMS = "use ${NAME}, ${NAME:-default} or ${NAME:?message}; write $${ for a literal ${"


class ProcessVariables:
    """The variables of this process: not a mapping, because tools that report errors show the items of one."""

    def get(self, name: str) -> str | None:
        """The value of a variable; None if it is not set."""
        return os.environ.get(name)


# Environment variables by name.
Environment: TypeAlias = Mapping[str, str] | ProcessVariables


class Fault(NamedTuple):
    """The reason why a value cannot be resolved."""

    code: Code
    message: str
    hint: str


class Expansion(NamedTuple):
    """A value with its variables resolved."""

    # The value. A `FromVariable` if it is a single variable: a portable script can reference that variable. Not with
    # `:-default`: the script has no default if the variable is unset.
    text: str
    kind: Kind = "literal"  # A single variable, the default of one, a literal, or a mixture
    variables: tuple[str, ...] = ()  # the names of its variables
    faults: tuple[Fault, ...] = ()  # the reasons why it cannot be resolved; `text` is then meaningless
    has_literal: bool = True  # True if the file itself contains part of the value or of a default

    def __repr__(self) -> str:
        return f"Expansion({self.kind!r}, variables={self.variables}, faults={self.faults})"


def expand(text: str, environment: Environment) -> Expansion:
    """Resolves the variables in a value."""
    matches = list(_TOKEN.finditer(text))
    resolved = [_resolve(match, environment) for match in matches]
    faults = [part for part in resolved if isinstance(part, Fault)]
    following = iter(resolved)
    value = _TOKEN.sub(lambda _: str(next(following)), text) if not faults else ""
    # If a reference is malformed, the other faults are misleading.
    malformed = next((fault for fault in faults if fault.code is Code.MALFORMED_VARIABLE), None)
    faults = faults if malformed is None else [malformed]
    variables = tuple(match["name"] for match in matches if match["name"])
    if not variables:
        return Expansion(value, faults=tuple(faults))
    details = (variables, tuple(faults), _has_literal(text))
    if len(matches) > 1 or matches[0].span() != (0, len(text)):
        return Expansion(value, "mixed", *details)
    if matches[0]["operator"] == ":-":
        return Expansion(value, "variable" if environment.get(variables[0]) else "default", *details)
    return Expansion(FromVariable(value, variables[0]), "variable", *details)


def _has_literal(text: str) -> bool:
    return bool(_TOKEN.sub(lambda match: match["word"] or "" if match["operator"] == ":-" else "", text))


def _resolve(match: re.Match[str], environment: Environment) -> str | Fault:
    if match["dollar"]:
        return "$"
    if match["malformed"]:
        return Fault(Code.MALFORMED_VARIABLE, f"invalid variable reference at character {match.start() + 1}", _FORMS)
    name, operator, word = match["name"], match["operator"], match["word"]
    value = environment.get(name)
    # As in a shell, `:` treats an empty variable as unset.
    if operator == ":-":
        return value or word
    if operator == ":?" and not value:
        message = f"the variable {name} is not set" if value is None else f"the variable {name} is empty"
        return Fault(Code.UNSET_VARIABLE, f"{message}: {word}" if word else message, f"export {name}=…")
    if value is None:
        hint = f"export {name}=…; a value that is no secret can have a default: ${{{name}:-…}}"
        return Fault(Code.UNSET_VARIABLE, f"the variable {name} is not set", hint)
    return value
