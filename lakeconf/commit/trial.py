"""Statements that are tried and rolled back, to learn what they would do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from lakeconf.commit.session import Session
from lakeconf.errors import LakeconfError


def described(session: Session, statements: Iterable[str], quoted: str) -> list[tuple[str, str, bool]]:
    """The columns that a table would have after some statements; nothing is changed.

    Args:
        session: The open lake.
        statements: The statements.
        quoted: The table, quoted, with the lake.

    Returns:
        For each column: its name, its DuckDB type, and whether it is nullable.

    Raises:
        LakeconfError: A statement fails.
    """
    writer = session.writer
    with session.writer_lock:
        try:
            writer.execute("BEGIN")
            for statement in statements:
                writer.execute(statement)
            found = writer.rows(f"DESCRIBE {quoted}")
        finally:
            with contextlib.suppress(LakeconfError):
                writer.execute("ROLLBACK")
    return [(name, type_name, null == "YES") for name, type_name, null, *_ in found]
