"""Parses dates and times in a `where`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone

from lakeconf.errors import PredicateError

DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?(Z|[+-]\d{2}(?::?\d{2})?)?")


def parse_date(text: str) -> date:
    """Parses a date in the format `YYYY-MM-DD`.

    Raises:
        PredicateError: The text is not a date between the years 1 and 9999.
    """
    try:
        if DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise PredicateError(f"{text!r} is not a date", hint="write YYYY-MM-DD, with a year from 0001 to 9999")


def parse_timestamp(text: str) -> datetime:
    """Parses a time in the format `YYYY-MM-DD[ HH:MM[:SS[.ffffff]]][+HH[:MM]]`: to UTC if it has an offset, else naive.

    Raises:
        PredicateError: The text is not a time between the years 1 and 9999.
    """
    parts = TIMESTAMP.fullmatch(text.strip())
    if not parts:
        raise PredicateError(
            f"{text!r} is not a time", hint="write YYYY-MM-DD HH:MM:SS, with up to 6 decimals and an optional offset"
        )
    day, clock, offset = parts.groups()
    try:
        naive = datetime.combine(parse_date(day), time.fromisoformat(clock) if clock else time())
        if offset is None:
            return naive
        sign = -1 if offset[0] == "-" else 1
        digits = "0" if offset == "Z" else offset[1:].replace(":", "")
        shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
        return naive.replace(tzinfo=timezone(sign * shift)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise PredicateError(f"{text!r} is not a time", hint="write HH:MM:SS, with up to 6 decimals") from error
