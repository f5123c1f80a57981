"""Sizes and counts in words."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_PARSED = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def byte_size(count: float) -> str:
    """A number of bytes in the largest binary unit that fits, such as `662 B` or `1.5 MiB`."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.1f}".removesuffix(".0") + f" {_UNITS[unit]}"


def parsed_size(text: str) -> int | None:
    """The bytes of a size in an option: a number, optionally with a unit, such as `512MB`; None if it is not a size."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text[len(digits) :].strip().lower()
    return int(float(digits) * _PARSED.get(unit or "b", 1)) if digits else None


def counted(count: int, noun: str) -> str:
    """A number and its noun, such as `1 file` or `2,000 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
