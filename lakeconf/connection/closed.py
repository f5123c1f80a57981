"""A DuckDB that can reach nothing: for parsing and typing SQL of a user, without running it on data."""

from __future__ import annotations

import duckdb

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}


def closed_connection(*, errors_as_json: bool = False) -> duckdb.DuckDBPyConnection:
    """A connection to an empty database of its own: no files, no extensions, no variables of Python.

    Args:
        errors_as_json: True for errors whose message is JSON with the place in the SQL.
    """
    return duckdb.connect(config={**_SETTINGS, "errors_as_json": str(errors_as_json).lower()})
