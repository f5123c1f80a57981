"""Sizes in bytes, as text for people."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def byte_size(count: float) -> str:
    """A number of bytes in the largest binary unit that fits, such as `662 B` or `1.5 MiB`."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.1f}".removesuffix(".0") + f" {_UNITS[unit]}"
