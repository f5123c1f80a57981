"""Conditions for texts in files that DuckDB would guess or lose, and their error.

DuckDB's reader of CSV files takes 03/04/2024 as 3 April in one file and as 4 March in another, according to the other
dates of the file, and an unreadable TIMESTAMPTZ as NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.catalog.types import parsed_type
from lakeconf.errors import SchemaError
from lakeconf.sql import identifier, literal

_ZONED = frozenset({"timestamp with time zone", "time with time zone"})
# The types of DuckDB whose values have a date.
DATED = frozenset({"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone"})
_ISO = r"^\s*(-?\d{4,}[-/]\d{1,2}[-/]\d{1,2}(\D|$)|[+-]?infinity|epoch)"
# Almost all texts: the regular expression takes several times as long.
_PLAIN = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*"


def is_guessed(column: str, given: str, wanted: str) -> str | None:
    """Returns the condition that a text has no date in ISO 8601, or that the reader takes it as NULL.

    Args:
        column: The column, quoted.
        given: Its DuckDB type.
        wanted: The type of the values.

    Returns:
        The condition; None if the values are no texts, or their type has no date and no time zone.
    """
    kind = parsed_type(wanted).id
    if parsed_type(given).id != "varchar" or kind not in DATED | _ZONED:
        return None
    conditions = []
    if kind in DATED:
        unclear = f"NOT regexp_matches({column}, {literal(_ISO)}, 'i')"
        conditions.append(f"CASE WHEN {column} GLOB {literal(_PLAIN)} THEN false ELSE {unclear} END")
    if kind in _ZONED:
        conditions.append(f"TRY_CAST({column} AS {wanted}) IS NULL")
    return f"({column} IS NOT NULL AND ({' OR '.join(conditions)}))"


def is_lost(kind: str) -> bool:
    """Returns True if the reader takes parts of such values as NULL: a cast of the text itself refuses them.

    Args:
        kind: A DuckDB type.
    """
    return "WITH TIME ZONE" in kind


def guess_error(place: str, file: str, pair: Sequence[str], kind: str, *, is_seed: bool) -> SchemaError:
    """Returns the error about a text.

    Args:
        place: The place of the types in the configuration, which starts the message.
        file: The file, as messages name it.
        pair: The name of the column, and the text.
        kind: The type of the column.
        is_seed: True for the file of a seed, which has no SQL.
    """
    column, text = pair
    message = f"{place}the column {column!r} of {file} has the value {text!r}, which is no {kind}"
    if parsed_type(kind).id not in DATED:
        return SchemaError(message, hint="declare it as VARCHAR in columns, or change it in the file")
    where = "the SQL of a model that reads the seed" if is_seed else "the SQL of the model"
    made = f"SELECT CAST(strptime({identifier(column)}, '%d/%m/%Y') AS {kind})" + ("" if is_seed else " FROM files")
    hint = f"write 2024-01-31 in the file; or declare it as VARCHAR in columns, and convert it in {where}: {made}"
    return SchemaError(f"{message} in ISO 8601", hint=hint)
