"""Places in the files of a pipeline, as text and as problems."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lakeconf.config.codes import Code
from lakeconf.config.config import Config
from lakeconf.errors import Problem

_MESSAGES = {"missing": (Code.MISSING_KEY, "is missing"), "extra_forbidden": (Code.UNKNOWN_KEY, "unknown key")}


def shown_place(path: Path | None, line: int | None = None, column: int | None = None) -> str:
    """Returns `file:line:column`, relative to the working directory; empty if nothing is known."""
    if path is None:
        return "" if line is None else f"the SQL, line {line}, column {column}"
    here = Path.cwd()
    file = str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
    return file if line is None else f"{file}:{line}:{column}"


def key_place(config: Config, key: tuple[str, ...]) -> str:
    """Returns the place of a key in the configuration; the key itself if the configuration is no file."""
    found = config.problem(Code.WRONG_VALUE, "", key)
    return shown_place(found.file, found.line, found.column) or dotted_key(config, key)


def dotted_key(config: Config, key: tuple[str, ...]) -> str:
    """Returns a key as problems of the configuration write it."""
    return config.problem(Code.WRONG_VALUE, "", key).key or ""


def key_problems(
    config: Config,
    table: tuple[str, ...],
    error: ValidationError,
    key_of: Callable[[Sequence[int | str]], tuple[str, ...]],
    fix: Callable[[tuple[str, ...], ErrorDetails], str],
) -> list[Problem]:
    """Converts pydantic's errors into problems with a position in the file, one for each key."""
    problems: dict[tuple[str, ...], Problem] = {}
    for found in error.errors(include_url=False, include_input=False):
        code, message = _MESSAGES.get(found["type"], (Code.WRONG_VALUE, found["msg"]))
        key = key_of(found["loc"])
        # Below a key with several types, pydantic reports one error for each of them.
        problems.setdefault(key, config.problem(code, message, (*table, *key), hint=fix(key, found)))
    return list(problems.values())


def unquoted_name_problems(
    config: Config, tables: tuple[str, ...], name: str, table: Any, known: Container[str]
) -> list[Problem]:
    """Finds names with a dot and without quotes, which TOML reads as a table in a table: one problem for each name."""
    if not isinstance(table, Mapping) or "." in name:
        return []
    problems = []
    for part, value in table.items():
        if isinstance(value, Mapping) and part not in known:
            hint = f"write [{dotted_key(config, (*tables, f'{name}.{part}'))}]"
            message = f"the name {name}.{part} lacks quotes, so TOML reads it as a table in a table"
            problems.append(config.problem(Code.UNKNOWN_KEY, message, (*tables, name, part), hint=hint))
    return problems
