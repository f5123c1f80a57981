"""Reads variables from a `.env` file, which the user must name: lakeconf never looks for one."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from lakeconf.config.codes import Code
from lakeconf.config.file import file_text, path_of
from lakeconf.config.variables import Environment
from lakeconf.errors import ConfigError, Problem

FilePath: TypeAlias = str | os.PathLike[str]

_LINE = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(?P<value>.*)", re.DOTALL)
_QUOTED = re.compile(r"""(?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)")[ \t]*(?:#.*)?""", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}
_FORM = "write NAME=value, with quotes around a value that contains # or begins or ends with a space"


def env_variables(path: FilePath) -> Mapping[str, str]:
    """Reads the variables of a `.env` file.

    A line is `NAME=value`, with an optional `export` before it. Comments begin with `#`. A value in single quotes is
    taken literally; in double quotes, a backslash escapes `n`, `r`, `t`, `"`, `$` and itself. `$` has no other meaning.

    Args:
        path: The file.

    Returns:
        The values by name. If a name occurs twice, the last value.

    Raises:
        ConfigError: The file cannot be read, or a line is invalid. The error shows no value.
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
    return _Variables({} if env_file is None else env_variables(env_file))


class _Variables:
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
