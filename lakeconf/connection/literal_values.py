"""Writes the values of a statement's parameters as literals.

The first bound parameter of a process makes duckdb import pandas, numpy and pyarrow if they are installed, which takes
longer than a whole command that reads a catalog.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lakeconf.sql import literal

_PARTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\?|\$(?P<number>[0-9]+)""")
# Comments, dollar quotes, named parameters and escapes of E'' strings: such statements keep their parameters.
_OTHER_SYNTAX = re.compile(r"--|/\*|\$(?![0-9])|[0-9]\$|\\|\?[0-9]")


def with_literals(sql: str, parameters: Sequence[object] | None) -> tuple[str, Sequence[object] | None]:
    """Replaces each `?` or `$1` of a statement by its value, if all values are strings, integers, booleans or None.

    Args:
        sql: The statement.
        parameters: The values; none of them is a secret.

    Returns:
        The statement, and the parameters that are still to be bound: None, or all of them.
    """
    if not parameters:
        return sql, parameters
    values = [_value(one) for one in parameters]
    numbers = _numbers(sql)
    if None in values or numbers is None or set(numbers) != set(range(len(values))):
        return sql, parameters
    rest = iter(numbers)
    return _PARTS.sub(lambda part: part[0] if part[0][0] in "'\"" else str(values[next(rest)]), sql), None


def _numbers(sql: str) -> Sequence[int] | None:
    """The number of the value of each parameter, counted from zero; None if they cannot be told."""
    if _OTHER_SYNTAX.search(sql):
        return None
    found = [part for part in _PARTS.finditer(sql) if part[0][0] in "?$"]
    numbered = [int(part["number"]) - 1 for part in found if part["number"]]
    if numbered and len(numbered) != len(found):
        return None
    return numbered or range(len(found))


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
