"""What each snapshot changed, from the text that DuckLake records for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.errors import SnapshotNotFoundError

# A quoted name is matched too, so that its text is not taken for changes.
_CHANGED = re.compile(r'"(?:[^"]|"")*"|(?P<change>[a-z_]+):(?P<table>\d{1,19})(?:,|$)')
# Maintenance: these changes move rows between files and keep the contents of the table.
_FLUSHES = ("inline_flush", "flushed_inlined")
MERGES = ("merge_adjacent", "compacted_table")  # of files by DuckLake
_MAINTENANCE = (*MERGES, "rewrite_delete", *_FLUSHES)
_CHANGES = (
    "SELECT snapshot_id, changes_made FROM ducklake_snapshot LEFT JOIN ducklake_snapshot_changes "
    "USING (snapshot_id) WHERE snapshot_id > ? AND snapshot_id <= ?"
)
_TYPES = "snapshot_id BIGINT, changes_made VARCHAR"


def changes_between(reader: CatalogReader, after: int, until: int) -> list[tuple[int, str | None]]:
    """Returns the text `changes_made` of each snapshot in a range, oldest first."""
    with reader.transaction() as transaction:
        return [(version, text) for version, text in recorded_changes(transaction, after, until)]


def changes_since(reader: CatalogReader, table_id: int, since: int, until: int) -> list[int]:
    """Returns the snapshots after `since`, up to `until`, that created a table or changed its rows or columns."""
    with reader.transaction() as transaction:
        changes = recorded_changes(transaction, since, until)
        before = transaction.rows("SELECT 1 FROM ducklake_snapshot WHERE snapshot_id = ?", [since])
        ((created_in,),) = transaction.rows(
            "SELECT min(begin_snapshot) FROM ducklake_table WHERE table_id = ?", [table_id]
        )
    if len(changes) != max(until - since, 0):
        raise SnapshotNotFoundError(f"some of the snapshots after {since} have expired")
    first = changed_tables(changes[0][1]) if changes else []
    if not before and any(table == table_id and "delete" in kind for kind, table in first):
        raise SnapshotNotFoundError(f"snapshot {since} has expired, and the next one deleted rows that existed in it")
    return [
        version
        for version, text in changes
        if version == created_in or any(table == table_id for _, table in changed_tables(text))
    ]


def recorded_changes(transaction: MetadataTransaction, after: int, until: int) -> list[tuple[Any, ...]]:
    """The snapshots in a range, oldest first, each with its text `changes_made`."""
    return transaction.own_rows(_CHANGES, _TYPES, [after, until], order="snapshot_id")


def changed_tables(text: str | None) -> list[tuple[str, int]]:
    """Returns pairs of a change kind and a table id, without maintenance."""
    return [(kind, table) for kind, table in made_changes(text) if not kind.startswith(_MAINTENANCE)]


def merged_tables(reader: CatalogReader, newer: Mapping[int, str | None]) -> dict[int, list[tuple[str, int]]]:
    """Pairs of a change kind and a table id by snapshot, only for merges of files that lakeconf has not made.

    DuckLake can give the rows of merged files other row ids.
    """
    merges = {
        version: [change for change in made_changes(text) if change[0].startswith(MERGES)]
        for version, text in newer.items()
    }
    versions = ", ".join(str(version) for version, merged in merges.items() if merged)
    if not versions:
        return {}
    query = (
        f"SELECT snapshot_id FROM ducklake_snapshot_changes WHERE snapshot_id IN ({versions}) "  # noqa: S608
        """AND commit_extra_info LIKE '{"lakeconf"%'"""
    )
    with reader.transaction() as transaction:
        own = {int(version) for (version,) in transaction.rows(query)}
    return {version: merged for version, merged in merges.items() if merged and version not in own}


def made_changes(text: str | None) -> list[tuple[str, int]]:
    """Returns pairs of a change kind and a table id, in the order of the text."""
    return [(change["change"], int(change["table"])) for change in _CHANGED.finditer(text or "") if change["table"]]
