"""Plans a scan: the files and rows that an engine reads for a table at one snapshot."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from lakeconf.catalog.column_types import all_types
from lakeconf.catalog.data_file import DataFile, NameMapping, load_data_files, load_name_mappings
from lakeconf.catalog.pruning.predicates import Predicate
from lakeconf.catalog.pruning.pruned_files import surviving_files
from lakeconf.catalog.pruning.where import Where, predicate_of
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.tables import NO_ID, Column, TableInfo, columns_named, find_table
from lakeconf.ducklake import INLINED_TABLES, INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID, inlined_deletes_table, visible_at
from lakeconf.errors import CatalogChangedError, UnsupportedError
from lakeconf.logs import event_logger
from lakeconf.sql import folded, identifier, literal

if TYPE_CHECKING:
    import pyarrow


# DuckDB's virtual columns, and their names in files and in results of this module.
_VIRTUAL = {"rowid": INTERNAL_ROW_ID.name, "snapshot_id": INTERNAL_SNAPSHOT_ID.name}
Plan = TypeVar("Plan")
# How often a plan is made if flushes move its inlined rows before they are read; each takes some milliseconds.
_ATTEMPTS = 50
# How many tables with inlined rows one statement counts.
_MOST_COUNTED = 100
_log = event_logger("plan")
# A file whose rows have several snapshots does not tell how many of them are visible.
_FILES = f"""
    SELECT coalesce(sum(record_count), 0), count(*) FILTER (partial_max > $1 OR file_format <> 'parquet')
    FROM ducklake_data_file WHERE table_id = $2 AND {visible_at()}
"""  # noqa: S608
_DELETED_IN_FILES = f"""
    SELECT coalesce(sum(d.delete_count), 0), count(*), count(DISTINCT d.data_file_id)
    FROM ducklake_delete_file AS d JOIN ducklake_data_file AS f USING (data_file_id)
    WHERE d.table_id = $2 AND {visible_at(row="d")} AND {visible_at(row="f")}
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What to read of a table at one snapshot; plain data, independent of engines."""

    snapshot_id: int
    table: TableInfo  # the table at that snapshot, with all its columns
    columns: tuple[Column, ...]  # the selected columns, in the selected order
    files: tuple[DataFile, ...]  # the data files to read
    name_mappings: Mapping[int, tuple[NameMapping, ...]]  # the mappings that the files need, by `mapping_id`
    inlined_tables: tuple[str, ...]  # names of the catalog's tables with inlined rows visible at the snapshot
    files_skipped: int = 0  # the number of files that statistics or partition values exclude
    bytes_skipped: int = 0  # their size in bytes
    time_zone: str = "UTC"  # the time zone in which DuckDB casts TIMESTAMP to TIMESTAMPTZ for this lake
    inlined_row_count: int = 0  # the number of inlined rows visible at the snapshot
    # The condition on rows; None for all rows. The files may also contain rows that do not match.
    predicate: Predicate | None = None


def plan_scan(
    reader: CatalogReader,
    table_name: str,
    snapshot_id: int,
    columns: Sequence[str] | None = None,
    where: Where | Predicate | None = None,
) -> ScanPlan:
    """Plans the scan of a table at a snapshot in one metadata transaction."""
    time_zone = reader.time_zone
    with reader.transaction() as transaction:
        return plan_in(transaction, time_zone, table_name, snapshot_id, columns, where)


def plan_in(
    transaction: MetadataTransaction,
    time_zone: str,
    table_name: str,
    snapshot_id: int,
    columns: Sequence[str] | None = None,
    where: Where | Predicate | None = None,
) -> ScanPlan:
    """Like `plan_scan`, in an open transaction."""
    table = find_table(transaction, table_name, snapshot_id)
    selected = table.columns if columns is None else columns_named(table, columns)
    predicate = None if where is None else predicate_of(where, table.columns)
    survivors = None if predicate is None else surviving_files(transaction, table, snapshot_id, predicate)
    ids = None if survivors is None else survivors.data_file_ids
    files = load_data_files(transaction, table, snapshot_id, ids)
    mappings = load_name_mappings(transaction, (f.mapping_id for f in files if f.mapping_id is not None))
    inlined = inlined_row_counts(transaction, table, snapshot_id)
    skipped = survivors.files_skipped if survivors else 0
    _log.debug("scan of %s at snapshot %d: %d data files, %d skipped", table_name, snapshot_id, len(files), skipped)
    return ScanPlan(
        snapshot_id=snapshot_id,
        table=table,
        columns=selected,
        files=files,
        name_mappings=mappings,
        inlined_tables=tuple(inlined),
        files_skipped=skipped,
        bytes_skipped=survivors.bytes_skipped if survivors else 0,
        time_zone=time_zone,
        inlined_row_count=sum(inlined.values()),
        predicate=predicate,
    )


def plan_with_inlined_rows(
    reader: CatalogReader,
    table_name: str,
    snapshot_id: int,
    columns: Sequence[str] | None = None,
    where: Where | Predicate | None = None,
) -> tuple[ScanPlan, pyarrow.Table]:
    """Plans a scan and reads its inlined rows; plans again if a flush moved them."""
    return until_stable(
        lambda: plan_scan(reader, table_name, snapshot_id, columns, where), lambda plan: inlined_rows(reader, plan)
    )


def until_stable(
    make_plan: Callable[[], Plan], read_rows: Callable[[Plan], pyarrow.Table]
) -> tuple[Plan, pyarrow.Table]:
    """Makes a plan and reads its inlined rows; repeats both a few times if a flush moves rows in between."""
    for _ in range(_ATTEMPTS - 1):
        plan = make_plan()
        with contextlib.suppress(CatalogChangedError):
            return plan, read_rows(plan)
    plan = make_plan()
    return plan, read_rows(plan)


def inlined_rows(reader: CatalogReader, plan: ScanPlan) -> pyarrow.Table:
    """Reads the inlined rows of the plan's table, without applying the predicate, in DuckDB's types.

    A flush after planning moves inlined rows to files that are not in the plan. Rows visible at a snapshot never change
    or grow in number, so a count equal to the plan's proves that no row was moved. Unless a column of the table is
    named `rowid` or `snapshot_id`, the last columns are `_ducklake_internal_row_id` and
    `_ducklake_internal_snapshot_id`.
    """
    names = {folded(column.name) for column in plan.table.columns}
    variants = [column.name for column in plan.columns if "variant" in all_types(column)]
    if variants and plan.inlined_row_count:
        raise UnsupportedError(
            f"the table {plan.table.full_name} has inlined rows, and DuckDB cannot export its "
            f"VARIANT column {variants[0]!r}",
            hint=f"move them to a file: CALL ducklake_flush_inlined_data({literal(reader.alias)})",
        )
    selected = [f"{'NULL AS ' * (column.name in variants)}{identifier(column.name)}" for column in plan.columns]
    selected += [f"{name} AS {alias}" for name, alias in _VIRTUAL.items() if name not in names]
    source = ".".join(identifier(part) for part in (reader.alias, plan.table.schema_name, plan.table.name))
    condition = _is_inlined(reader, plan, names)
    with reader.lake_cursor() as cursor:
        rows = cursor.arrow(
            f"SELECT {', '.join(selected)} FROM {source} AT (VERSION => {plan.snapshot_id}) WHERE {condition}"  # noqa: S608
        )
    if rows.num_rows != plan.inlined_row_count:
        raise moved_rows(plan.table, plan.inlined_row_count, rows.num_rows)
    return rows


def moved_rows(table: TableInfo, planned: int, current: int) -> CatalogChangedError:
    """Creates the error for inlined rows that a flush moved since planning."""
    return CatalogChangedError(
        f"inlined rows of {table.full_name} were moved to files after the scan was planned: the plan "
        f"has {planned} inlined rows, but the catalog has {current}",
        hint="plan the scan again",
    )


def _is_inlined(reader: CatalogReader, plan: ScanPlan, names: set[str]) -> str:
    """Returns the SQL condition that selects inlined rows without reading files."""
    if not plan.inlined_row_count:
        return "false"
    if "filename" not in names:
        return f"filename IN ({', '.join(map(literal, plan.inlined_tables))})"
    if "rowid" in names:
        raise UnsupportedError(
            f"the table {plan.table.full_name} has inlined rows, but its columns 'filename' and "
            "'rowid' hide DuckDB's virtual columns that identify them",
            hint=f"move them to a file: CALL ducklake_flush_inlined_data({literal(reader.alias)})",
        )
    with reader.transaction() as transaction:
        ids = [
            row_id
            for table in plan.inlined_tables
            if transaction.has_table(table)
            for (row_id,) in transaction.rows(_visible_inlined("row_id", table), [plan.snapshot_id])
        ]
    return f"rowid IN ({', '.join(map(str, ids)) or 'NULL'})"


def inlined_row_counts(transaction: MetadataTransaction, table: TableInfo, snapshot_id: int) -> dict[str, int]:
    """Returns the number of inlined rows visible at the snapshot, by inlined data table."""
    names = [name for (name,) in transaction.rows(INLINED_TABLES, [table.table_id])]
    return _visible_counts(transaction, names, snapshot_id)


def inlined_counts_of_all(transaction: MetadataTransaction, snapshot_id: int) -> dict[int, int]:
    """Returns the number of inlined rows of each table of the snapshot that has any."""
    rows = transaction.rows("SELECT table_name, table_id FROM ducklake_inlined_data_tables")
    owners = {str(name): int(table_id) for name, table_id in rows}
    counts: dict[int, int] = defaultdict(int)
    names = list(owners)
    for start in range(0, len(names), _MOST_COUNTED):
        for name, count in _visible_counts(transaction, names[start : start + _MOST_COUNTED], snapshot_id).items():
            counts[owners[name]] += count
    return counts


def _visible_counts(transaction: MetadataTransaction, names: Sequence[str], snapshot_id: int) -> dict[str, int]:
    """The numbers of visible rows of inlined data tables, without those that have none."""
    if not names:
        return {}
    # SQLite itself counts: DuckDB treats two of its tables with equal columns as the same table.
    query = " UNION ALL ".join(
        _visible_inlined(f"{literal(name)} AS name, count(*) AS counted", name) for name in names
    )
    counts = dict(transaction.own_rows(query, "name VARCHAR, counted BIGINT", [snapshot_id]))
    return {name: counts[name] for name in names if counts[name]}


def _visible_inlined(selected: str, table: str) -> str:
    return f"SELECT {selected} FROM {identifier(table)} WHERE {visible_at()}"  # noqa: S608


def row_count(reader: CatalogReader, table_name: str, snapshot_id: int) -> int | None:
    """The number of rows of a table at a snapshot; None if only the files tell it.

    The catalog does not know how many rows of a file an older snapshot has if later snapshots added or deleted some.
    """
    with reader.transaction() as transaction:
        table = find_table(transaction, table_name, snapshot_id)
        parameters = [snapshot_id, table.table_id]
        ((in_files, unclear),) = transaction.rows(_FILES, parameters)
        ((deleted, delete_files, files),) = transaction.rows(_DELETED_IN_FILES, parameters)
        newest = transaction.newest()
        inlined = _inlined_deletes(transaction, table, snapshot_id)
        # A delete file can contain later deletes too, and two live ones for one file are damage. A row can be in both
        # lists of deletes.
        if unclear or (delete_files and (snapshot_id != newest or delete_files > files or inlined)):
            return None
        added = sum(inlined_row_counts(transaction, table, snapshot_id).values())
        return int(in_files) - int(deleted) - inlined + added


def _inlined_deletes(transaction: MetadataTransaction, table: TableInfo, snapshot_id: int) -> int:
    name = inlined_deletes_table(table.table_id)
    if not transaction.has_table(name):
        return 0
    ((count,),) = transaction.rows(
        f"""SELECT count(DISTINCT (d.file_id, d.row_id)) FROM {identifier(name)} AS d
        JOIN ducklake_data_file AS f ON f.data_file_id = d.file_id
        WHERE d.begin_snapshot <= $1 AND f.table_id = $2 AND {visible_at(row="f")}""",  # noqa: S608
        [snapshot_id, table.table_id],
    )
    return int(count)


def with_bytes_per_row(reader: CatalogReader, table: TableInfo) -> TableInfo:
    """Returns the table with `bytes_per_row` from the catalog's table statistics, if the catalog has the table."""
    if table.table_id == NO_ID:
        return table
    with reader.transaction() as transaction:
        statistics = transaction.rows(
            "SELECT record_count, file_size_bytes FROM ducklake_table_stats WHERE table_id = ?", [table.table_id]
        )
    averages = [size / count for count, size in statistics if count and size]
    return replace(table, bytes_per_row=averages[0]) if averages else table
