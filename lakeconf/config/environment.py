"""Variables in values, and .env files."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from lakeconf.config.codes import Code
from lakeconf.config.file import file_text, path_of
from lakeconf.errors import ConfigError, Problem
from lakeconf.secret import FromVariable


class Variables:
    """Variables that no traceback shows: not a mapping, because tools that report errors show the items of one."""

    def __init__(self, of_file: Mapping[str, str]) -> None:
        self._all = ChainMap(os.environ, dict(of_file))

    def __repr__(self) -> str:
        return "environment"

    def __getitem__(self, name: str) -> str:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def get(self, name: str) -> str | None:
        return self._all.get(name)


# Environment variables by name.
Environment: TypeAlias = Mapping[str, str] | Variables
Kind: TypeAlias = Literal["literal", "variable", "default", "mixed"]
_TOKEN = re.compile(
    r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<operator>:[-?])(?P<word>[^{}]*))?\}|(?P<malformed>\{))",
    re.ASCII,
)
_FORMS = "use ${NAME}, ${NAME:-default} or ${NAME:?message}; write $${ for a literal ${"


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
    # If a reference is malformed, the other faults are misleading.
    malformed = next((fault for fault in faults if fault.code is Code.MALFORMED_VARIABLE), None)
    faults = faults if malformed is None else [malformed]
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
    """Returns the variable if the text is a single reference without a default, else None."""
    match = _TOKEN.fullmatch(text)
    return match["name"] if match and not (match["operator"] == ":-" and match["word"]) else None


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
        hint = f"export {name}=…, or set a default: ${{{name}:-…}}"
        return Fault(Code.UNSET_VARIABLE, f"the variable {name} is not set", hint)
    return value


FilePath: TypeAlias = str | os.PathLike[str]
_LINE = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(?P<value>.*)", re.DOTALL)
_QUOTED = re.compile(r"""(?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)")[ \t]*(?:#.*)?""", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}
_FORM = "write NAME=value, with quotes around a value that contains # or begins or ends with a space"


def env_variables(path: FilePath) -> Mapping[str, str]:
    """Reads the variables of a `.env` file.

    A line is `NAME=value`, with an optional `export` before it. Comments begin with `#`. A value in single quotes is
    taken literally; in double quotes, a backslash escapes `n`, `r`, `t`, `"`, `$` and itself. `$` has no other meaning.
    """
    file = Path(os.path.abspath(path_of(path).expanduser()))
    if not file.exists():
        raise ConfigError([Problem(Code.UNREADABLE.code, "file not found", "check the path", file=file)])
    found, problems = _parsed(file)
    if problems:
        found.clear()  # tools that report errors show the variables of each function
        raise ConfigError(problems)
    return found


def _parsed(file: Path) -> tuple[dict[str, str], list[Problem]]:
    found: dict[str, str] = {}
    problems = []
    for number, line in enumerate(file_text(file).split("\n"), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        pair = _pair(text)
        if pair is None:
            problems.append(Problem(Code.UNREADABLE.code, "invalid line", _FORM, file=file, line=number, column=1))
        else:
            found[pair[0]] = pair[1]
    return found, problems


def environment(env_file: FilePath | None) -> Environment:
    """Returns the variables of this process and those of a file; a variable of the process takes precedence."""
    return Variables({} if env_file is None else env_variables(env_file))


def _pair(text: str) -> tuple[str, str] | None:
    """The name and the value of a line; None if it is invalid."""
    line = _LINE.fullmatch(text)
    if line is None or "\0" in text:
        return None
    value = line["value"]
    if value[:1] not in ("'", '"'):
        return line["name"], re.split(r"(?:^|[ \t])#", value, maxsplit=1)[0].rstrip()
    quoted = _QUOTED.fullmatch(value)
    if quoted is None:
        return None
    if quoted["single"] is not None:
        return line["name"], quoted["single"]
    return line["name"], re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), quoted["double"])
