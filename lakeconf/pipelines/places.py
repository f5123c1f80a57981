"""Places in the files of a pipeline, as text."""

from __future__ import annotations

from pathlib import Path

from lakeconf.config.codes import Code
from lakeconf.config.model import Config


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
