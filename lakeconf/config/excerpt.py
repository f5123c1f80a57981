"""Shows a line of the configuration with a caret below a column, without values and comments: they may be secrets."""

from __future__ import annotations

import bisect
import re
import tomllib
import unicodedata

from lakeconf.config.positions import hidden_spans
from lakeconf.logs import escaped

_WIDTH, _BEHIND = 80, 24
# Characters read on each side of the column: a hostile file may be one long line with many problems.
_AROUND = 200
_HIDDEN = "…"
# Longer or other names at the start of a line of invalid TOML may be part of a secret, such as a line of base64.
_NAME = r"[a-z][a-z0-9_]{0,29}"
_STATEMENT = (
    rf"[ \t]*(?:{_NAME}(?:\.{_NAME})*[ \t]*=|\[{{1,2}}{_NAME}(?:\.{_NAME})*(?:\]{{1,2}}|(?=[ \t\r]*(?:\n|\Z))))"
)


class Excerpts:
    """Lines of valid TOML.

    Args:
        text: The TOML with its original line ends.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._spans = hidden_spans(text)

    def at(self, line: int, column: int) -> str:
        """Returns a line and below it a line with a caret, at most 80 columns wide, with `…` for each value.

        Args:
            line: The 1-based line.
            column: The 1-based column.
        """
        start = self._starts[line - 1]
        offset = start + column - 1
        end = self._text.find("\n", offset)
        first, last = max(start, offset - _AROUND), min(len(self._text) if end < 0 else end, offset + _AROUND)
        before = self._shown(first, offset)
        return drawn(line, f"{_HIDDEN}{before}" if first > start else before, self._shown(offset, last))

    def _shown(self, first: int, last: int) -> str:
        pieces = []
        at = first
        for start, end, replacement in self._spans[bisect.bisect_right(self._spans, first, key=lambda span: span[1]) :]:
            if start >= last:
                break
            pieces += [self._text[at : max(at, start)], replacement]
            at = end
        return "".join([*pieces, self._text[at:last]])


def syntax_excerpt(text: str, line: int, column: int) -> str | None:
    """Returns the place of a syntax error as `Excerpts.at` does; None if the line may be part of a value.

    Args:
        text: The invalid TOML.
        line: The 1-based line of the error.
        column: The 1-based column of the error.
    """
    start = next((match.end() for index, match in enumerate(re.finditer(r"^|\n", text), 1) if index == line), 0)
    found = re.compile(_STATEMENT).match(text, start)
    if found is None:
        return None
    try:
        tomllib.loads(text[:start])
    except (ValueError, RecursionError):
        return None
    shown = found.group()
    has_more = text[found.end() :].partition("\n")[0].strip() != ""
    shown += f" {_HIDDEN}" if has_more else ""
    caret = min(column - 1, len(shown) - 1 if has_more else len(shown))
    return drawn(line, shown[:caret], shown[caret:])


def drawn(line: int, before: str, after: str) -> str:
    """Returns a line and below it a line with a caret, at most 80 columns wide.

    Args:
        line: The 1-based number of the line.
        before: The text of the line before the caret.
        after: The rest of the line.
    """
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
    return "".join(one if _is_one_column(one) else f"\\u{ord(one):04x}" for one in plain)


def _is_one_column(character: str) -> bool:
    is_wide = unicodedata.east_asian_width(character) in ("W", "F")
    return character.isprintable() and not is_wide and unicodedata.category(character) not in ("Mn", "Me")
