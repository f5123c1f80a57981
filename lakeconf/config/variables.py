"""The variables of the environment that a value names: `${X}`, `${X:-default}`, `${X:?message}`; `$$` is a dollar."""

from __future__ import annotations

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
_FORMS = "the forms are ${NAME}, ${NAME:-default} and ${NAME:?message}; write $${ for a dollar and a brace"


class Fault(NamedTuple):
    """Why a value cannot be resolved."""

    code: Code
    message: str
    hint: str


class Expansion(NamedTuple):
    """A value with its variables resolved.

    Attributes:
        text: The value; a `FromVariable` where it is one variable alone, which a portable script can name. One with
            `:-default` is not: where the variable is unset there, the script would find nothing.
        kind: What it came from: a variable alone, the default of one, a literal without any, or a mixture.
        variables: The names of its variables.
        faults: Why it cannot be resolved; then `text` is of no use.
        has_literal: Part of it, or of a default, stands in the file itself.
    """

    text: str
    kind: Kind = "literal"
    variables: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    has_literal: bool = True

    def __repr__(self) -> str:
        return f"Expansion({self.kind!r}, variables={self.variables}, faults={self.faults})"


def expand(text: str, environment: Mapping[str, str]) -> Expansion:
    """Resolves the variables in a text.

    Args:
        text: The value as it stands in the file.
        environment: The variables, by name.
    """
    parts: list[str] = []
    faults: list[Fault] = []
    end = 0
    matches = list(_TOKEN.finditer(text))
    for match in matches:
        resolved = _resolve(match, environment)
        parts.append(text[end : match.start()])
        end = match.end()
        if isinstance(resolved, Fault):
            faults.append(resolved)
        else:
            parts.append(resolved)
    # The rest of a text that is malformed says nothing.
    malformed = [fault for fault in faults if fault.code is Code.MALFORMED_VARIABLE]
    faults = malformed or faults
    variables = tuple(match["name"] for match in matches if match["name"])
    value = "".join([*parts, text[end:]])
    if not variables:
        return Expansion(value, faults=tuple(faults))
    found = (variables, tuple(faults), _has_literal(text))
    if len(matches) > 1 or matches[0].span() != (0, len(text)):
        return Expansion(value, "mixed", *found)
    if matches[0]["operator"] == ":-":
        return Expansion(value, "variable" if environment.get(variables[0]) else "default", *found)
    return Expansion(FromVariable(value, variables[0]), "variable", *found)


def variable_alone(text: str) -> str | None:
    """The variable that a text names and nothing else, not even a default; None where it is anything else."""
    match = _TOKEN.fullmatch(text)
    return match["name"] if match and not (match["operator"] == ":-" and match["word"]) else None


def _has_literal(text: str) -> bool:
    return bool(_TOKEN.sub(lambda match: match["word"] or "" if match["operator"] == ":-" else "", text))


def _resolve(match: re.Match[str], environment: Mapping[str, str]) -> str | Fault:
    if match["dollar"]:
        return "$"
    if match["malformed"]:
        return Fault(Code.MALFORMED_VARIABLE, f"character {match.start() + 1} begins no variable", _FORMS)
    name, operator, word = match["name"], match["operator"], match["word"]
    value = environment.get(name)
    # As in a shell, `:` treats an empty variable like one that is not set.
    if operator == ":-":
        return value or word
    if operator == ":?" and not value:
        message = f"the variable {name} is not set" if value is None else f"the variable {name} is empty"
        return Fault(Code.UNSET_VARIABLE, f"{message}: {word}" if word else message, f"export {name}=…")
    if value is None:
        hint = f"export {name}=…, or give a default: ${{{name}:-…}}"
        return Fault(Code.UNSET_VARIABLE, f"the variable {name} is not set", hint)
    return value
