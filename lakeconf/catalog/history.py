"""Lists a table's files and changes from the catalog, and describes the changes of snapshots in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeconf.catalog.changes import made_changes
from lakeconf.catalog.data_file import DataFile, load_data_files, load_files_of
from lakeconf.catalog.forgotten_deletes import check_deletes, forgetful_tables
from lakeconf.catalog.pruning.scan_plan import inlined_counts_of_all, inlined_row_counts
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.snapshot import Snapshot, snapshots
from lakeconf.catalog.tables import TableInfo, find_table, joined_name, key_text, load_table, tables_in
from lakeconf.ducklake import INTERNAL_SCHEMA

_KEY_COLUMNS = """
    SELECT partition_id, column_id, transform FROM ducklake_partition_column WHERE table_id = ?
    ORDER BY partition_id, partition_key_index
"""
_COLUMN_NAMES = "SELECT column_id, column_name FROM ducklake_column WHERE table_id = ? ORDER BY begin_snapshot"
_NAMES = """
    SELECT t.id, t.begin_snapshot, s.schema_name, t.name
    FROM (SELECT table_id AS id, schema_id, begin_snapshot, table_name AS name FROM ducklake_table
          UNION ALL SELECT view_id, schema_id, begin_snapshot, view_name FROM ducklake_view) AS t
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id ORDER BY t.begin_snapshot
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
    "dropped_view": "drop view",
    "created_schema": "create schema",
    "merge_adjacent": "compact",
    "compacted_table": "compact",
    "rewrite_delete": "rewrite",
    "inline_flush": "flush",
    "flushed_inlined": "flush",
}
# Changes that change no row and no column.
COMPACTIONS = frozenset(kind for kind, word in _WORDS.items() if word in ("compact", "rewrite", "flush"))


@dataclass(frozen=True)
class TableFile:
    """A data file of a table at a snapshot.

    Attributes:
        path: Its absolute path or URI.
        rows: The number of its rows, including deleted rows.
        bytes: Its size, in bytes.
        begin_snapshot: The snapshot that added it.
        delete_file: The path of its delete file, or None.
        deleted_rows: The number of its deleted rows, in the delete file and in the catalog.
        partition: The values of its partition, as text, in the order of the keys; empty if it is not partitioned.
        partition_keys: The keys, such as `month(day)`.
    """

    path: str
    rows: int
    bytes: int
    begin_snapshot: int
    delete_file: str | None = None
    deleted_rows: int = 0
    partition: tuple[str | None, ...] = ()
    partition_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableChange:
    """A snapshot that changed a table.

    Attributes:
        snapshot_id: Its version.
        time: The time of the commit, in UTC.
        changes: DuckLake's change kinds, such as `inserted_into_table`, `deleted_from_table`, `altered_table` and
            `merge_adjacent`; also `created_table` and `renamed_table`.
        author: The author of the commit, or None.
        message: The commit message.
        extra_info: Additional information of the commit, often JSON.
    """

    snapshot_id: int
    time: datetime
    changes: tuple[str, ...]
    author: str | None
    message: str | None
    extra_info: str | None


def stored_rows(reader: CatalogReader, table: str, snapshot_id: int) -> tuple[list[TableFile], int]:
    """Returns the data files of a table at a snapshot, and the number of rows in the catalog."""
    with reader.transaction() as transaction:
        info = find_table(transaction, table, snapshot_id)
        files = load_data_files(transaction, info, snapshot_id)
        inlined = sum(inlined_row_counts(transaction, info, snapshot_id).values())
        return _table_files(transaction, info, files), inlined


def stored_rows_of_all(reader: CatalogReader, snapshot_id: int) -> dict[str, tuple[list[TableFile], int]]:
    """Returns the same of each table of the lake, by its name, with a few queries for all."""
    with reader.transaction() as transaction:
        tables = tables_in(transaction, snapshot_id)
        may_be_wrong = {table_id for table_id, *_ in forgetful_tables(transaction)}
        for table in tables:
            if table.table_id in may_be_wrong:
                check_deletes(transaction, table.table_id, table.full_name, snapshot_id)
        files = load_files_of(transaction, tables, snapshot_id)
        inlined = inlined_counts_of_all(transaction, snapshot_id)
        return {
            table.full_name: (_table_files(transaction, table, files[table.table_id]), inlined.get(table.table_id, 0))
            for table in tables
        }


def _table_files(transaction: MetadataTransaction, table: TableInfo, files: Sequence[DataFile]) -> list[TableFile]:
    is_partitioned = any(file.partition_id is not None for file in files)
    keys = _partition_keys(transaction, table.table_id) if is_partitioned else {}
    return [
        TableFile(
            path=file.path,
            rows=file.record_count,
            bytes=file.file_size_bytes,
            begin_snapshot=file.begin_snapshot,
            delete_file=None if file.delete_file is None else file.delete_file.path,
            deleted_rows=file.deleted,
            partition=tuple(value for _, value in file.partition_values),
            partition_keys=keys.get(file.partition_id, ()),
        )
        for file in files
    ]


def _partition_keys(transaction: MetadataTransaction, table_id: int) -> dict[int | None, tuple[str, ...]]:
    """The keys of each partitioning of a table, with the newest names of the columns."""
    names = dict(transaction.rows(_COLUMN_NAMES, [table_id]))
    keys: dict[int | None, tuple[str, ...]] = {}
    for partition_id, column_id, transform in transaction.rows(_KEY_COLUMNS, [table_id]):
        keys[partition_id] = (*keys.get(partition_id, ()), key_text(transform, names[column_id]))
    return keys


def history(reader: CatalogReader, table: str, snapshot_id: int) -> list[TableChange]:
    """Returns the snapshots that changed a table, up to `snapshot_id`; see `Table.history`."""
    table_id = load_table(reader, table, snapshot_id).table_id
    with reader.transaction() as transaction:
        # DuckLake records a rename by the new name, without the table id.
        versions = "SELECT begin_snapshot FROM ducklake_table WHERE table_id = ? ORDER BY begin_snapshot"
        made_in, *renamed_in = (begin for (begin,) in transaction.rows(versions, [table_id]))
    changes = []
    for snapshot in snapshots(reader):
        kinds = {kind: None for kind, changed in made_changes(snapshot.changes) if changed == table_id}
        if snapshot.snapshot_id == made_in:
            kinds = {"created_table": None, **kinds}
        if snapshot.snapshot_id in renamed_in:
            kinds = {"renamed_table": None, **kinds}
        if kinds and snapshot.snapshot_id <= snapshot_id:
            commit_info = (snapshot.author, snapshot.message, snapshot.extra_info)
            changes.append(TableChange(snapshot.snapshot_id, snapshot.time, tuple(kinds), *commit_info))
    return changes


def change_summaries(reader: CatalogReader, snapshots: Sequence[Snapshot]) -> dict[int, str]:
    """Returns the changes of each snapshot in words; kinds of changes that are not known stay as they are."""
    oldest = min((snapshot.snapshot_id for snapshot in snapshots), default=0)
    with reader.transaction() as transaction:
        names: dict[int, list[tuple[int, str]]] = {}
        for table_id, begin, schema, table in transaction.rows(_NAMES):
            names.setdefault(table_id, []).append((begin, joined_name(schema, table)))
        added = {(begin, table): int(rows) for begin, table, rows in transaction.rows(_ADDED, [oldest])}
    return {snapshot.snapshot_id: _summary(snapshot, names, added) for snapshot in snapshots}


def _summary(
    snapshot: Snapshot, names: Mapping[int, Sequence[tuple[int, str]]], added: Mapping[tuple[int, int], int]
) -> str:
    changes = list(_CHANGE.finditer(snapshot.changes))
    if "".join(change.group() for change in changes) != snapshot.changes:
        return snapshot.changes
    phrases = dict.fromkeys(_in_words(snapshot.snapshot_id, change, names, added) for change in changes)
    # Each write with an idempotency key also writes lakeconf's own table.
    return ", ".join([phrase for phrase in phrases if f" {INTERNAL_SCHEMA}." not in phrase] or phrases)


def _in_words(
    version: int,
    change: re.Match[str],
    names: Mapping[int, Sequence[tuple[int, str]]],
    added: Mapping[tuple[int, int], int],
) -> str:
    word = _WORDS.get(change["kind"])
    if change["id"] is None:
        parts = [part.replace('""', '"') for part in (change["first"], change["second"]) if part is not None]
        named = joined_name(*parts) if len(parts) == 2 else parts[0]
        # DuckLake records a rename by the new name only.
        former = [
            versions[number - 1][1]
            for versions in names.values()
            for number, begin_and_name in enumerate(versions)
            if number and begin_and_name == (version, named)
        ]
        if former:
            return f"rename {former[0]} to {named}"
        return f"{word} {named}" if word else change.group().rstrip(",")
    table = int(change["id"])
    name = next((name for begin, name in reversed(names.get(table, ())) if begin <= version), None)
    if word is None or name is None:
        return change.group().rstrip(",")
    rows = added.get((version, table), 0) if change["kind"] == "inserted_into_table" else 0
    return f"{word} {name} +{rows:,} row{'s' * (rows != 1)}" if rows else f"{word} {name}"
