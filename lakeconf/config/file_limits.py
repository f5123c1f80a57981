"""Limits of files, checked before a parser reads them, so that no file keeps it busy or exhausts its stack.

They count tokens, so they hold for every parser.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

# More than any file needs.
MAX_BYTES = 1024 * 1024

# Of an untrusted file: small enough that each check ends within seconds.
MAX_UNTRUSTED_BYTES = 64 * 1024
MAX_UNTRUSTED_TOKENS = 10_000
MAX_UNTRUSTED_SQL = 2 * 1024 * 1024  # of all queries together
MAX_DEPTH = 30
MAX_KEY = 255
Language: TypeAlias = Literal["TOML", "SQL"]

# A string or comment without an end reaches to the end of the file. A `step` or `link` nests one level up to an `end`:
# `a.b.c = 1`, `NOT NOT true` and `a[1][2]` are as deep as brackets in brackets.
_TOKENS: dict[Language, str] = {
    "TOML": r'''
        (?P<skipped>\#[^\n]* | """(?:[^"\\]|\\.|"(?!""))*(?:"{3,5}|\Z) | \'\'\'.*?(?:'{3,5}|\Z)
            | "(?:[^"\\\n]|\\.)*(?:"|$) | '[^'\n]*(?:'|$) | [\w-]+)
        | (?P<opening>[\[{]) | (?P<closing>[\]}]) | (?P<step>\.) | (?P<end>[=,\n])
    ''',
    "SQL": r"""
        (?P<skipped>--[^\n]* | /\*.*?(?:\*/|\Z) | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)
            | \.\s*(?:\w+|"[^"]*(?:"|\Z))?)
        | (?P<opening>[(\[{] | \bcase\b) | (?P<link>[)\]}](?=\s*[.(\[])) | (?P<closing>[)\]}] | \bend\b)
        | (?P<step>[-+~!@] | \bnot\b) | (?P<end>'(?:[^']|'')*(?:'|\Z) | "(?:[^"]|"")*(?:"|\Z) | \w+ | \S)
    """,
}


def too_deep(text: str, language: Language) -> int | None:
    """The offset at which a string, which may be invalid, nests more than `MAX_DEPTH` levels; None if it does not."""
    steps = [0]  # since the last end, at each open bracket
    for token in _tokens(text, language):
        kind = token.lastgroup
        if kind == "opening":
            steps.append(0)
        elif kind in ("closing", "link") and len(steps) > 1:
            steps.pop()
        if kind in ("step", "link"):
            steps[-1] += 1
        elif kind in ("closing", "end"):
            steps[-1] = 0
        if kind in ("opening", "step", "link") and len(steps) - 1 + sum(steps) > MAX_DEPTH:
            return token.start()
    return None


def too_long(text: str, language: Language) -> int | None:
    """Returns the offset of the first token beyond `MAX_UNTRUSTED_TOKENS`; None if there are fewer."""
    beyond = next(itertools.islice(_tokens(text, language), MAX_UNTRUSTED_TOKENS, None), None)
    return None if beyond is None else beyond.start()


def _tokens(text: str, language: Language) -> Iterator[re.Match[str]]:
    pattern = re.compile(_TOKENS[language], re.VERBOSE | re.DOTALL | re.IGNORECASE | re.MULTILINE)
    return pattern.finditer(text)
