"""The ATTACH options that a store can set."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakeconf.errors import suggestion
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


def reads_only(attach_options: Mapping[str, object]) -> bool:
    """True if these options attach a lake read-only."""
    pinned = {"snapshot_version", "snapshot_time"} & attach_options.keys()
    return bool(attach_options.get("read_only") or pinned)


def attach_option_problem(key: str, value: object) -> str | None:
    """Validates an ATTACH option.

    Args:
        key: The name of the option, in lower case.
        value: The value of the option.

    Returns:
        The problem in one sentence; None if the option is valid.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", key):
        return "the name of an option must contain only lower-case letters, digits and underscores"
    if isinstance(value, str) and escaped(value) != value:
        return "must not contain control characters, such as line ends"
    if key.startswith("meta_"):
        return None if isinstance(value, (str, int, bool, Secret)) else "must be a string, a number or a boolean"
    expected = ATTACH_OPTIONS.get(key)
    if expected is None:
        hint = suggestion(key, ATTACH_OPTIONS, f"allowed: {', '.join(ATTACH_OPTIONS)}")
        return f"unknown attach option, {hint}"
    fits = isinstance(value, expected) and not (expected is int and isinstance(value, bool))
    names = {bool: "true or false", int: "an integer", str: "a string"}
    return None if fits else f"must be {names[expected]}"
