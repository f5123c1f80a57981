"""Plans the rows of a change feed between two snapshots, as DuckLake's `table_changes` returns them.

Source: https://ducklake.select/docs/stable/duckdb/advanced_features/data_change_feed
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from lakeconf.catalog.changes import changed_tables, made_changes, recorded_changes
from lakeconf.catalog.column_types import all_types
from lakeconf.catalog.data_file import DataFile, DeleteFile, load_name_mappings, to_data_file, to_delete_file
from lakeconf.catalog.partial_lake import ALL
from lakeconf.catalog.pruning.scan_plan import ScanPlan, moved_rows, until_stable
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.snapshot import by_timestamp, moment_of, snapshots, version_number
from lakeconf.catalog.tables import TableInfo, find_table, load_table
from lakeconf.ducklake import INLINED_TABLES, inlined_deletes_table
from lakeconf.errors import CatalogError, LakeconfError, SnapshotNotFoundError, UnsupportedError
from lakeconf.sql import folded, identifier, literal

if TYPE_CHECKING:
    import pyarrow

Rows = TypeVar("Rows")
# The columns of a change feed, before those of the table.
KEY = ("snapshot_id", "rowid", "change_type")
# Changes of a snapshot that only rewrites files. DuckDB allows no other change in it, and records none.
_REWRITES = {"merge_adjacent", "rewrite_delete"}
_DATA_FILES = """
    SELECT data_file_id, path, path_is_relative, file_format, record_count, file_size_bytes, row_id_start,
        begin_snapshot, partition_id, mapping_id, CASE WHEN partial_max > $1 THEN CAST($1 AS BIGINT) END,
        encryption_key, partial_max IS NOT NULL, partial_max, end_snapshot
    FROM ducklake_data_file
    WHERE table_id = $2 AND begin_snapshot <= $1
      AND (begin_snapshot >= $3 OR partial_max >= $3 OR end_snapshot >= $3 OR data_file_id IN (SELECT unnest($4)))
    ORDER BY data_file_id
"""
# The delete file of a flush covers snapshots after its own and has no `partial_max`; its data file has one.
_DELETE_FILES = """
    SELECT x.data_file_id, x.begin_snapshot, x.end_snapshot,
        CASE WHEN x.partial_max IS NOT NULL THEN x.partial_max
             WHEN f.partial_max IS NOT NULL THEN CAST($1 AS BIGINT) ELSE x.begin_snapshot END,
        x.path, x.path_is_relative, x.format, x.delete_count, x.file_size_bytes, x.encryption_key
    FROM ducklake_delete_file AS x JOIN ducklake_data_file AS f
      ON f.data_file_id = x.data_file_id AND f.table_id = x.table_id
    WHERE x.table_id = $2 AND x.begin_snapshot <= $1 ORDER BY x.data_file_id, x.begin_snapshot
"""
# Columns of a changed inlined row: row id, inserting snapshot, deleting snapshot or NULL.
ROW_ID, BEGIN, END = "__lakeconf_row_id", "__lakeconf_begin", "__lakeconf_end"
# `by_timestamp` rejects a date, which is not a moment.
_TIMES = (str, date)


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deletes from one data file until the end of the range."""

    path: str  # the path of the data file
    # Its delete files, each with the snapshot of the deletes that do not record one.
    files: tuple[tuple[DeleteFile, int], ...] = ()
    # Pairs of a 0-based position and the snapshot that deleted it, from the catalog.
    inlined: tuple[tuple[int, int], ...] = ()
    # The snapshot in the range that deleted the rest of the file; None if there is none.
    end_snapshot: int | None = None
    is_rewritten: bool = False  # True if the range rewrote the file: later deletes are in the new file
    is_mixed: bool = False  # True if the file contains rows of several snapshots


@dataclass(frozen=True, slots=True)
class InlinedRow:
    """An inlined row that the range inserted, deleted, or both."""

    row_id: int
    begin_snapshot: int  # the snapshot that inserted it
    end_snapshot: int | None  # the snapshot that deleted it, possibly after the range; None if it is not deleted


@dataclass(frozen=True, slots=True)
class ChangesPlan:
    """What to read for the changes of a table in a range of snapshots; plain data, independent of engines."""

    since: int  # the first snapshot of the range
    # Files with rows that the range inserted, as of its end, without deletes applied. They may also contain rows of
    # other snapshots.
    inserted: ScanPlan
    deleted: ScanPlan  # files with rows that the range deleted, likewise
    deletes: tuple[Deletes, ...]  # the deletes from each file of `deleted`, in the same order
    compactions: tuple[int, ...]  # snapshots of the range that only rewrote files: their rows are not changes
    inlined_rows: tuple[InlinedRow, ...]  # the inlined rows that the range changed
    inlined_tables: tuple[str, ...]  # the catalog's tables that contain these rows
    oldest: int  # the oldest snapshot of the lake

    @property
    def until(self) -> int:
        """The last snapshot of the range."""
        return self.inserted.snapshot_id


@dataclass(frozen=True)
class _FeedFile:
    """A data file and the snapshots of its rows, from the catalog."""

    file: DataFile
    partial_max: int | None
    end_snapshot: int | None
    delete_files: Sequence[tuple[DeleteFile, int, int]]
    inlined: Sequence[tuple[int, int]]


def plan_changes(reader: CatalogReader, table_name: str, since: int, until: int) -> ChangesPlan:
    """Plans the change feed of a table in one metadata transaction."""
    time_zone = reader.time_zone
    with reader.transaction() as transaction:
        table = find_table(transaction, table_name, until)
        changes = recorded_changes(transaction, since - 1, until)
        _check_deleted_rows(transaction, table, since, changes)
        compactions = tuple(
            version for version, text in changes if _REWRITES & {kind for kind, _ in made_changes(text)}
        )
        ((oldest,),) = transaction.rows("SELECT min(snapshot_id) FROM ducklake_snapshot")
        files = _files(transaction, table, since, until)
        _check_changed_once(table, files, since)
        inlined = _inlined_rows(transaction, table, since, until)
        inserted = [file.file for file in files if _may_insert(file, since, compactions)]
        losses = [(file.file, _deletes(file, since, until, compactions)) for file in files]
        deleted = [(file, deletes) for file, deletes in losses if deletes is not None]
        changed_files = [*inserted, *(file for file, _ in deleted)]
        mappings = load_name_mappings(transaction, (f.mapping_id for f in changed_files if f.mapping_id is not None))

    def scan(files: Sequence[DataFile]) -> ScanPlan:
        return ScanPlan(until, table, table.columns, tuple(files), mappings, (), time_zone=time_zone)

    return ChangesPlan(
        since=since,
        inserted=scan(inserted),
        deleted=scan([file for file, _ in deleted]),
        deletes=tuple(deletes for _, deletes in deleted),
        compactions=compactions,
        inlined_rows=tuple(row for rows in inlined.values() for row in rows),
        inlined_tables=tuple(inlined),
        oldest=oldest,
    )


def _check_deleted_rows(
    transaction: MetadataTransaction, table: TableInfo, since: int, changes: Sequence[tuple[Any, ...]]
) -> None:
    """Checks that the rows that the first snapshot deleted exist: DuckLake removes them with the snapshot before it."""
    deletes = any(
        version == since and changed == table.table_id and "delete" in kind
        for version, text in changes
        for kind, changed in changed_tables(text)
    )
    before = "SELECT 1 FROM ducklake_snapshot WHERE snapshot_id = ?"
    if deletes and not transaction.rows(before, [since - 1]):
        raise SnapshotNotFoundError(
            f"the changes of snapshot {since} are not available: it deleted rows of {table.full_name}, "
            "and the snapshot before it has expired",
            hint=f"read the changes from snapshot {since + 1} on",
        )


def _check_changed_once(table: TableInfo, files: Sequence[_FeedFile], since: int) -> None:
    """Rejects a snapshot that changed rows which it had written itself: the feed would have both changes of a row."""
    for file in files:
        begin = file.file.begin_snapshot
        # The file of a flush begins with the first of its rows, and has their deletes.
        if begin < since or file.partial_max is not None:
            continue
        deleted = [first for _, first, _ in file.delete_files] + [snapshot for _, snapshot in file.inlined]
        if begin in deleted:
            raise UnsupportedError(
                f"snapshot {begin} changed rows of {table.full_name} twice, so that its changes are not known",
                hint="compare two snapshots of the table: lake.at(version=…).table(…).scan()",
            )


def _may_insert(file: _FeedFile, since: int, compactions: Sequence[int]) -> bool:
    begin = file.file.begin_snapshot
    if file.partial_max is not None:
        return file.partial_max >= since
    return begin >= since and begin not in compactions


def _deletes(file: _FeedFile, since: int, until: int, compactions: Sequence[int]) -> Deletes | None:
    """Returns the deletes from a file; None if the range deleted no rows of it."""
    end = file.end_snapshot
    ends = end is not None and since <= end <= until
    is_rewritten = end in compactions
    in_files = any(last >= since for _, _, last in file.delete_files)
    if (is_rewritten or not ends) and not in_files and all(snapshot < since for _, snapshot in file.inlined):
        return None
    if any(deletes.format == "puffin" for deletes, *_ in file.delete_files):
        raise UnsupportedError(
            f"{file.file.path} has a deletion vector, which does not record the snapshots of its deletes",
            hint="compare two snapshots of the table: lake.at(version=…).table(…).scan()",
        )
    return Deletes(
        path=file.file.path,
        files=tuple((deletes, begin) for deletes, begin, _ in file.delete_files),
        inlined=tuple(file.inlined),
        end_snapshot=end if ends and not is_rewritten else None,
        is_rewritten=is_rewritten,
        is_mixed=file.partial_max is not None,
    )


def _files(transaction: MetadataTransaction, table: TableInfo, since: int, until: int) -> list[_FeedFile]:
    """Returns the table's files until the snapshot, including removed ones, that the range may have changed."""
    delete_files = _delete_files(transaction, table, until)
    inlined = _inlined_deletes(transaction, table, until)
    touched = [i for i, files in delete_files.items() if any(last >= since for _, _, last in files)]
    touched += [i for i, pairs in inlined.items() if any(snapshot >= since for _, snapshot in pairs)]
    rows = transaction.rows(_DATA_FILES, [until, table.table_id, since, touched])
    return [
        _FeedFile(to_data_file(table, row), partial_max, end, delete_files[row[0]], inlined[row[0]])
        for *row, partial_max, end in rows
    ]


def _delete_files(
    transaction: MetadataTransaction, table: TableInfo, until: int
) -> dict[int, list[tuple[DeleteFile, int, int]]]:
    """Returns the delete files of each data file, with the first and last snapshots of their deletes."""
    deletes: defaultdict[int, list[tuple[DeleteFile, int, int]]] = defaultdict(list)
    ends: dict[int, int | None] = {}
    for data_file_id, begin, end, latest, *row in transaction.rows(_DELETE_FILES, [until, table.table_id]):
        last = ends.get(data_file_id, begin)
        if last is None or last > begin:
            raise CatalogError(
                f"the data file {data_file_id} of {table.full_name} has two delete files at version "
                f"{begin}: two concurrent deletes damaged the table",
                hint=f"read only changes before version {begin}",
            )
        ends[data_file_id] = end
        deletes[data_file_id].append((to_delete_file(table, row), begin, latest))
    return deletes


def _inlined_deletes(
    transaction: MetadataTransaction, table: TableInfo, until: int
) -> dict[int, list[tuple[int, int]]]:
    deletes: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    name = inlined_deletes_table(table.table_id)
    if transaction.has_table(name):
        # Its `row_id` is the position in the file, not the row id.
        sql = f"SELECT file_id, row_id, min(begin_snapshot) FROM {identifier(name)} WHERE begin_snapshot <= $1"  # noqa: S608
        for data_file_id, position, snapshot in transaction.rows(f"{sql} GROUP BY ALL ORDER BY ALL", [until]):
            deletes[data_file_id].append((position, snapshot))
    return deletes


def _inlined_rows(
    transaction: MetadataTransaction, table: TableInfo, since: int, until: int
) -> dict[str, list[InlinedRow]]:
    """Returns the rows that the range changed, by inlined data table."""
    rows_by_table: dict[str, list[InlinedRow]] = {}
    for (name,) in transaction.rows(INLINED_TABLES, [table.table_id]):
        rows: list[tuple[Any, ...]] = transaction.rows(
            f"SELECT row_id, begin_snapshot, end_snapshot FROM {identifier(name)} "  # noqa: S608
            "WHERE begin_snapshot BETWEEN $1 AND $2 OR end_snapshot BETWEEN $1 AND $2 ORDER BY ALL",
            [since, until],
        )
        if rows:
            rows_by_table[name] = [InlinedRow(*row) for row in rows]
    return rows_by_table


def plan_changes_with_inlined_rows(
    reader: CatalogReader, table_name: str, since: int, until: int
) -> tuple[ChangesPlan, pyarrow.Table]:
    """Plans the change feed of a table and reads its inlined rows; plans again if a flush moved them."""
    return until_stable(
        lambda: plan_changes(reader, table_name, since, until), lambda plan: changed_inlined_rows(reader, plan)
    )


def changed_inlined_rows(reader: CatalogReader, plan: ChangesPlan) -> pyarrow.Table:
    """Reads the inlined rows that the range inserted or deleted, with the columns and DuckDB types of its end.

    Queries DuckDB for all rows ever inlined, including deleted ones. The last columns are `ROW_ID`, `BEGIN` and `END`.
    """
    import pyarrow

    table, columns = plan.inserted.table, plan.inserted.columns
    keys = pyarrow.table(
        {
            ROW_ID: pyarrow.array([row.row_id for row in plan.inlined_rows], pyarrow.int64()),
            BEGIN: pyarrow.array([row.begin_snapshot for row in plan.inlined_rows], pyarrow.int64()),
            END: pyarrow.array([row.end_snapshot for row in plan.inlined_rows], pyarrow.int64()),
        }
    )
    if not plan.inlined_rows:
        return keys  # DuckDB would read a data file even without rows
    _refuse_inlined(reader, plan)
    names = ", ".join(map(literal, (reader.alias, table.schema_name, table.name)))
    selected = ", ".join(identifier(column.name) for column in columns)
    everything = (
        f"SELECT {selected}, rowid AS {ROW_ID}, snapshot_id AS {BEGIN} "  # noqa: S608
        f"FROM ducklake_table_insertions({names}, {plan.oldest}, {plan.until}) "
        f"WHERE filename IN ({', '.join(map(literal, plan.inlined_tables))})"
    )
    with reader.lake_cursor() as cursor:
        inlined = cursor.arrow(everything)
        # Join afterwards: DuckDB's handling of filters on the key inside the function is not reliable.
        cursor.register("inlined_rows", inlined)
        cursor.register("wanted_rows", keys)
        rows = cursor.arrow(f"FROM inlined_rows JOIN wanted_rows USING ({ROW_ID}, {BEGIN})")
    if rows.num_rows != len(plan.inlined_rows):
        raise moved_rows(table, len(plan.inlined_rows), rows.num_rows)
    return rows


def _refuse_inlined(reader: CatalogReader, plan: ChangesPlan) -> None:
    table = plan.inserted.table
    flush = f"move them to a file: CALL ducklake_flush_inlined_data({literal(reader.alias)})"
    for column in plan.inserted.columns:
        if folded(column.name) == "filename":
            raise UnsupportedError(
                f"the table {table.full_name} has inlined rows, but its column {column.name!r} hides "
                "DuckDB's virtual column that identifies them",
                hint=flush,
            )
        if "variant" in all_types(column):
            raise UnsupportedError(
                f"the table {table.full_name} has inlined rows, and DuckDB cannot export its VARIANT "
                f"column {column.name!r}",
                hint=flush,
            )
    if any(row.begin_snapshot < plan.oldest for row in plan.inlined_rows):
        raise UnsupportedError(
            f"inlined rows of {table.full_name} were deleted in this range, but inserted in a snapshot that has expired"
        )


def check_range(
    reader: CatalogReader, snapshot_id: int, since: int | datetime | str, until: int | datetime | str | None
) -> tuple[int, int]:
    """Checks that all changes in a range of snapshots are available."""
    last = snapshot_id if until is None else until
    last = by_timestamp(reader, last).snapshot_id if isinstance(last, _TIMES) else version_number(last)
    if last > snapshot_id:
        raise LakeconfError(
            f"changes until snapshot {last} were requested, but the lake reads snapshot {snapshot_id}",
            hint="call lake.refresh(), or omit `until`",
        )
    first = _first_since(reader, since) if isinstance(since, _TIMES) else version_number(since)
    if first > last:
        raise LakeconfError(f"no changes since snapshot {first} until snapshot {last}: the range is empty")
    existing = {snapshot.snapshot_id for snapshot in snapshots(reader)}
    lost = [version for version in range(first, last + 1) if version not in existing]
    if lost:
        raise SnapshotNotFoundError(
            f"the changes of snapshot {lost[-1]} are not available: it has expired or never existed",
            hint=f"read the changes from snapshot {min(v for v in existing if v > lost[-1])} on",
        )
    return first, last


def _first_since(reader: CatalogReader, moment: datetime | str) -> int:
    """The first snapshot committed at or after this time; it may not exist yet, or may have expired."""
    before = by_timestamp(reader, moment)
    return before.snapshot_id if before.time == moment_of(moment) else before.snapshot_id + 1


def refuse_hidden(info: TableInfo) -> None:
    """Rejects a table with a column that hides a column of the change feed."""
    hidden = [column.name for column in info.columns if folded(column.name) in KEY]
    if hidden:
        # DuckLake silently returns the table's value instead of its own.
        raise UnsupportedError(
            f"{info.full_name} has a column {hidden[0]!r}, which hides a column of the change feed",
            hint=f"rename the column; the change feed has the columns {', '.join(KEY)}",
        )


def changes_sql(reader: CatalogReader, plan: ChangesPlan) -> str:
    """DuckDB's query for the changes of a plan. An outer filter selects from its rows and does not change them."""
    table = plan.inserted.table
    refuse_hidden(table)
    for deletes in plan.deletes:
        if _is_misread(deletes):
            raise UnsupportedError(
                f"DuckDB returns wrong changes for deletes from {deletes.path} of {table.full_name}",
                hint="read the changes with Spark: open the lake with a session, store.open(spark)",
            )
    names = ", ".join(map(literal, (reader.alias, table.schema_name, table.name)))
    feed = f"FROM ducklake_table_changes({names}, {plan.since}, {plan.until})"
    # DuckDB compares a filter on `snapshot_id` with the snapshot that inserted the row, even if another one deleted it.
    # It pushes no filter below a LIMIT.
    query = f"FROM ({feed} LIMIT {ALL})"
    if plan.compactions:
        # DuckDB reports every row of a rewritten file as updated.
        query += f" WHERE snapshot_id NOT IN ({', '.join(map(str, plan.compactions))})"
    if any(begin == deletes.end_snapshot for deletes in plan.deletes for _, begin in deletes.files):
        # DuckDB returns the deletes of a snapshot twice if it first deletes rows of a file and then its other rows.
        query = f"SELECT DISTINCT ON (snapshot_id, rowid, change_type) * {query}"
    return query


def changes_on_spark(
    reader: CatalogReader, table: str, since: int, until: int, read: Callable[[ChangesPlan, pyarrow.Table], Rows]
) -> Rows:
    """The changes of a table, read by Spark; the error for those that it cannot read contains DuckDB's query."""
    refuse_hidden(load_table(reader, table, until))
    try:
        return read(*plan_changes_with_inlined_rows(reader, table, since, until))
    except UnsupportedError as error:
        query = changes_sql(reader, plan_changes(reader, table, since, until))
        raise UnsupportedError(
            f"Spark cannot read the changes of {table}: {error.message}",
            hint=f"read them with DuckDB: lake.sql({query!r})",
        ) from error


def _is_misread(deletes: Deletes) -> bool:
    """True if DuckDB loses deletes of a file or assigns them to the wrong snapshot."""
    if deletes.is_mixed:
        return True
    return bool(deletes.inlined) and (
        deletes.end_snapshot is not None or (deletes.is_rewritten and bool(deletes.files))
    )
