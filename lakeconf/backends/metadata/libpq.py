"""Credentials that libpq, PostgreSQL's client library, takes from the environment."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

# https://www.postgresql.org/docs/current/libpq-envars.html: variables with credentials or their location.
_REMOVED = ("PGPASSWORD", "PGSERVICE", "PGSYSCONFDIR", "PGSSLPASSWORD")
# A path below a device: nobody can create it.
_NO_FILE = os.path.join(os.devnull, "lakeconf")
_REPLACED = ("PGPASSFILE", "PGSERVICEFILE")


@contextlib.contextmanager
def hidden_credentials() -> Iterator[None]:
    """Hides the passwords of this process and its user from libpq, so that SQL cannot send them to a server.

    It changes the environment of the whole process, and restores it at the end.
    """
    before = {name: os.environ.get(name) for name in (*_REMOVED, *_REPLACED)}
    for name in _REMOVED:
        os.environ.pop(name, None)
    for name in _REPLACED:
        os.environ[name] = _NO_FILE
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def default_password(host: str, port: int, database: str, user: str) -> str | None:
    """The password that libpq would use for a connection without a configured password.

    Args:
        host: The server.
        port: The port of the server.
        database: The database.
        user: The role.

    Returns:
        The value of `PGPASSWORD`, otherwise the password in the matching line of the password file; None without both.
    """
    given = os.environ.get("PGPASSWORD")
    if given:
        return given
    path = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    try:
        if path.stat().st_mode & 0o077 or not path.is_file():
            return None  # like libpq, ignore a file that others can read
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    wanted = (host, str(port), database, user)
    for line in lines:
        fields = [re.sub(r"\\(.)", r"\1", field) for field in re.split(r"(?<!\\):", line)]
        if len(fields) == 5 and all(field in ("*", value) for field, value in zip(fields, wanted, strict=False)):
            return fields[4]
    return None
