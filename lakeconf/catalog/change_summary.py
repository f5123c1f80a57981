"""Describes the changes of snapshots in words: `insert raw.events +5,000 rows`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.catalog.snapshot import Snapshot
from lakeconf.catalog.table_name import joined_name

_NAMES = """
    SELECT t.table_id, t.begin_snapshot, s.schema_name, t.table_name
    FROM ducklake_table AS t JOIN ducklake_schema AS s ON s.schema_id = t.schema_id ORDER BY t.begin_snapshot
"""
# A file that was merged from several snapshots does not tell how many rows each of them added.
_ADDED = """
    SELECT begin_snapshot, table_id, sum(record_count) FROM ducklake_data_file
    WHERE begin_snapshot >= ? AND partial_max IS NULL GROUP BY ALL
"""
_CHANGE = re.compile(
    r'(?P<kind>[a-z_]+):(?:(?P<id>\d+)|"(?P<first>(?:[^"]|"")*)"(?:\."(?P<second>(?:[^"]|"")*)")?)(?:,|$)'
)
_WORDS = {
    "inserted_into_table": "insert",
    "inlined_insert": "insert",
    "deleted_from_table": "delete from",
    "inlined_delete": "delete from",
    "created_table": "create",
    "dropped_table": "drop",
    "altered_table": "alter",
    "created_view": "create view",
    "created_schema": "create schema",
    "merge_adjacent": "compact",
    "compacted_table": "compact",
    "rewrite_delete": "rewrite",
    "inline_flush": "flush",
    "flushed_inlined": "flush",
}


@repeated
def change_summaries(reader: CatalogReader, snapshots: Sequence[Snapshot]) -> dict[int, str]:
    """Returns the changes of each snapshot in words; kinds of changes that are not known stay as they are.

    Args:
        reader: The lake.
        snapshots: The snapshots.
    """
    oldest = min((one.snapshot_id for one in snapshots), default=0)
    with reader.transaction() as transaction:
        names: dict[int, list[tuple[int, str]]] = {}
        for table_id, begin, schema, table in transaction.rows(_NAMES):
            names.setdefault(table_id, []).append((begin, joined_name(schema, table)))
        added = {(begin, table): int(rows) for begin, table, rows in transaction.rows(_ADDED, [oldest])}
    return {one.snapshot_id: _summary(one, names, added) for one in snapshots}


def _summary(
    snapshot: Snapshot, names: Mapping[int, Sequence[tuple[int, str]]], added: Mapping[tuple[int, int], int]
) -> str:
    found = list(_CHANGE.finditer(snapshot.changes))
    if "".join(one.group() for one in found) != snapshot.changes:
        return snapshot.changes
    return ", ".join(dict.fromkeys(_in_words(snapshot.snapshot_id, one, names, added) for one in found))


def _in_words(
    version: int,
    change: re.Match[str],
    names: Mapping[int, Sequence[tuple[int, str]]],
    added: Mapping[tuple[int, int], int],
) -> str:
    word = _WORDS.get(change["kind"])
    if change["id"] is None:
        parts = [part.replace('""', '"') for part in (change["first"], change["second"]) if part is not None]
        return f"{word} {joined_name(*parts) if len(parts) == 2 else parts[0]}" if word else change.group().rstrip(",")
    table = int(change["id"])
    name = next((name for begin, name in reversed(names.get(table, ())) if begin <= version), None)
    if word is None or name is None:
        return change.group().rstrip(",")
    rows = added.get((version, table), 0) if change["kind"] == "inserted_into_table" else 0
    return f"{word} {name} +{rows:,} row{'s' * (rows != 1)}" if rows else f"{word} {name}"
