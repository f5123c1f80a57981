"""The tables that a branch has not written yet: views on the lake that it is a branch of, at one snapshot of that lake.

So every SQL reads them, and no file of that lake is in the catalog of the branch.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import by_version
from lakeconf.catalog.tables import TableInfo, joined_name, load_table, split_name
from lakeconf.ducklake import BRANCH_RECORD, INTERNAL_SCHEMA, PARENT, check_placeholders, visible_at
from lakeconf.errors import BranchError, SnapshotNotFoundError
from lakeconf.sql import folded, identifier, literal, qualified

_NAME = r'(?:"(?:[^"]|"")+"|[^\s".]+)'
_VIEW = re.compile(
    rf"SELECT \* FROM {PARENT}\.(?P<schema>{_NAME})\.(?P<table>{_NAME}) AT \(VERSION => (?P<version>\d+)\)"  # noqa: S608
)
_RECORD = re.compile(
    r"SELECT '(?P<lake>[0-9a-f-]{36})' AS lake, (?P<snapshot>\d+) AS snapshot_id, "
    r"'(?P<time>[0-9T:.+-]{20,40})' AS snapshot_time"
)
VIEWS = f"""
    SELECT s.schema_name, v.view_name, v.sql, v.view_id
    FROM ducklake_view AS v JOIN ducklake_schema AS s ON s.schema_id = v.schema_id
    WHERE {visible_at(row="v")} AND {visible_at(row="s")}
"""  # noqa: S608


class BranchRecord(NamedTuple):
    """What a branch knows about the lake that it is a branch of."""

    lake: str  # the id of that lake
    snapshot_id: int  # the snapshot at which the branch reads it
    snapshot_time: str  # the time of this snapshot

    def view(self) -> str:
        """The query of the view that records it."""
        return (
            f"SELECT {literal(self.lake)} AS lake, {self.snapshot_id} AS snapshot_id, "
            f"{literal(self.snapshot_time)} AS snapshot_time"
        )


def branch_record(reader: CatalogReader, snapshot_id: int | None = None) -> BranchRecord | None:
    """What a snapshot, by default the latest, records about the lake that this one is a branch of; None if it is none.

    Raises:
        BranchError: Something else has the place of the record.
    """
    with reader.transaction() as transaction:
        rows = transaction.rows(
            f"{VIEWS} AND s.schema_name = $2 AND v.view_name = $3",
            [transaction.newest() if snapshot_id is None else snapshot_id, INTERNAL_SCHEMA, BRANCH_RECORD],
        )
    if not rows:
        return None
    match = _RECORD.fullmatch(rows[0][2])
    if match is None or not _is_time(match["time"]):
        raise BranchError(
            f"{INTERNAL_SCHEMA}.{BRANCH_RECORD} of {reader.alias!r} does not say of what the lake is a branch",
            hint="drop the branch with `lakeconf branch --drop STORE`, and make it again",
        )
    return BranchRecord(match["lake"], int(match["snapshot"]), match["time"])


def changed_snapshot(reader: CatalogReader, version: int, time: str) -> str | None:
    """Why a snapshot is not the one with this time any more; None if it is."""
    try:
        snapshot = by_version(reader, version)
    except SnapshotNotFoundError:
        return f"snapshot {version} does not exist any more"
    is_same = snapshot.time == datetime.fromisoformat(time)
    return None if is_same else f"snapshot {version} is another one, as after a restore"


def check_parent(reader: CatalogReader) -> None:
    """Rejects reads of a branch whose other lake was restored or expired while the branch was open."""
    parent = reader.parent
    changed = None if parent is None else changed_snapshot(parent.reader, parent.snapshot_id, parent.snapshot_time)
    if changed is not None:
        raise BranchError(
            f"the lake that {reader.alias!r} is a branch of has changed: {changed}",
            hint="drop the branch with `lakeconf branch --drop STORE`, and make it again",
        )


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def inherited_view(schema: str, table: str, version: int) -> str:
    """The query of the view that stands for a table."""
    return f"SELECT * FROM {PARENT}.{qualified(schema, table)} AT (VERSION => {version})"  # noqa: S608 - identifiers


def inherit_sql(alias: str, name: tuple[str, str], source: TableInfo, version: int) -> str:
    """The statement that makes a table of a branch stand for one of the other lake."""
    query = inherited_view(source.schema_name, source.name, version)
    check_placeholders(query, f"the name of {source.full_name}")
    return f"CREATE VIEW {qualified(alias, *name)} AS {query}"


def source_in(sql: str, version: int) -> tuple[str, str] | None:
    """The schema and the table that the query of such a view reads; None for any other query."""
    match = _VIEW.fullmatch(sql)
    if match is None or int(match["version"]) != version:
        return None
    return _unquoted(match["schema"]), _unquoted(match["table"])


def _source(reader: CatalogReader, sql: str, snapshot_id: int) -> tuple[str, str] | None:
    """The same in the lake of a branch, which may have been dropped and made again while it was open."""
    parent = reader.parent
    assert parent is not None  # noqa: S101 - the callers have it
    source = source_in(sql, parent.snapshot_id)
    if source is None and _VIEW.fullmatch(sql) is not None:
        record = branch_record(reader, snapshot_id)
        if record is not None and record.snapshot_id != parent.snapshot_id:
            raise BranchError(
                f"the branch {reader.alias!r} was dropped and made again at snapshot {record.snapshot_id} of the other "
                "lake while it was open",
                hint="open the lake again: store.open()",
            )
    return source


def is_inherited(reader: CatalogReader, sql: str) -> bool:
    """True if a query of a view is that of a table which a branch has not written."""
    return reader.parent is not None and source_in(sql, reader.parent.snapshot_id) is not None


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name[0] == '"' else name


def inherited_tables(reader: CatalogReader, snapshot_id: int) -> dict[str, str]:
    """The names of the tables that a branch has not written, each with the name in the other lake."""
    if reader.parent is None:
        return {}
    with reader.transaction() as transaction:
        rows = transaction.rows(f"{VIEWS} AND v.sql LIKE 'SELECT * FROM {PARENT}.%'", [snapshot_id])  # noqa: S608
    sources = ((joined_name(schema, view), _source(reader, sql, snapshot_id)) for schema, view, sql, _ in rows)
    return {name: _quoted(source) for name, source in sources if source is not None}


def source_of(reader: CatalogReader, name: str, snapshot_id: int) -> str | None:
    """The name in the other lake of a table that a branch has not written; None for any other name."""
    if reader.parent is None:
        return None
    view = stored_view(reader, name, snapshot_id)
    source = None if view is None else _source(reader, view[0], snapshot_id)
    return None if source is None else _quoted(source)


def stored_view(reader: CatalogReader, name: str, snapshot_id: int) -> tuple[str, int] | None:
    """The query and the id of a view; None if there is none."""
    schema, view = split_name(name)
    with reader.transaction() as transaction:
        rows = transaction.rows(
            f"{VIEWS} AND lower(s.schema_name) = lower($2) AND lower(v.view_name) = lower($3)",
            [snapshot_id, schema, view],
        )
    names = folded(schema), folded(view)
    return next(((sql, view_id) for *row, sql, view_id in rows if tuple(map(folded, row)) == names), None)


def check_sources(reader: CatalogReader, sources: set[tuple[str, str]]) -> None:
    """Rejects tables of the other lake that nobody can read exactly at the snapshot of the branch."""
    if reader.parent is not None and sources:
        check_parent(reader)
        for source in sorted(sources):
            load_table(reader.parent.reader, _quoted(source), reader.parent.snapshot_id)


def _quoted(source: tuple[str, str]) -> str:
    return ".".join(map(identifier, source))
