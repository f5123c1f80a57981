"""The options of a store: ATTACH, limits of maintenance, and the committer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from lakeconf.arguments import LONGEST_DAYS
from lakeconf.backends.secrecy import place_fault
from lakeconf.errors import LakeconfError, suggestion
from lakeconf.logs import escaped
from lakeconf.secret import Secret

_TYPES = {bool: "true or false", int: "an integer", str: "a string"}
_LOOK_UP = "look up the META_ options in the documentation of the catalog's database"
# Names of DuckDB's own databases and schemas.
RESERVED_NAMES = ("information_schema", "main", "memory", "pg_catalog", "system", "temp")
_PINS = {"snapshot_version", "snapshot_time"}
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_DURATION = re.compile(r"(?=\d)" + "".join(rf"(?:(?P<{unit}>\d{{1,6}}){unit})?" for unit in _UNITS), re.ASCII)
_SIZE = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?) ?(?:[KMGT]i?)?B", re.ASCII | re.IGNORECASE)
# The default, today that of `public`; DuckDB's statements; DuckLake's staged commit, if it can.
COMMITTERS = ("auto", "public", "staged")


class Option(NamedTuple):
    """A key of a table of options."""

    kind: type
    description: str
    example: str | int | bool


_ATTACH = {
    "automatic_migration": Option(bool, "Migrate the catalog to the version of the DuckLake extension.", example=True),
    "create_if_not_exists": Option(bool, "Create the lake if it does not exist; default true.", example=False),
    "data_inlining_row_limit": Option(
        int, "Store inserts of at most this many rows in the catalog; default 0.", example=100
    ),
    "encrypted": Option(bool, "Encrypt the Parquet files of a new lake.", example=True),
    "metadata_catalog": Option(
        str, "Name under which the catalog database is attached; no other database may have it.", example="meta"
    ),
    "override_data_path": Option(
        bool, "Use the path of the storage backend even if the lake was created with another path.", example=True
    ),
    "read_only": Option(bool, "Attach read-only.", example=True),
    "snapshot_time": Option(str, "Attach the lake read-only as of this time.", example="2026-01-31"),
    "snapshot_version": Option(int, "Attach the lake read-only at this snapshot.", example=12),
}
_MAINTENANCE = {
    "backups": Option(
        str,
        "The folder or URI of backups whose files `lakeconf maintain` keeps, such as `s3://acme/backups`.",
        "s3://acme/backups",
    ),
    "deadline": Option(
        str, "The time after which a compaction begins no further transaction, such as `30m`, `2h` or `1h30m`.", "30m"
    ),
    "keep_files": Option(
        str, "The time for which `lakeconf maintain` keeps files that no snapshot needs; default `2d`.", "2d"
    ),
    "keep_snapshots": Option(str, "The age at which `lakeconf maintain` expires snapshots; default `30d`.", "7d"),
    "owns": Option(
        str,
        "The folder of adopted files that the lake owns now: maintenance rewrites and removes them.",
        "/data/events",
    ),
    "memory_limit": Option(str, "DuckDB's memory during maintenance, such as `4GB`; DuckDB spills to disk.", "4GB"),
}
# The options by table of a store. META_ options of ATTACH are passed to the metadata database:
# https://ducklake.select/docs/stable/duckdb/usage/connecting
OPTIONS: Mapping[str, Mapping[str, Option]] = {"attach_options": _ATTACH, "maintenance": _MAINTENANCE}


class OptionFault(NamedTuple):
    """Why an option is wrong."""

    kind: Literal["key", "type", "value"]  # whether the key is unknown, or its value has the wrong type or is wrong
    message: str  # the reason, without the key
    hint: str  # what to do


class StoreError(LakeconfError):
    """A key of a store is wrong."""

    def __init__(self, store: str, key: str, problem: str, *, hint: str | None = None) -> None:
        super().__init__(f"stores.{store}{'.' if key else ''}{key}: {problem}", hint=hint)
        self.key = key  # below the store; empty for the store as a whole
        self.problem = problem  # the message without the key


def reads_only(attach_options: Mapping[str, object]) -> bool:
    """True if these options attach a lake read-only."""
    return bool(attach_options.get("read_only") or is_pinned(attach_options))


def is_pinned(attach_options: Mapping[str, object]) -> bool:
    """True if these options attach a lake at a fixed snapshot."""
    return not _PINS.isdisjoint(attach_options)


def creates_nothing(attach_options: Mapping[str, object]) -> bool:
    """True if a lake that does not exist is not created with these options."""
    return reads_only(attach_options) or attach_options.get("create_if_not_exists") is False


def check_options(store: str, table: str, values: Mapping[str, object]) -> None:
    """Checks each option of a table."""
    for key, value in values.items():
        if (fault := option_fault(table, key, value)) is not None:
            raise StoreError(store, f"{table}.{key}", fault.message, hint=fault.hint)


def check_attach_options(store: str, options: Mapping[str, object], alias: str) -> None:
    """Checks the combination of ATTACH options that are valid individually."""
    if "metadata_catalog" in options and str(options["metadata_catalog"]).lower() == alias.lower():
        key, problem = "metadata_catalog", f"{alias!r} is the alias of the lake itself"
    elif options.keys() >= _PINS:
        key, problem = "snapshot_time", "the lake is already pinned by snapshot_version"
    elif is_pinned(options) and options.get("read_only") is False:
        key, problem = "read_only", "a lake that is pinned at a snapshot is read-only"
    else:
        return
    raise StoreError(store, f"attach_options.{key}", problem)


def option_fault(table: str, key: str, value: object) -> OptionFault | None:
    """Returns what is wrong with an option; None if it is valid."""
    is_meta = table == "attach_options" and key.lower().startswith("meta_")
    option = OPTIONS[table].get(key)
    if option is None and not is_meta:
        what = "unknown attach option" if table == "attach_options" else "unknown key"
        return OptionFault("key", what, suggestion(key, OPTIONS[table], f"use one of: {', '.join(OPTIONS[table])}"))
    if option is None and not re.fullmatch(r"[a-z_][a-z0-9_]*", key):
        message = "the name of an option must contain only lower-case letters, digits and underscores"
        return OptionFault("key", message, _LOOK_UP)
    kinds: tuple[type, ...] = (str, int, bool, Secret)
    expected, hint = "a string, a number or a boolean", _LOOK_UP
    if option is not None:
        kinds = (option.kind,)
        expected, hint = _TYPES[option.kind], f"write {key} = {json.dumps(option.example)}"
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds == (int,)):
        return OptionFault("type", f"must be {expected}", hint)
    is_plain = not isinstance(value, str) or escaped(value) == value
    wrong = _value_fault(key, value) if is_plain else "must not contain control characters, such as line ends"
    return None if wrong is None else OptionFault("value", wrong, hint)


def _value_fault(key: str, value: object) -> str | None:
    """Returns what is wrong with a value of the right type."""
    if key in _ATTACH and _ATTACH[key].kind is int and int(str(value)) < 0:
        return "must not be negative"
    if key == "metadata_catalog" and str(value).lower() in ("", *RESERVED_NAMES):
        return f"must name a new database, but DuckDB reserves {value!r}" if value else "must not be empty"
    if key not in _MAINTENANCE:
        return None
    if key in ("backups", "owns"):
        wrong = place_fault(str(value))
        if wrong is not None:
            return f"must not have credentials: {wrong}"
        is_folder = re.fullmatch(r"(/|[a-z0-9]+://)[^\x00-\x1f]+", str(value)) and ".." not in str(value).split("/")
        return None if is_folder else "is not the absolute path of a folder"
    amount: timedelta | float | None = duration_of(str(value))
    if key == "memory_limit":
        size = _SIZE.fullmatch(str(value))
        amount = None if size is None else float(size["number"])
    if amount is None:
        return f"is not {'a size' if key == 'memory_limit' else 'a duration'}"
    if isinstance(amount, timedelta) and key.startswith("keep_") and amount < timedelta(days=1):
        return "must be at least 1d: other processes may still read or write the files"
    if isinstance(amount, timedelta) and amount > timedelta(days=LONGEST_DAYS):
        return f"must be at most {LONGEST_DAYS}d"
    return None if amount else "must be more than 0"


@dataclass(frozen=True)
class MaintenanceLimits:
    """The limits of maintenance."""

    deadline: timedelta | None = None  # the time after which no further transaction begins; None for no limit
    memory_limit: str | None = None  # DuckDB's memory, such as `4GB`; None for DuckDB's default
    keep_snapshots: timedelta = timedelta(days=30)  # the age at which snapshots expire
    keep_files: timedelta = timedelta(days=2)  # for how long files that no snapshot needs are kept
    owns: str | None = None  # the folder of adopted files that the lake owns, with a trailing slash; None for none

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> MaintenanceLimits:
        """The limits in a table without problems."""
        plain = ("backups", "memory_limit", "owns")
        durations: dict[str, Any] = {key: duration_of(text) for key, text in texts.items() if key not in plain}
        owns = f"{texts['owns'].rstrip('/')}/" if "owns" in texts else None
        return replace(cls(memory_limit=texts.get("memory_limit"), owns=owns), **durations)


def duration_of(text: str) -> timedelta | None:
    """A duration such as `1h30m`; None if it is none."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    return timedelta(**{name: int(match[unit] or 0) for unit, name in _UNITS.items()})


def checked_committer(store: str, committer: str) -> str:
    """A committer, if it exists."""
    if committer not in COMMITTERS:
        hint = 'write committer = "auto", or omit it'
        raise StoreError(store, "committer", f"must be one of {', '.join(COMMITTERS)}", hint=hint)
    return committer
