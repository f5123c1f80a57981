"""Cursors of a connection that transactions take in turn, because setting up a new one takes several statements."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from lakeconf.connection.connection import Connection

# More than the threads that usually read one catalog at the same time.
_MOST_IDLE = 4


@dataclass
class Cursor:
    """A cursor, with what was set on it.

    Attributes:
        connection: The cursor.
        is_clean: True if no transaction is open on it: only then another transaction may use it.
    """

    connection: Connection
    is_clean: bool = False
    _set: dict[str, str] = field(default_factory=dict)

    def set_up(self, name: str, statement: str) -> None:
        """Runs a statement, unless it was the last one of this name on this cursor."""
        if self._set.get(name) != statement:
            self._set.pop(name, None)
            self.connection.execute(statement)
            self._set[name] = statement


class Cursors:
    """The cursors of a connection that are between two transactions; several threads may take one at the same time.

    Closing the connection closes them.

    Args:
        connection: The connection.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._idle: deque[Cursor] = deque()  # its methods are atomic

    @contextlib.contextmanager
    def taken(self) -> Iterator[Cursor]:
        """A cursor for one transaction. It is used again only if it is clean afterwards and there was no error."""
        try:
            cursor = self._idle.pop()
        except IndexError:
            cursor = Cursor(self._connection.cursor())
        cursor.is_clean = False
        try:
            yield cursor
        except BaseException:
            cursor.is_clean = False
            raise
        finally:
            if cursor.is_clean and len(self._idle) < _MOST_IDLE:
                self._idle.append(cursor)
            else:
                cursor.connection.close()
