"""TOML as text: where keys and values are, the lines to show of a problem, and values as TOML."""

from __future__ import annotations

import bisect
import itertools
import json
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from lakeconf.logs import escaped

Key: TypeAlias = "tuple[str | int, ...]"
# Patterns are compiled on first use: only errors need them.
_SPACE = r"[ \t]*"
_BETWEEN = r"(?:[ \t\r\n]|#[^\n]*)*"
_KEY_PART = r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z0-9_-]+'
_TEXT = r'"""(?:[^\\]|\\.)*?"{3,5}(?!")' + r"|'''.*?'{3,5}(?!')" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'"
_BARE_VALUE = r"[^,\]}#\r\n]+"
_WIDTH, _BEHIND = 80, 24
# Characters read on each side of the column: a hostile file may be one long line with many problems.
_AROUND = 200
_HIDDEN = "…"
_BARE_KEY = r"[A-Za-z0-9_-]+"


class _Scanner:
    """Scans the text once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.offsets: dict[Key, int] = {}  # the offset of the last part of each key
        self.hidden: list[tuple[int, int, str]] = []  # start, end and replacement of each value and comment
        self._implied: set[Key] = set()
        self._lengths: dict[Key, int] = {}

    def document(self) -> None:
        table: Key = ()
        self._between()
        while self.at < len(self.text):
            if self._take("["):
                table = self._header(is_array=self._take("["))
            else:
                self._pair(table)
            self._between()

    def _header(self, *, is_array: bool) -> Key:
        self._skip(_SPACE)
        offset, table = self._key(())
        if is_array:
            length = self._lengths[table] = self._lengths.get(table, 0) + 1
            table = (*table, length - 1)
            self.offsets[table] = offset
        self.at += 2 if is_array else 1
        return table

    def _pair(self, table: Key) -> None:
        _, key = self._key(table)
        self.at += len("=")
        self._skip(_SPACE)
        self._value(key)

    def _key(self, table: Key) -> tuple[int, Key]:
        """Reads a dotted key and the space after it; returns the offset of its last part, and its path."""
        key = table
        while True:
            match = self._skip(_KEY_PART)
            key = (*key, _decoded(match.group()))
            self._skip(_SPACE)
            is_last = not self._take(".")
            self._note(key, match.start(), implied=not is_last)
            if is_last:
                return match.start(), key
            if key in self._lengths:
                key = (*key, self._lengths[key] - 1)
            self._skip(_SPACE)

    def _note(self, key: Key, offset: int, *, implied: bool) -> None:
        if key not in self.offsets or (key in self._implied and not implied):
            self.offsets[key] = offset
            (self._implied.add if implied else self._implied.discard)(key)

    def _value(self, key: Key) -> None:
        if self._take("["):
            for index in self._items("]"):
                self.offsets[(*key, index)] = self.at
                self._value((*key, index))
        elif self._take("{"):
            for _ in self._items("}"):
                self._pair(key)
        else:
            value = self._skip(_TEXT if self.text[self.at] in "\"'" else _BARE_VALUE)
            self.hidden.append((value.start(), value.start() + len(value.group().rstrip()), "…"))

    def _items(self, end: str) -> Iterator[int]:
        """Yields the number of each item of an array or inline table; the caller reads the item."""
        self._between()
        for number in itertools.count():
            if self._take(end):
                return
            yield number
            self._between()
            self._take(",")
            self._between()

    def _between(self) -> None:
        space = self._skip(_BETWEEN)
        comments = re.compile("#[^\n]*").finditer(self.text, *space.span())
        self.hidden += [(*comment.span(), "") for comment in comments]

    def _take(self, character: str) -> bool:
        matches = self.text.startswith(character, self.at)
        self.at += matches
        return matches

    def _skip(self, pattern: str) -> re.Match[str]:
        match = re.compile(pattern, re.DOTALL).match(self.text, self.at)
        if match is None:
            raise ValueError(f"invalid TOML at character {self.at}")
        self.at = match.end()
        return match


def _decoded(part: str) -> str:
    if part[0] == "'":
        return part[1:-1]
    # tomllib decodes the escapes.
    return next(iter(tomllib.loads(f"{part} = 0"))) if part[0] == '"' else part


class TomlText:
    """Valid TOML, which has its original line ends."""

    def __init__(self, text: str) -> None:
        scanner = _Scanner(text)
        scanner.document()
        self._text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._spans = scanner.hidden
        # The line and column of each key.
        self.positions = {key: self._place(offset) for key, offset in scanner.offsets.items()}

    def excerpt(self, line: int, column: int) -> str:
        """Returns a line and below it a line with a caret, at most 80 columns wide, with `…` for each value."""
        start = self._starts[line - 1]
        offset = start + column - 1
        end = self._text.find("\n", offset)
        first, last = max(start, offset - _AROUND), min(len(self._text) if end < 0 else end, offset + _AROUND)
        before = self._shown(first, offset)
        return drawn(line, f"{_HIDDEN}{before}" if first > start else before, self._shown(offset, last))

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def _shown(self, first: int, last: int) -> str:
        pieces = []
        at = first
        for start, end, replacement in self._spans[bisect.bisect_right(self._spans, first, key=lambda span: span[1]) :]:
            if start >= last:
                break
            pieces += [self._text[at : max(at, start)], replacement]
            at = end
        return "".join([*pieces, self._text[at:last]])


def drawn(line: int, before: str, after: str) -> str:
    """Returns a line and below it a line with a caret, at most 80 columns wide."""
    before, after = _one_column_each(before), _one_column_each(after).rstrip()
    room = _WIDTH - len(f"  {line} | ")
    if len(before) > room - _BEHIND:
        before = _HIDDEN + before[-(room - _BEHIND - 1) :]
    if len(before) + len(after) > room:
        after = after[: room - len(before) - 1] + _HIDDEN
    return f"  {line} | {before}{after}\n  {' ' * len(str(line))} | {' ' * len(before)}^"


def _one_column_each(text: str) -> str:
    """Escapes the characters that control a terminal or are not one column wide."""
    plain = escaped(text.replace("\t", " ").replace("\r", " "))
    return "".join(character if _is_one_column(character) else f"\\u{ord(character):04x}" for character in plain)


def _is_one_column(character: str) -> bool:
    is_wide = unicodedata.east_asian_width(character) in ("W", "F")
    return character.isprintable() and not is_wide and unicodedata.category(character) not in ("Mn", "Me")


def dotted(key: Key) -> str:
    """Formats a key as in TOML, such as `stores."my.lake".alias`; items of arrays as `[0]`."""
    parts = [
        f"[{part}]" if isinstance(part, int) else part if re.fullmatch(_BARE_KEY, part) else _string(part)
        for part in key
    ]
    return ".".join(parts).replace(".[", "[")


def toml_value(value: Any) -> str:
    """Formats a value as inline TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{dotted((key,))} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    # Numbers, `inf` and `nan`, dates and times are written in the same way in Python.
    return str(value)


def _string(text: str) -> str:
    # A JSON string is a TOML string, except that TOML requires an escape for U+007F.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
