"""Reads the fenced code blocks of the pages below docs/."""

from __future__ import annotations

import re

from source_tree import REPOSITORY


def blocks(page: str, language: str) -> list[str]:
    """The text of every fenced block of this language in a page, given by its path below docs/."""
    text = (REPOSITORY / "docs" / page).read_text()
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return found


def block(page: str, language: str, marker: str) -> str:
    """The only block of this language that contains the marker."""
    (found,) = [text for text in blocks(page, language) if marker in text]
    return found


def named(page: str, language: str) -> dict[str, str]:
    """The blocks whose first line is a comment with a file name, by that name."""
    found = (re.match(r"(?:#|--) (\S+\.\w+)\n", text) for text in blocks(page, language))
    return {match.group(1): match.string for match in found if match}
