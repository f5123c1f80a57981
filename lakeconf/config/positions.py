"""Finds the line and column of every key in valid TOML.

tomllib reports positions of syntax errors only. Other errors scan the text a second time for theirs.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from collections.abc import Mapping
from typing import TypeAlias

Key: TypeAlias = "tuple[str | int, ...]"

# Patterns are compiled on first use: only errors need them.
_SPACE = r"[ \t]*"
_BETWEEN = r"(?:[ \t\r\n]|#[^\n]*)*"
_KEY_PART = r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z0-9_-]+'
_TEXT = r'"""(?:[^\\]|\\.)*?"{3,5}(?!")' + r"|'''.*?'{3,5}(?!')" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'"
_BARE_VALUE = r"[^,\]}#\r\n]+"


def key_positions(text: str) -> Mapping[Key, tuple[int, int]]:
    """Returns the position of each key.

    Args:
        text: Valid TOML with its original line ends.

    Returns:
        The 1-based line and column of each key, by the path of the key (items of arrays by their index).
    """
    scanner = _Scanner(text)
    scanner.document()
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return {key: _place(starts, offset) for key, offset in scanner.offsets.items()}


def hidden_spans(text: str) -> list[tuple[int, int, str]]:
    """Returns the values and comments, which may be secrets.

    Args:
        text: Valid TOML with its original line ends.

    Returns:
        The start, the end and the replacement of each, in the order of the text.
    """
    scanner = _Scanner(text)
    scanner.document()
    return scanner.hidden


def _place(starts: list[int], offset: int) -> tuple[int, int]:
    line = bisect.bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


class _Scanner:
    """Scans the text once.

    Attributes:
        offsets: The offset of the last part of each key.
        hidden: The start, the end and the replacement of each value and comment.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.offsets: dict[Key, int] = {}
        self.hidden: list[tuple[int, int, str]] = []
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
            self._array(key)
        elif self._take("{"):
            self._inline_table(key)
        else:
            value = self._skip(_TEXT if self.text[self.at] in "\"'" else _BARE_VALUE)
            self.hidden.append((value.start(), value.start() + len(value.group().rstrip()), "…"))

    def _array(self, key: Key) -> None:
        self._between()
        index = 0
        while not self._take("]"):
            self.offsets[(*key, index)] = self.at
            self._value((*key, index))
            self._between()
            self._take(",")
            self._between()
            index += 1

    def _inline_table(self, key: Key) -> None:
        self._between()
        while not self._take("}"):
            self._pair(key)
            self._between()
            self._take(",")
            self._between()

    def _between(self) -> None:
        space = self._skip(_BETWEEN)
        comments = re.compile("#[^\n]*").finditer(self.text, *space.span())
        self.hidden += [(*comment.span(), "") for comment in comments]

    def _take(self, character: str) -> bool:
        found = self.text.startswith(character, self.at)
        self.at += found
        return found

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
