"""What lakeconf knows of DuckDB: tested versions, and literals for values."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from lakeconf.ducklake import SUPPORTED_VERSION
from lakeconf.errors import UntestedVersionWarning
from lakeconf.sql import literal

TESTED = "1.5"
INSTALL_TESTED = f"pip install 'duckdb=={TESTED}.*'"
# A setting of newer extensions: the DuckLake version of new catalogs. Without it, DuckDB 2.0 creates version 1.1.
_DEFAULT = "ducklake_default_version"
_PARTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\?|\$(?P<number>[0-9]+)""")
# Comments, dollar quotes, named parameters and escapes of E'' strings: such statements keep their parameters.
_OTHER_SYNTAX = re.compile(r"--|/\*|\$(?![0-9])|[0-9]\$|\\|\?[0-9]")


def untested(version: str) -> str | None:
    """Describes an untested version of DuckDB."""
    number = version.removeprefix("v")
    if number.startswith(f"{TESTED}."):
        return None
    return f"lakeconf is tested with DuckDB {TESTED} and DuckLake {SUPPORTED_VERSION}, not with DuckDB {number}"


@functools.cache
def warn_if_untested(version: str) -> None:
    """Warns about an untested version of DuckDB, once in a process."""
    warning = untested(version)
    if warning:
        warnings.warn(f"{warning}: {INSTALL_TESTED}", UntestedVersionWarning, stacklevel=2)


def create_supported_catalogs(rows: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Makes the extension create catalogs of the version that lakeconf can read, unless the user chose a version."""
    unset = f"SELECT 1 FROM duckdb_settings() WHERE name = '{_DEFAULT}' AND coalesce(value, '') IN ('', 'NULL')"  # noqa: S608
    if rows(unset):
        rows(f"SET {_DEFAULT} = {literal(SUPPORTED_VERSION)}")


def with_literals(sql: str, parameters: Sequence[object] | None) -> tuple[str, Sequence[object] | None]:
    """Replaces each `?` or `$1` of a statement by its value, if all values are strings, integers, booleans or None."""
    if not parameters:
        return sql, parameters
    values = [_value(parameter) for parameter in parameters]
    numbers = _numbers(sql)
    if None in values or numbers is None or set(numbers) != set(range(len(values))):
        return sql, parameters
    rest = iter(numbers)
    return _PARTS.sub(lambda part: part[0] if part[0][0] in "'\"" else str(values[next(rest)]), sql), None


def _numbers(sql: str) -> Sequence[int] | None:
    """The number of the value of each parameter, counted from zero; None if they cannot be told."""
    if _OTHER_SYNTAX.search(sql):
        return None
    marks = [part for part in _PARTS.finditer(sql) if part[0][0] in "?$"]
    numbered = [int(part["number"]) - 1 for part in marks if part["number"]]
    if numbered and len(numbered) != len(marks):
        return None
    return numbered or range(len(marks))


def _value(value: object) -> str | None:
    """A value as SQL of the type that the bound value would have; None if it must be bound."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return literal(value)
    if type(value) is int:
        return f"({value})"
    if type(value) is str and "\0" not in value:
        return f"CAST({literal(value)} AS VARCHAR)"
    return None
