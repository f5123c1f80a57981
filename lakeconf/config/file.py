"""Finds and reads the configuration file, and locates its keys."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from lakeconf.config.codes import Code
from lakeconf.config.file_limits import MAX_BYTES, MAX_DEPTH, MAX_KEY, MAX_UNTRUSTED_BYTES, too_deep
from lakeconf.config.toml_text import Key, TomlText, dotted
from lakeconf.errors import ConfigError, Problem
from lakeconf.secret import HiddenText

FILE_NAME = "lakeconf.toml"
PYPROJECT = "pyproject.toml"
LOCATION_VARIABLE = "LAKECONF_CONFIG"
Table: TypeAlias = Mapping[str, Any]
Place: TypeAlias = tuple[int, int]  # a line and a column
# Those of TOML. Python converts integers of many digits neither from nor to text.
_INTEGERS = range(-(2**63), 2**63)
_PLACE = r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$"
# Keys in messages of tomllib: "Cannot declare ('a', 'b') twice".
_KEY = r"\(.*\)|(?<=key )['\"].*"
_FORMS = (
    ("twice|overwrite", "declare each table and each key once: move the keys below one header"),
    ("hex value|scape", "write a backslash in single quotes: 'C:\\lake'"),
)
_FORM = 'write key = "text" on a line of its own, with a string in quotes (https://toml.io)'


@dataclass(frozen=True)
class ConfigSource:
    """A configuration as written in its file."""

    data: Table = field(repr=False)  # its content, without inheritance or variables resolved
    path: Path | None = None  # the file; None for a dict
    text: str = field(default="", repr=False)  # the file's text, used to locate keys
    prefix: Key = ()  # the key of the table that holds it: `tool.lakeconf` in pyproject.toml

    @property
    def folder(self) -> Path:
        """The base folder of relative paths; the working directory for a dict."""
        return self.path.parent if self.path is not None else Path.cwd()

    def position(self, key: Key) -> Place | None:
        """Returns the 1-based line and column of a key, or of the nearest enclosing table in the file."""
        full = (*self.prefix, *key)
        around = (full[:length] for length in range(len(full), 0, -1))
        return next((self._toml.positions[part] for part in around if part in self._toml.positions), None)

    def problem(
        self, code: Code, message: str, *, hint: str | None = None, key: Key = (), store: str | None = None
    ) -> Problem:
        """Creates a problem with the position of a key."""
        line, column = self.position(key) or (None, None)
        name = dotted(key) or None
        excerpt = self._toml.excerpt(line, column) if line and column else None
        return Problem(code.code, message, hint, name, store, self.path, line, column, excerpt)

    @cached_property
    def _toml(self) -> TomlText:
        return TomlText(self.text)


def path_of(path: object) -> Path:
    """An argument that is the path of a file."""
    if isinstance(path, str | os.PathLike) and isinstance(os.fspath(path), str):
        return Path(path)
    raise failure(Code.UNREADABLE, f"{path!r} is not a path", hint="pass the path as a string")


def find(source: str | os.PathLike[str] | None, *, trusted: bool) -> ConfigSource:
    """Finds and reads the configuration."""
    if source is not None:
        return _explicit(path_of(source), "", trusted=trusted)
    from_environment = os.environ.get(LOCATION_VARIABLE)
    if from_environment:
        return _explicit(Path(from_environment), f" (from {LOCATION_VARIABLE})", trusted=trusted)
    here = Path.cwd()
    root = repository_of(here) or here
    folders = [folder for folder in (here, *here.parents) if folder.is_relative_to(root)]
    for folder in folders:
        in_folder = _in_folder(folder, trusted=trusted)
        if in_folder is not None:
            return in_folder
    raise _not_found(", ".join(map(str, folders)))


def _explicit(path: Path, why: str, *, trusted: bool) -> ConfigSource:
    path = Path(os.path.abspath(path.expanduser()))
    if path.is_dir():
        source = _in_folder(path, trusted=trusted)
        if source is None:
            raise _not_found(f"{path}{why}")
        return source
    if not path.exists():
        raise failure(Code.NO_CONFIGURATION, f"file not found{why}", path, hint="check the path")
    text = _text(path, trusted=trusted)
    data = _parsed(path, text)
    return _pyproject(path, text, data) if path.name == PYPROJECT else ConfigSource(data, path, text)


def _in_folder(folder: Path, *, trusted: bool) -> ConfigSource | None:
    path = folder / FILE_NAME
    if path.is_file():
        text = _text(path, trusted=trusted)
        return ConfigSource(_parsed(path, text), path, text)
    path = folder / PYPROJECT
    # Do not parse a pyproject.toml that does not mention lakeconf: it may be long or invalid.
    if path.is_file() and "lakeconf" in (text := _text(path, trusted=trusted)):
        data = _parsed(path, text)
        if "lakeconf" in data.get("tool", {}):
            return _pyproject(path, text, data)
    return None


def _pyproject(path: Path, text: str, data: Table) -> ConfigSource:
    own = data.get("tool", {}).get("lakeconf")
    if not isinstance(own, Mapping):
        raise failure(
            Code.NO_TABLE,
            "the table [tool.lakeconf] is missing",
            path,
            hint="write [tool.lakeconf.stores.dev.metadata_backend] …, or declare the stores in lakeconf.toml",
        )
    return ConfigSource(own, path, text, ("tool", "lakeconf"))


def repository_of(folder: Path) -> Path | None:
    """The root of the git repository that contains a folder; None if there is none."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def _text(path: Path, *, trusted: bool) -> str:
    if trusted:
        return file_text(path)
    root = repository_of(path.parent) or path.parent
    # Problems show names of keys, and a link may lead to any file of the machine.
    if not path.resolve().is_relative_to(root.resolve()):
        hint = f"replace the link with a file below {root}"
        raise failure(Code.UNREADABLE, "the file is a link that leads out of its repository", path, hint=hint)
    return file_text(path, MAX_UNTRUSTED_BYTES)


def file_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Reads a file that may contain secrets; its `repr` is hidden."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            message = f"the file is larger than {max_bytes // 1024} KiB"
            raise failure(Code.UNREADABLE, message, path, hint="move models to other files")
        # Error reporting tools show the local variables of each frame, and the file may contain secrets.
        return HiddenText(content.decode("utf-8-sig"), "…")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
    except OSError as error:
        raise failure(Code.UNREADABLE, f"the file cannot be read: {error.strerror}", path) from error
    content = b""
    raise failure(Code.UNREADABLE, "the file is not UTF-8", path, (line, 1), hint="save it as UTF-8")


def _parsed(path: Path, text: str) -> Table:
    deep = too_deep(text, "TOML")
    if deep is not None:
        raise _too_deep(path, _place(text, deep))
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
    except ValueError:  # an integer of more digits than Python reads
        digits = re.search(r"[0-9_]{1000,}", text)
        raise _too_large(path, None if digits is None else _place(text, digits.start())) from None
    else:
        check_limits(data, path, text)
        return data
    place = _syntax_place(message, text)
    # Invalid TOML may have a part of a secret in the place of a key.
    message = re.sub(_KEY, "…", re.sub(_PLACE, "", message))
    hint = next((hint for pattern, hint in _FORMS if re.search(pattern, message)), _FORM)
    raise failure(Code.NOT_TOML, f"invalid TOML: {message}", path, place, hint=hint)


def check_limits(data: Table, path: Path | None = None, text: str = "") -> None:
    """Rejects tables and lists nested too deeply, keys that are long or no string, and integers of over 64 bits."""
    level: list[tuple[Key, Any]] = [((), data)]
    for _ in range(MAX_DEPTH):
        tables = [(key, table.items() if isinstance(table, Mapping) else enumerate(table)) for key, table in level]
        items = [((*key, name), value) for key, table in tables for name, value in table]
        if not all(isinstance(name, str) for _, table in level if isinstance(table, Mapping) for name in table):
            raise failure(Code.WRONG_TYPE, "a key is not a string", hint="write keys as strings")
        for key, value in items:
            if isinstance(key[-1], str) and len(key[-1]) > MAX_KEY:
                message = f"a key is longer than {MAX_KEY} characters"
                raise failure(Code.NOT_TOML, message, path, TomlText(text).positions.get(key), hint="use a shorter key")
            if isinstance(value, int) and value not in _INTEGERS:
                raise _too_large(path, TomlText(text).positions.get(key))
        level = [(key, value) for key, value in items if isinstance(value, Mapping | list | tuple)]
        if not level:
            return
    raise _too_deep(path)


def _too_deep(path: Path | None, place: Place | None = None) -> ConfigError:
    message, hint = "tables or lists are nested too deeply", f"nest at most {MAX_DEPTH} levels"
    return failure(Code.NOT_TOML, message, path, place, hint=hint)


def _too_large(path: Path | None, place: Place | None) -> ConfigError:
    hint = f"use at most 64 bits: from {_INTEGERS.start} to {_INTEGERS.stop - 1}"
    return failure(Code.NOT_TOML, "an integer is too large", path, place, hint=hint)


def _place(text: str, offset: int) -> Place:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _syntax_place(message: str, text: str) -> Place:
    match = re.search(_PLACE, message)
    if match is not None and match.group(1):
        return int(match.group(1)), int(match.group(2))
    last = text.rstrip().split("\n")
    return len(last), len(last[-1]) + 1


def failure(
    code: Code, message: str, path: Path | None = None, place: Place | None = None, *, hint: str | None = None
) -> ConfigError:
    """The error for a file that cannot be used, at a line and a column if they are known."""
    line, column = place or (None, None)
    return ConfigError([Problem(code.code, message, hint, file=path, line=line, column=column)])


def _not_found(looked_in: str) -> ConfigError:
    message = f"neither {FILE_NAME} nor [tool.lakeconf] in {PYPROJECT} was found in {looked_in}"
    hint = f"create one with lakeconf init, name one with {LOCATION_VARIABLE} or --config, or change the folder"
    return failure(Code.NO_CONFIGURATION, message, hint=hint)
