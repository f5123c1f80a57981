"""The version of DuckLake that a catalog has, against the one that is supported."""

from __future__ import annotations

import re

# What to do with an older catalog, at the end of its sentence.
MIGRATE = (
    "open a copy of the lake once with attach_options = { automatic_migration = true }, "
    "which migrates the catalog and cannot be undone"
)
# The extension's own words: https://github.com/duckdb/ducklake, src/storage/ducklake_initializer.cpp
_REFUSED = re.compile(
    r"catalog version is (?P<found>\S+), but the extension requires version (?P<supported>\S+?)\.?(\s|$)"
)
_NUMBERS = re.compile(r"(\d+)\.(\d+)(?P<before_release>-\S+)?")


def refused_version(text: str) -> str | None:
    """One sentence in place of the extension's error about the version of a catalog.

    Args:
        text: An error of DuckDB.

    Returns:
        Which version the catalog has, which one is supported, and what to do; None where the error is another.
    """
    refused = _REFUSED.search(text)
    return refused and version_sentence(refused["found"], refused["supported"], "the ducklake extension")


def version_sentence(found: str, supported: str, by: str) -> str:
    """What is wrong with the version of a catalog, and what to do.

    Args:
        found: The catalog's version.
        supported: The version that is supported.
        by: Who supports it.
    """
    mismatch = f"the catalog has the DuckLake version {found}, but {by} supports {supported}"
    has, needs = _order(found), _order(supported)
    if has is None or needs is None:
        return f"{mismatch}: check that it is the catalog of a DuckLake"
    if has > needs:
        return f"{mismatch}: upgrade duckdb, its ducklake extension and lakeconf"
    return f"{mismatch}: {MIGRATE}"


def _order(version: str) -> tuple[int, int, bool] | None:
    numbers = _NUMBERS.fullmatch(version)
    return numbers and (int(numbers[1]), int(numbers[2]), numbers["before_release"] is None)
