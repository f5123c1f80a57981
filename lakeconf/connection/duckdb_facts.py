"""What lakeconf knows of DuckDB: tested versions, and literals for values."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable
from typing import Any

from lakeconf.ducklake import SUPPORTED_VERSION
from lakeconf.errors import UnsupportedError, UntestedVersionWarning
from lakeconf.sql import literal

TESTED = "1.5"
OLDEST = (1, 5, 5)  # the `ducklake` extensions of older versions lose rows
INSTALL_TESTED = f"pip install 'duckdb=={TESTED}.*'"
# A setting of newer extensions: the DuckLake version of new catalogs. Without it, DuckDB 2.0 creates version 1.1.
_DEFAULT = "ducklake_default_version"


def untested(version: str) -> str | None:
    """Describes an untested version of DuckDB."""
    number = version.removeprefix("v")
    if number.startswith(f"{TESTED}."):
        return None
    return f"lakeconf is tested with DuckDB {TESTED} and DuckLake {SUPPORTED_VERSION}, not with DuckDB {number}"


@functools.cache
def check_version(version: str) -> None:
    """Rejects a version of DuckDB that loses rows, and warns about an untested one, once in a process."""
    numbers = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    if numbers is not None and tuple(map(int, numbers.groups())) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UnsupportedError(
            f"DuckDB {version} loses rows of lakes: lakeconf needs {oldest} or newer",
            hint=f"install it: pip install 'duckdb>={oldest},<2'",
        )
    warning = untested(version)
    if warning:
        warnings.warn(f"{warning}: {INSTALL_TESTED}", UntestedVersionWarning, stacklevel=2)


def create_supported_catalogs(rows: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Makes the extension create catalogs of the version that lakeconf can read, unless the user chose a version."""
    unset = f"SELECT 1 FROM duckdb_settings() WHERE name = '{_DEFAULT}' AND coalesce(value, '') IN ('', 'NULL')"  # noqa: S608
    if rows(unset):
        rows(f"SET {_DEFAULT} = {literal(SUPPORTED_VERSION)}")
