"""The options of a store: ATTACH, limits of maintenance, and the committer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from lakeconf.errors import LakeconfError, suggestion
from lakeconf.logs import escaped
from lakeconf.secret import Secret

# https://ducklake.select/docs/stable/duckdb/usage/connecting; META_… options are passed to the metadata database.
ATTACH_OPTIONS: Mapping[str, type] = {
    "automatic_migration": bool,
    "create_if_not_exists": bool,
    "data_inlining_row_limit": int,
    "encrypted": bool,
    "metadata_catalog": str,
    "override_data_path": bool,
    "read_only": bool,
    "snapshot_time": str,
    "snapshot_version": int,
    "write_deletion_vectors": bool,
}
# Names of DuckDB's own databases and schemas.
RESERVED_NAMES = ("information_schema", "main", "memory", "pg_catalog", "system", "temp")
_PINS = {"snapshot_version", "snapshot_time"}


def reads_only(attach_options: Mapping[str, object]) -> bool:
    """True if these options attach a lake read-only."""
    return bool(attach_options.get("read_only") or is_pinned(attach_options))


def is_pinned(attach_options: Mapping[str, object]) -> bool:
    """True if these options attach a lake at a fixed snapshot."""
    return not _PINS.isdisjoint(attach_options)


def creates_nothing(attach_options: Mapping[str, object]) -> bool:
    """True if a lake that does not exist is not created with these options."""
    return reads_only(attach_options) or attach_options.get("create_if_not_exists") is False


def attach_options_problem(attach_options: Mapping[str, object], alias: str) -> str | None:
    """Validates the combination of ATTACH options that are valid individually."""
    if "metadata_catalog" in attach_options and str(attach_options["metadata_catalog"]).lower() == alias.lower():
        return f"metadata_catalog: {alias!r} is the alias of the lake itself"
    if attach_options.keys() >= _PINS:
        return "snapshot_time: the lake is already pinned by snapshot_version"
    if is_pinned(attach_options) and attach_options.get("read_only") is False:
        return "read_only: a lake that is pinned at a snapshot is read-only"
    return None


def attach_option_problem(key: str, value: object) -> str | None:
    """Validates an ATTACH option."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", key):
        return "the name of an option must contain only lower-case letters, digits and underscores"
    if isinstance(value, str) and escaped(value) != value:
        return "must not contain control characters, such as line ends"
    if key.startswith("meta_"):
        return None if isinstance(value, (str, int, bool, Secret)) else "must be a string, a number or a boolean"
    expected = ATTACH_OPTIONS.get(key)
    if expected is None:
        hint = suggestion(key, ATTACH_OPTIONS, f"use one of: {', '.join(ATTACH_OPTIONS)}")
        return f"unknown attach option, {hint}"
    fits = isinstance(value, expected) and not (expected is int and isinstance(value, bool))
    if not fits:
        names = {bool: "true or false", int: "an integer", str: "a string"}
        return f"must be {names[expected]}"
    if expected is int and int(str(value)) < 0:
        return "must not be negative"
    if key == "metadata_catalog" and str(value).lower() in ("", *RESERVED_NAMES):
        return f"must name a new database, but DuckDB reserves {value!r}" if value else "must not be empty"
    return None


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
    """Validates a key of a store's table `maintenance`."""
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


# The default, today that of `public`; DuckDB's statements; DuckLake's staged commit, if it can.
COMMITTERS = ("auto", "public", "staged")


def checked_committer(store: str, committer: str) -> str:
    """A committer, if it exists."""
    if committer not in COMMITTERS:
        raise LakeconfError(
            f"stores.{store}.committer: must be one of {', '.join(COMMITTERS)}",
            hint='write committer = "auto", or omit it',
        )
    return committer
