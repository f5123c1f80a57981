"""Deleted rows of a change: by position, by row id, or with their whole files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.predicates import Predicate, columns_of
from lakeconf.catalog.pruned_files import Coverage, coverage
from lakeconf.catalog.reader import CatalogReader, own_rows, repeated
from lakeconf.catalog.scan import ScanPlan, plan_in, plan_scan
from lakeconf.catalog.table import TableInfo, split_name
from lakeconf.commit.conflicts import ReadDependency
from lakeconf.commit.position_files import (
    DELETED_ROWS,
    IDS_IN_MEMORY,
    SORTED_IN_MEMORY,
    DeletedPositions,
    LiveFiles,
    PositionFile,
    SortedPositions,
    count_and_sum,
    kept_ids,
    live_files,
    locate,
    write_position_files,
    write_positions,
)
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import DELETED_POSITION
from lakeconf.engines.base import FILE_ID, FILE_ROW_NUMBER, FILENAME, ROW_ID
from lakeconf.errors import CatalogError, CommitConflictError
from lakeconf.sql import literal, qualified

# DuckLake needs 30 to 60 bytes of memory for each row that a statement deletes, also if it drops whole files.
ROWS_PER_STATEMENT = 2_000_000


@dataclass(frozen=True)
class PositionDelete:
    """The rows of a table that satisfy a predicate, as far as they were found before the commit.

    Data files do not change, so what was found in a file is right for as long as the file exists and no other row of it
    is deleted.

    Attributes:
        name: The table, quoted, without the lake.
        table: The table, quoted, with the lake.
        plan: The plan of the search: the predicate, and the files that may match, at the snapshot that was the latest.
        condition: The predicate in SQL.
        covered: Files of which every row satisfies it.
        searched: Other files.
        found: The number of matching rows in each of the searched files that has any, by path.
        source: SQL that returns the positions of these rows, with the columns of `POSITION_TYPES`; empty if no file was
            searched.
        has_few_others: True if one statement can delete the rows of all files that were not searched: they are few.
    """

    name: str
    table: str
    plan: ScanPlan
    condition: str
    covered: tuple[DataFile, ...] = ()
    searched: tuple[DataFile, ...] = ()
    found: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    has_few_others: bool = False

    def statements(self, reader: CatalogReader, begun: int) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
        """The statements that delete exactly the rows that satisfy the predicate at a snapshot.

        Rows that were not searched are selected by the predicate itself: those in the catalog, and those in files that
        are new or have lost rows.

        Args:
            begun: The snapshot. The caller must check afterwards that it is still the latest one: a flush changes where
                the rows of an older snapshot are.

        Returns:
            The statements, and the number of rows that each must delete; None if the number is not known.
        """
        plan = self.plan
        if begun != plan.snapshot_id:
            plan = plan_scan(reader, self.name, begun, (), plan.predicate)
        unchanged = set(plan.files)
        ids = {file.data_file_id for file in self.covered}
        covered = [file for file in plan.files if file.data_file_id in ids]
        searched = [file.path for file in self.searched if file in unchanged]
        known = {*(file.path for file in covered), *searched}
        others = {file.path: file.record_count for file in plan.files if file.path not in known}
        counted = {file.path: visible_rows(file) for file in covered if is_exact(file)}
        uncounted = {file.path: file.record_count for file in covered if not is_exact(file)}
        matching = {path: self.found[path] for path in searched if self.found.get(path)}
        others |= dict.fromkeys(plan.inlined_tables, 0)
        most = sum(others.values()) if self.has_few_others else None
        parts: list[tuple[dict[str, int], str, bool]] = [
            *((files, "", True) for files in batches(counted)),
            *((files, "", False) for files in batches(uncounted)),
            *((files, self._by_position(files), True) for files in batches(matching)),
            *((files, self.condition, False) for files in batches(others, most)),
        ]
        statements = {
            f"DELETE FROM {self.table} WHERE {in_files(files)}{f' AND {condition}' if condition else ''}": (
                sum(files.values()) if is_known else None
            )
            for files, condition, is_known in parts
        }
        return tuple(statements), tuple(statements.values())

    def _by_position(self, files: Iterable[str]) -> str:
        positions = f"SELECT {FILENAME}, {FILE_ROW_NUMBER} FROM ({self.source}) WHERE {in_files(files, FILENAME)}"
        return f"(filename, file_row_number) IN ({positions})"


def batches(files: Mapping[str, int], most: int | None = None) -> Iterator[dict[str, int]]:
    """Divides files, so that no batch of several files has more rows than wanted.

    Args:
        files: The number of rows of each file, by path.
        most: The number of rows; default: `ROWS_PER_STATEMENT`.
    """
    most = ROWS_PER_STATEMENT if most is None else most
    batch: dict[str, int] = {}
    for path, rows in files.items():
        if batch and sum(batch.values()) + rows > most:
            yield batch
            batch = {}
        batch[path] = rows
    if batch:
        yield batch


def is_exact(file: DataFile) -> bool:
    """True if all rows of a file are visible, except those that its deletes name in one place.

    DuckDB does not combine a delete file with deletes in the catalog of the same rows.
    """
    return file.snapshot_filter is None and not (file.delete_file is not None and file.inlined_deletes)


def visible_rows(file: DataFile) -> int:
    """The number of rows of a file that are not deleted, if its deletes are exact."""
    deleted = len(file.inlined_deletes) + (file.delete_file.delete_count if file.delete_file else 0)
    return file.record_count - deleted


def in_files(paths: Iterable[str], column: str = "filename") -> str:
    """The SQL condition that a row is in one of these files, or of the catalog's tables."""
    return f"{column} IN ({', '.join(map(literal, paths))})"


def delete_rows(
    reader: CatalogReader,
    writer: Connection,
    table: TableInfo,
    row_ids: str,
    row_count: int,
    begun: int,
    folder: str,
    found: SortedPositions | None = None,
) -> DeletedPositions:
    """Writes files of the positions of rows, and returns them with the rows that are in the catalog.

    Args:
        row_ids: SQL that returns their ids, as `ROW_ID`; and `FILE_ID` if there is `found`.
        begun: The snapshot that the commit builds on.
        folder: The folder for the files of positions.
        found: The positions of those of the rows that have a `FILE_ID`. They are not used if other files have these
            rows now, such as after a compaction.
    """
    live = live_files(reader, table, begun)
    # In an open transaction, DuckDB would keep the memory of dropped tables.
    with writer.cursor() as cursor:
        if found is None or not found.are_of(live):
            return _written(live, cursor, reader.alias, row_ids, row_count, folder)
        files = tuple(found.write(cursor, live, found.counts.keys(), folder))
        count = row_count - sum(found.counts.values())
        if not count:
            return DeletedPositions(files, ())
        others = _written(live, cursor, reader.alias, f"FROM ({row_ids}) WHERE {FILE_ID} IS NULL", count, folder)
        return replace(others, files=(*files, *others.files))


def _written(
    live: LiveFiles, writer: Connection, lake: str, row_ids: str, row_count: int, folder: str
) -> DeletedPositions:
    table = live.table
    named = qualified(lake, table.schema_name, table.name)
    places = f"SELECT filename, file_row_number, rowid AS row_id FROM {named} AT (VERSION => {live.begun}) WHERE "
    files: list[PositionFile] = []
    inlined: list[tuple[str, int]] = []
    count = total = 0
    with kept_ids(writer, row_ids, row_count) as kept:
        wanted = count_and_sum(writer, kept)
        for condition, parts in _searches(live.row_counts, kept, row_count):
            located = locate(live, writer, f"{places}{condition}", parts)
            found, hashes = count_and_sum(writer, f"SELECT row_id AS {ROW_ID} FROM {DELETED_ROWS}")
            count, total = count + found, total + hashes
            written = write_position_files(writer, located, folder)
            files += written.files
            inlined += written.inlined
    if not (count, total) == wanted == (row_count, total):
        raise CommitConflictError(
            f"expected to change {row_count} rows of {table.full_name}, but found {count}: nothing was written",
            hint="call lake.refresh() and try again",
        )
    return DeletedPositions(tuple(files), tuple(inlined))


def _searches(row_counts: Mapping[str, int], kept: str, row_count: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Conditions on rows of the lake, each with conditions on the places of these rows that select the deleted ones."""
    if row_count <= IDS_IN_MEMORY:
        yield f"rowid IN (SELECT {ROW_ID} FROM ({kept}))", ()
        return
    # A file has more rows than fit, or there are more ids: DuckDB gets parts of both that fit, by a hash.
    for names in batches(row_counts):
        count = max(1, -(-sum(names.values()) // (IDS_IN_MEMORY // 2)))
        parts = [
            f"hash(row_id) % {count} = {part} AND row_id IN "
            f"(SELECT {ROW_ID} FROM ({kept}) WHERE hash({ROW_ID}) % {count} = {part})"
            for part in range(count)
        ]
        yield f"filename IN ({', '.join(map(literal, names))})", parts


class DeletedFiles(NamedTuple):
    """The data files of a delete.

    Attributes:
        dropped: Files that a staged commit can drop, because all of their rows are deleted.
        searched: Files of which only some rows may be deleted, or that are outside the data path.
    """

    dropped: tuple[DataFile, ...]
    searched: tuple[DataFile, ...]


@repeated
def plan_delete(
    reader: CatalogReader, name: str, predicate: Predicate | None, snapshot_id: int | None = None
) -> tuple[ScanPlan, Coverage]:
    """The files that may contain rows to delete, and which of them are covered.

    Args:
        name: The table, quoted, without the lake.
        predicate: The condition on the rows; None for all rows.
        snapshot_id: The snapshot; by default the latest one, so that the commit finds as little as possible changed. In
            an older plan, delete files could contain deletes of later snapshots.
    """
    names = [] if predicate is None else [column.name for column in columns_of(predicate)]
    time_zone = reader.time_zone
    with reader.transaction() as transaction:
        if snapshot_id is None:
            ((snapshot_id,),) = transaction.rows("SELECT max(snapshot_id) FROM ducklake_snapshot")
        plan = plan_in(transaction, time_zone, name, snapshot_id, names, predicate)
        known = None if predicate is None else coverage(transaction, plan.table, snapshot_id, predicate)
        return plan, known or Coverage(frozenset(), {})


def divided_files(plan: ScanPlan, covered: Collection[int], data_path: str) -> DeletedFiles | None:
    """Divides the files of a delete; None if no staged commit can delete their rows.

    Args:
        covered: The ids of files of which every row satisfies its condition, if it has one.
        data_path: The data path of the lake.
    """
    files = plan.files
    # A file that another writer has registered twice has two ids, and DuckLake finds it by its path.
    if len({file.path for file in files}) < len(files):
        return None
    # In a file with rows of later snapshots, other rows than the visible ones would be deleted.
    if any(file.snapshot_filter is not None for file in files):
        return None
    is_whole = plan.predicate is None
    whole = tuple(file for file in files if is_whole or file.data_file_id in covered)
    # If a dropped file has deletes in the catalog, DuckLake's change feed returns these rows again, and not the others.
    if any(file.inlined_deletes for file in whole):
        return None
    dropped = tuple(file for file in whole if file.path.startswith(data_path))
    searched = tuple(file for file in files if file not in set(dropped))
    if any(map(_has_other_deletes, searched)):
        return None
    # Without a row, there is nothing to commit.
    return DeletedFiles(dropped if any(map(visible_rows, dropped)) else (), searched)


def _has_other_deletes(file: DataFile) -> bool:
    """True if a file of deleted positions would not be encrypted, or cannot contain the earlier deletes."""
    deletes = file.delete_file
    return file.encryption_key is not None or (deletes is not None and deletes.format != "parquet")


class StatementsNeeded(Exception):  # noqa: N818 - no error: the commit continues with statements
    """A staged commit cannot delete all rows that satisfy the condition."""


@dataclass(frozen=True)
class StagedDelete:
    """The rows of a table that satisfy a condition.

    Attributes:
        table: The table.
        predicate: The condition; None for all rows.
        condition: The same condition in SQL.
        folder: The folder for files of deleted positions; empty if whole files contained all rows when it was planned.
        found: Positions that executors have found in some files.
    """

    table: TableInfo
    predicate: Predicate | None
    condition: str
    folder: str = ""
    found: SortedPositions | None = None

    def rows(
        self, reader: CatalogReader, writer: Connection, begun: int
    ) -> tuple[tuple[DataFile, ...], DeletedPositions]:
        """The files to drop, and the other rows to delete, at a snapshot."""
        name = qualified(self.table.schema_name, self.table.name)
        plan, known = plan_delete(reader, name, self.predicate, begun)
        files = divided_files(plan, known.covered, reader.data_path)
        if files is None:
            raise StatementsNeeded
        others = DeletedPositions((), ())
        if files.searched or plan.inlined_row_count:
            if not self.folder or (files.searched and reader.encrypted):
                raise StatementsNeeded
            live = live_files(reader, self.table, begun)
            ((time_zone,),) = writer.rows("SELECT system.main.current_setting('TimeZone')")
            with writer.cursor() as cursor:
                # A file may contain TIMESTAMP values of a column that is a TIMESTAMPTZ now.
                cursor.execute(f"SET TimeZone = {literal(time_zone)}")
                others = self._positions(live, cursor, reader.alias, plan, files.searched)
        if not (files.dropped or others.files or others.inlined):
            raise StatementsNeeded
        return files.dropped, others

    def _positions(
        self, live: LiveFiles, writer: Connection, lake: str, plan: ScanPlan, searched: Sequence[DataFile]
    ) -> DeletedPositions:
        found = self.found
        known = set[DataFile]() if found is None else set(found.data_files)
        same = {file.data_file_id for file in searched if file in known}
        written: list[PositionFile] = []
        if found is not None:
            written += found.write(writer, live, same & found.counts.keys(), self.folder)
        row_counts = {file.path: file.record_count for file in searched if file.data_file_id not in same}
        row_counts |= dict.fromkeys(plan.inlined_tables, 0)
        inlined: list[tuple[str, int]] = []
        for names in batches(row_counts, SORTED_IN_MEMORY):
            rows = f"FROM {qualified(lake, self.table.schema_name, self.table.name)} AT (VERSION => {live.begun}) "
            rows += f"WHERE {in_files(names)} AND ({self.condition})"
            if sum(names.values()) > SORTED_IN_MEMORY:
                written += self._of_large_file(live, writer, rows, *names)
                continue
            places = f"SELECT filename, file_row_number, rowid AS row_id {rows}"
            part = write_position_files(writer, locate(live, writer, places), self.folder)
            written += part.files
            inlined += part.inlined
        return DeletedPositions(tuple(written), tuple(inlined))

    def _of_large_file(self, live: LiveFiles, writer: Connection, rows: str, path: str) -> list[PositionFile]:
        ((count,),) = writer.rows(f"SELECT count(*) {rows}")
        if not count:
            return []
        positions = f"SELECT file_row_number AS {DELETED_POSITION.name} {rows}"
        return [write_positions(writer, live, path, positions, count, self.folder, is_sorted=True)]


# DuckDB reads such a data file once for each delete file. A row that was not deleted is returned each time, so a
# delete file contains each row with fewer copies.
_REBUILD = """\
CREATE TABLE {rebuilt} AS WITH
copies AS (SELECT path, greatest(count(delete_file_id), 1) AS wanted FROM (
    SELECT data_file_id, path FROM {metadata}.ducklake_data_file WHERE table_id = {table_id} AND end_snapshot IS NULL
) LEFT JOIN (
    SELECT data_file_id, delete_file_id FROM {metadata}.ducklake_delete_file WHERE end_snapshot IS NULL
) USING (data_file_id) GROUP BY path),
rows AS (SELECT *, filename AS __file, count(*) OVER (PARTITION BY rowid) AS __found,
    row_number() OVER (PARTITION BY rowid) AS __number FROM {table})
SELECT rows.* EXCLUDE (__file, __found, __number) FROM rows LEFT JOIN copies ON ends_with(__file, path)
WHERE __number = 1 AND __found = coalesce(wanted, 1);"""


def check_delete_files(reader: CatalogReader, deleted_from: Iterable[ReadDependency | None]) -> None:
    """Refuses to delete from a table if one of its data files has two live delete files, or is registered twice.

    DuckLake lets two concurrent deletes on one file commit. Commits of lakeconf prevent this; other writers do not. It
    deletes only some rows of a file that is registered twice.

    Args:
        deleted_from: The tables; None for a table that the commit creates.
    """
    tables = {dependency.table_id: dependency.table for dependency in deleted_from if dependency is not None}
    if not tables:
        return
    ids = ", ".join(map(str, sorted(tables)))
    with reader.transaction() as transaction:
        doubled = own_rows(
            transaction,
            "SELECT table_id, data_file_id FROM ducklake_delete_file "
            f"WHERE end_snapshot IS NULL AND table_id IN ({ids}) "
            "GROUP BY table_id, data_file_id HAVING count(*) > 1",
            "table_id BIGINT, data_file_id BIGINT",
        )
        repeated = own_rows(
            transaction,
            "SELECT table_id, path FROM ducklake_data_file "
            f"WHERE end_snapshot IS NULL AND table_id IN ({ids}) "
            "GROUP BY table_id, path, path_is_relative HAVING count(*) > 1 LIMIT 1",
            "table_id BIGINT, path VARCHAR",
        )
    if doubled:
        table_id, data_file_id = doubled[0]
        table = tables[table_id]
        raise CatalogError(
            f"two writers deleted from {table} at the same time: the data file {data_file_id} has two delete "
            "files, and deleted rows are visible again, so nothing was written",
            hint="rebuild the table with DuckDB, compare both, then drop the damaged table and rename the new one:\n"
            + rebuild_sql(reader, table_id, table),
        )
    if repeated:
        table_id, path = repeated[0]
        table = tables[table_id]
        raise CatalogError(
            f"the file {path} is registered more than once in {table}, and DuckLake would delete only some of its "
            "rows, so nothing was written",
            hint=f"write its rows to another table, CREATE TABLE copied AS FROM {table}, and put that in its place",
        )


def rebuild_sql(reader: CatalogReader, table_id: int, table: str) -> str:
    """The statement that copies the rows of a damaged table that were not deleted to a new table.

    Args:
        table: The full name of the table.
    """
    schema, name = split_name(table)
    return _REBUILD.format(
        rebuilt=qualified(reader.alias, schema, f"{name}_rebuilt"),
        table=qualified(reader.alias, schema, name),
        metadata=reader.metadata,
        table_id=table_id,
    )
