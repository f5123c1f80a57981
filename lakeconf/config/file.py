"""Finds and reads the configuration file, and locates its keys."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
# Those of TOML. Python converts integers of many digits neither from nor to text.
_INTEGERS = range(-(2**63), 2**63)
_PLACE = r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$"
_TOO_LARGE = ("an integer is too large", f"use at most 64 bits: from {-(2**63)} to {2**63 - 1}")
_TOO_DEEP = ("tables or lists are nested too deeply", f"nest at most {MAX_DEPTH} levels")
# Keys in messages of tomllib: "Cannot declare ('a', 'b') twice".
_KEY = r"\(.*\)|(?<=key )['\"].*"
_FORM = 'write key = "text" on a line of its own, with a string in quotes (https://toml.io)'


@dataclass(frozen=True)
class Source:
    """A configuration as written in its file."""

    data: Table = field(repr=False)  # its content, without inheritance or variables resolved
    path: Path | None = None  # the file; None for a dict
    text: str = field(default="", repr=False)  # the file's text, used to locate keys
    prefix: Key = ()  # the key of the table that holds it: `tool.lakeconf` in pyproject.toml

    @property
    def folder(self) -> Path:
        """The base folder of relative paths; the working directory for a dict."""
        return self.path.parent if self.path is not None else Path.cwd()

    def position(self, key: Key) -> tuple[int, int] | None:
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
    hint = "pass the path of a file as text"
    raise ConfigError([Problem(Code.UNREADABLE.code, f"{path!r} is not a path", hint)])


def find(source: str | os.PathLike[str] | None = None, *, trusted: bool = True) -> Source:
    """Finds and reads the configuration."""
    if source is not None:
        return _explicit(path_of(source), "", trusted=trusted)
    from_environment = os.environ.get(LOCATION_VARIABLE)
    if from_environment:
        return _explicit(Path(from_environment), f" (from {LOCATION_VARIABLE})", trusted=trusted)
    folders = list(_folders_upward(Path.cwd()))
    for folder in folders:
        found = _in_folder(folder, trusted=trusted)
        if found is not None:
            return found
    raise _not_found(", ".join(str(folder) for folder in folders), "")


def _explicit(path: Path, why: str, *, trusted: bool) -> Source:
    path = Path(os.path.abspath(path.expanduser()))
    if path.is_dir():
        found = _in_folder(path, trusted=trusted)
        if found is None:
            raise _not_found(str(path), why)
        return found
    if not path.exists():
        raise _failure(Code.NO_CONFIGURATION, f"file not found{why}", path, hint="check the path")
    text = _text(path, trusted=trusted)
    data = _parsed(path, text)
    return _pyproject(path, text, data) if path.name == PYPROJECT else Source(data, path, text)


def _in_folder(folder: Path, *, trusted: bool) -> Source | None:
    path = folder / FILE_NAME
    if path.is_file():
        text = _text(path, trusted=trusted)
        return Source(_parsed(path, text), path, text)
    path = folder / PYPROJECT
    # Do not parse a pyproject.toml that does not mention lakeconf: it may be long or invalid.
    if path.is_file() and "lakeconf" in (text := _text(path, trusted=trusted)):
        data = _parsed(path, text)
        if "lakeconf" in data.get("tool", {}):
            return _pyproject(path, text, data)
    return None


def _pyproject(path: Path, text: str, data: Table) -> Source:
    own = data.get("tool", {}).get("lakeconf")
    if not isinstance(own, Mapping):
        raise _failure(
            Code.NO_TABLE,
            "the table [tool.lakeconf] is missing",
            path,
            hint="write [tool.lakeconf.stores.dev.metadata_backend] …, or declare the stores in lakeconf.toml",
        )
    return Source(own, path, text, ("tool", "lakeconf"))


def _folders_upward(start: Path) -> Iterator[Path]:
    folders = [start, *start.parents]
    root = next((number for number, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    return iter(folders[: root + 1])


def _text(path: Path, *, trusted: bool) -> str:
    if trusted:
        return file_text(path)
    root = next((folder for folder in path.parents if (folder / ".git").exists()), path.parent)
    # Problems show names of keys, and a link may lead to any file of the machine.
    if not path.resolve().is_relative_to(root.resolve()):
        hint = f"replace the link with a file below {root}"
        raise _failure(Code.UNREADABLE, "the file is a link that leads out of its repository", path, hint=hint)
    return file_text(path, MAX_UNTRUSTED_BYTES)


def file_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Reads a file that may contain secrets; its `repr` is hidden."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            message = f"the file is larger than {max_bytes // 1024} KiB"
            raise _failure(Code.UNREADABLE, message, path, hint="move models to other files")
        # Error reporting tools show the local variables of each frame, and the file may contain secrets.
        return HiddenText(content.decode("utf-8-sig"), "…")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
    except OSError as error:
        raise _failure(Code.UNREADABLE, f"the file cannot be read: {error.strerror}", path) from error
    content = b""
    problem = Problem(Code.UNREADABLE.code, "the file is not UTF-8", "save it as UTF-8", file=path, line=line, column=1)
    raise ConfigError([problem])


def _parsed(path: Path, text: str) -> Table:
    deep = too_deep(text, "TOML")
    if deep is not None:
        raise _not_toml(*_TOO_DEEP, path, _place(text, deep))
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
    except ValueError:  # an integer of more digits than Python reads
        digits = re.search(r"[0-9_]{1000,}", text)
        raise _not_toml(*_TOO_LARGE, path, None if digits is None else _place(text, digits.start())) from None
    else:
        check_limits(data, path, text)
        return data
    line, column = _syntax_place(message, text)
    # Invalid TOML may have a part of a secret in the place of a key.
    message = re.sub(_KEY, "…", re.sub(_PLACE, "", message))
    raise _not_toml(f"invalid TOML: {message}", _FORM, path, (line, column))


def check_limits(data: Table, path: Path | None = None, text: str = "") -> None:
    """Rejects tables and lists nested too deeply, keys that are long or no text, and integers of over 64 bits."""
    level: list[tuple[Key, Any]] = [((), data)]
    for _ in range(MAX_DEPTH):
        items = [((*key, name), value) for key, table in level for name, value in _items(table)]
        if not all(isinstance(name, str) for _, table in level if isinstance(table, Mapping) for name in table):
            raise ConfigError([Problem(Code.WRONG_TYPE.code, "a key is not a text", "write keys as text")])
        for key, value in items:
            if isinstance(key[-1], str) and len(key[-1]) > MAX_KEY:
                message, hint = f"a key is longer than {MAX_KEY} characters", "shorten it"
                raise _not_toml(message, hint, path, TomlText(text).positions.get(key))
            if isinstance(value, int) and value not in _INTEGERS:
                raise _not_toml(*_TOO_LARGE, path, TomlText(text).positions.get(key))
        level = [(key, value) for key, value in items if isinstance(value, Mapping | list | tuple)]
        if not level:
            return
    raise _not_toml(*_TOO_DEEP, path, None)


def _items(table: Mapping[Any, Any] | Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    return table.items() if isinstance(table, Mapping) else enumerate(table)


def _not_toml(message: str, hint: str, path: Path | None, place: tuple[int, int] | None) -> ConfigError:
    line, column = place or (None, None)
    return ConfigError([Problem(Code.NOT_TOML.code, message, hint, file=path, line=line, column=column)])


def _place(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _syntax_place(message: str, text: str) -> tuple[int, int]:
    match = re.search(_PLACE, message)
    if match is not None and match.group(1):
        return int(match.group(1)), int(match.group(2))
    last = text.rstrip().split("\n")
    return len(last), len(last[-1]) + 1


def _failure(code: Code, message: str, path: Path, *, hint: str | None = None) -> ConfigError:
    return ConfigError([Problem(code.code, message, hint, file=path)])


def _not_found(looked_in: str, why: str) -> ConfigError:
    problem = Problem(
        Code.NO_CONFIGURATION.code,
        f"neither {FILE_NAME} nor [tool.lakeconf] in {PYPROJECT} was found in {looked_in}{why}",
        f"create one with lakeconf init, name one with {LOCATION_VARIABLE} or --config, or change the folder",
    )
    return ConfigError([problem])
