"""Variables in values, overrides by LAKECONF_ variables, and .env files."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from lakeconf.config.codes import Code
from lakeconf.config.file import LOCATION_VARIABLE, Source, Table, file_text, path_of
from lakeconf.config.toml_text import dotted
from lakeconf.errors import ConfigError, Problem, suggestion
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


PREFIX = "LAKECONF_"
_DEFAULT_STORE = f"{PREFIX}DEFAULT_STORE"


def overridden(source: Source, environment: Environment) -> tuple[Table, list[Problem]]:
    """Returns the configuration with overrides from the environment applied."""
    data: Table = source.data
    problems: list[Problem] = []
    for variable in overrides(environment):
        if variable == _DEFAULT_STORE:
            data = {**data, "default_store": FromVariable(environment[variable], variable)}
            continue
        keys = variable[len(PREFIX) :].lower().split("__")
        fault = _fault(keys, data)
        if fault is None:
            value = FromVariable(environment[variable], variable)
            try:
                data = _with(data, keys, value)
            except TypeError as error:
                fault = str(error), "override a single key"
        if fault is not None:
            message, hint = fault
            problems.append(source.problem(Code.OVERRIDE, f"the variable {variable} {message}", hint=hint))
    return data, problems


def overrides(environment: Environment) -> tuple[str, ...]:
    """Returns the names of the variables that override keys; excludes other `LAKECONF_…` variables."""
    ours = (name for name in environment if name.startswith(PREFIX) and name != LOCATION_VARIABLE)
    return tuple(sorted(name for name in ours if name == _DEFAULT_STORE or "__" in name[len(PREFIX) :]))


def _fault(keys: list[str], data: Table) -> tuple[str, str] | None:
    """Returns the problem with a variable's name and a hint, or None if the name is valid."""
    form = f"use {PREFIX}STORES__<store>__<key>, with two underscores between keys"
    stores = data.get("stores")
    if keys[0] != "stores" or len(keys) < 3 or "" in keys:
        return "does not override a key", form
    if not isinstance(stores, Mapping) or keys[1] not in stores:
        names = list(stores) if isinstance(stores, Mapping) else []
        hint = suggestion(
            keys[1], names, f"use one of the stores: {', '.join(names)}" if names else "declare the store in the file"
        )
        return f"overrides a key of the unknown store {keys[1]!r}", hint
    return None


def _with(table: Table, keys: list[str], value: FromVariable, above: tuple[str, ...] = ()) -> Table:
    # Variable names ignore case, keys may not: match KMS_KEY_ID in the file, too.
    key = next((known for known in table if known.lower() == keys[0]), keys[0])
    inner = table.get(key)
    path = dotted((*above, key))
    changed: Any = value
    if len(keys) > 1:
        if inner is not None and not isinstance(inner, Mapping):
            raise TypeError(f"overrides a key below {path}, which is not a table")
        changed = _with(inner or {}, keys[1:], value, (*above, key))
    elif isinstance(inner, Mapping):
        raise TypeError(f"overrides {path}, which is a table")
    return {**table, key: changed}


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
