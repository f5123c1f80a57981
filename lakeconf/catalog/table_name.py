"""Names of tables: `schema.table`."""

from __future__ import annotations

import re

from lakeconf.errors import TableNotFoundError
from lakeconf.sql import identifier

DEFAULT_SCHEMA = "main"
# The schema of lakeconf's own tables.
INTERNAL_SCHEMA = "lakeconf"

_PART = r'"(?:[^"]|"")+"|[^".]+'


def split_name(name: str) -> tuple[str, str]:
    """Splits a name into schema and table.

    Raises:
        TableNotFoundError: The name is not a text with one or two parts.
    """
    try:
        parts = re.fullmatch(rf"(?:({_PART})\.)?({_PART})", name)
    except TypeError:  # it is not a text
        parts = None
    if not parts:
        raise TableNotFoundError(f"{name!r} is not a valid table name", hint="write schema.table, or table")
    schema, table = (_unquoted(part) if part else DEFAULT_SCHEMA for part in parts.groups())
    return schema, table


def joined_name(schema: str, table: str) -> str:
    """Joins schema and table to `schema.table`; quotes parts that contain a dot or a quote. Inverts `split_name`."""
    return ".".join(identifier(part) if re.search(r'[."]', part) else part for part in (schema, table))


def full_name(name: str) -> str:
    """Returns the name with its schema, and with quotes only where they are needed.

    Raises:
        TableNotFoundError: The name does not have one or two parts.
    """
    return joined_name(*split_name(name))


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part[0] == '"' else part
