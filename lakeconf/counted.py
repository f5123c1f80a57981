"""Counts with their noun, as text for people."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number and its noun, such as `1 file` or `2,000 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
