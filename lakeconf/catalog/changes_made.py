"""Parses DuckLake's `changes_made`: the tables that each snapshot changed."""

from __future__ import annotations

import re
from typing import Any

from lakeconf.catalog.own_queries import own_rows
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction, repeated
from lakeconf.errors import SnapshotNotFoundError

# A quoted name is matched too, so that its text is not taken for changes.
_CHANGED = re.compile(r'"(?:[^"]|"")*"|(?P<change>[a-z_]+):(?P<table>\d+)(?:,|$)')
# Maintenance: these changes move rows between files and keep the contents of the table.
_FLUSHES = ("inline_flush", "flushed_inlined")
_MAINTENANCE = ("merge_adjacent", "compacted_table", "rewrite_delete", *_FLUSHES)
_CHANGES = (
    "SELECT snapshot_id, changes_made FROM ducklake_snapshot LEFT JOIN ducklake_snapshot_changes "
    "USING (snapshot_id) WHERE snapshot_id > ? AND snapshot_id <= ?"
)
_TYPES = "snapshot_id BIGINT, changes_made VARCHAR"


@repeated
def changes_between(reader: CatalogReader, after: int, until: int) -> list[tuple[int, str | None]]:
    """Returns the text `changes_made` of each snapshot in a range, oldest first.

    Args:
        reader: The lake.
        after: The snapshot before the range.
        until: The last snapshot of the range.

    Returns:
        Snapshots and their `changes_made`; None if the catalog does not record what a snapshot changed.
    """
    with reader.transaction() as transaction:
        return [(version, changes) for version, changes in _changes(transaction, after, until)]


@repeated
def changes_since(reader: CatalogReader, table_id: int, since: int, until: int) -> list[int]:
    """Returns the snapshots after `since`, up to `until`, that created a table or changed its rows or columns.

    Raises:
        SnapshotNotFoundError: A snapshot of the range has expired; or the snapshot before it has, and with it the rows
            that the first one deleted.
    """
    with reader.transaction() as transaction:
        found = _changes(transaction, since, until)
        before = transaction.rows("SELECT 1 FROM ducklake_snapshot WHERE snapshot_id = ?", [since])
        ((made_in,),) = transaction.rows(
            "SELECT min(begin_snapshot) FROM ducklake_table WHERE table_id = ?", [table_id]
        )
    if len(found) != max(until - since, 0):
        raise SnapshotNotFoundError(f"some of the snapshots after {since} have expired")
    first = changed_tables(found[0][1]) if found else []
    if not before and any(table == table_id and "delete" in kind for kind, table in first):
        raise SnapshotNotFoundError(f"snapshot {since} has expired, and the next one deleted rows that existed in it")
    return [
        version
        for version, made in found
        if version == made_in or any(table == table_id for _, table in changed_tables(made))
    ]


def _changes(transaction: MetadataTransaction, after: int, until: int) -> list[tuple[Any, ...]]:
    return own_rows(transaction, _CHANGES, _TYPES, [after, until], order="snapshot_id")


def changed_tables(made: str | None) -> list[tuple[str, int]]:
    """Returns pairs of a change kind and a table id, without maintenance."""
    return [(kind, table) for kind, table in made_changes(made) if not kind.startswith(_MAINTENANCE)]


def flushed_tables(made: str | None) -> list[tuple[str, int]]:
    """Returns pairs of a change kind and a table id, only for flushes of rows and deletes from the catalog to files."""
    return [(kind, table) for kind, table in made_changes(made) if kind.startswith(_FLUSHES)]


def made_changes(made: str | None) -> list[tuple[str, int]]:
    """Returns pairs of a change kind and a table id, in the order of the text."""
    return [(change["change"], int(change["table"])) for change in _CHANGED.finditer(made or "") if change["table"]]
