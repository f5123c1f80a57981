"""Checks of arguments of the Python API: one function for each kind of argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    import duckdb

# The oldest age of snapshots and files: subtracted from now, it is still a time.
LONGEST_DAYS = 100_000
# The largest number of rows that DuckDB accepts.
_MOST = 2**63 - 1


def check_flags(**flags: object) -> None:
    """Rejects arguments that are neither True nor False: the text "no" would mean True."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise LakeconfError(
                f"{name} is {value!r}, and neither True nor False", hint=f"write {name}=True, or omit it"
            )


def whole_number(value: object, name: str, *, at_least: int) -> int:
    """Checks a number of things."""
    if isinstance(value, SupportsIndex) and not isinstance(value, bool) and at_least <= value.__index__() <= _MOST:
        return value.__index__()
    raise LakeconfError(
        f"{name} is {value!r}, and not a whole number of at least {at_least}", hint=f"pass a number: {name}=10"
    )


def native_connection(connection: Any) -> duckdb.DuckDBPyConnection:
    """An argument that is a connection to DuckDB."""
    import duckdb

    if isinstance(connection, duckdb.DuckDBPyConnection):
        return connection
    raise LakeconfError(
        f"{type(connection).__name__} is not a connection to DuckDB", hint="pass one: store.attach(duckdb.connect())"
    )
