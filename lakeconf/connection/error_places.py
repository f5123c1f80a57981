"""Where DuckDB finds an error in SQL."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import NamedTuple

import duckdb

from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError

_POSITION = "lakeconf_position"


@contextlib.contextmanager
def errors_as_json(connection: Connection) -> Iterator[None]:
    """DuckDB's errors inside are JSON: only JSON has the exact position of an error."""
    connection.execute("SET errors_as_json = true")
    try:
        yield
    finally:
        # The setting ends with the connection if a broken transaction refuses this.
        with contextlib.suppress(LakeconfError):
            connection.execute("RESET errors_as_json")


@contextlib.contextmanager
def errors_with_places(connection: Connection) -> Iterator[None]:
    """Errors inside have the place in the SQL that DuckDB was given first, and no text of lakeconf's own statement.

    DuckDB shows the place of an error in a relation in the wrong text: that of the statement that reads the relation.
    """
    with errors_as_json(connection):
        try:
            yield
        except duckdb.Error as error:
            _decode(error)
            raise


def place_of(error: BaseException) -> int | None:
    """The place that DuckDB found for an error, as an offset in bytes; None if it is unknown."""
    found = getattr(error.__cause__, _POSITION, None)
    return found if isinstance(found, int) else None


class Reported(NamedTuple):
    """An error that DuckDB wrote as JSON."""

    kind: str  # its kind, such as `Parser Error`; empty for some errors of Python
    message: str
    position: int | None  # its place in the SQL, as an offset in bytes; None for errors of values, such as an overflow


def reported(text: str) -> Reported | None:
    """Reads the text of an error of DuckDB; None if it is no JSON."""
    kind, _, data = ("", "", text[1:]) if text.startswith("{") else text.partition(": {")
    try:
        found = json.loads("{" + data)
        message = str(found["exception_message"])
    except (ValueError, KeyError, TypeError):
        return None
    try:
        return Reported(kind, message, int(found["position"]))
    except (ValueError, KeyError, TypeError):
        return Reported(kind, message, None)


def _decode(error: duckdb.Error) -> None:
    """Replaces a message in JSON by its text."""
    found = reported(str(error))
    if found is not None:
        error.args = (f"{found.kind}: {found.message}" if found.kind else found.message,)
        setattr(error, _POSITION, found.position)
