"""The limits of a store's maintenance, and their texts in the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from lakeconf.errors import suggestion

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_DURATION = re.compile(r"(?=\d)" + "".join(rf"(?:(?P<{unit}>\d{{1,6}}){unit})?" for unit in _UNITS), re.ASCII)
_SIZE = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?) ?(?:[KMGT]i?)?B", re.ASCII | re.IGNORECASE)


class _Key(NamedTuple):
    description: str
    example: str


KEYS: Mapping[str, _Key] = {
    "deadline": _Key(
        "The time after which maintenance begins no further transaction, such as `30m`, `2h` or `1h30m`.", "30m"
    ),
    "memory_limit": _Key("DuckDB's memory during maintenance, such as `4GB`; DuckDB spills to disk.", "4GB"),
}


@dataclass(frozen=True)
class MaintenanceLimits:
    """The limits of a compaction, a flush or a rewrite that has none of its own.

    Attributes:
        deadline: The time after which no further transaction begins; None for no limit.
        memory_limit: DuckDB's memory, such as `4GB`; None for DuckDB's default.
    """

    deadline: timedelta | None = None
    memory_limit: str | None = None

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> MaintenanceLimits:
        """The limits in a table without problems."""
        deadline = texts.get("deadline")
        return cls(None if deadline is None else _duration(deadline), texts.get("memory_limit"))


def maintenance_problem(key: str, value: object) -> str | None:
    """Validates a key of a store's table `maintenance`.

    Args:
        key: The key.
        value: Its value.

    Returns:
        The problem in one sentence; None if the key is valid.
    """
    if key not in KEYS:
        return f"unknown key, {suggestion(key, KEYS, 'use one of: ' + ', '.join(KEYS))}"
    if not isinstance(value, str):
        return "must be a string"
    found: timedelta | float | None
    if key == "deadline":
        kind, found = "a duration", _duration(value)
    else:
        size = _SIZE.fullmatch(value)
        kind, found = "a size", None if size is None else float(size["number"])
    if found is None:
        return f"is not {kind}"
    return None if found else "must be more than 0"


def _duration(text: str) -> timedelta | None:
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    return timedelta(**{name: int(found[unit] or 0) for unit, name in _UNITS.items()})
