"""The plan of a scan: which files and rows an engine must read to see a table at one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lakeconf.catalog.column_lookup import columns_named
from lakeconf.catalog.data_file import DataFile, NameMapping, load_data_files, load_name_mappings
from lakeconf.catalog.predicate.nodes import Predicate
from lakeconf.catalog.predicate.parse import Where, parse
from lakeconf.catalog.pruning.files import Survivors, surviving_files
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.table import Column, TableInfo, find_table
from lakeconf.ducklake import INLINED_TABLES, INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID, visible_at
from lakeconf.errors import CatalogError, UnsupportedError
from lakeconf.logs import EventLogger
from lakeconf.sql import folded, identifier, literal

if TYPE_CHECKING:
    import pyarrow

# DuckDB's names for what every row has, and the names of the same in files and in the results here.
_VIRTUAL = {"rowid": INTERNAL_ROW_ID.name, "snapshot_id": INTERNAL_SNAPSHOT_ID.name}
_ATTEMPTS = 5
Plan = TypeVar("Plan")

_log = EventLogger("plan")


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What to read of a table at one snapshot; plain data, knows no engine.

    Attributes:
        snapshot_id: The snapshot.
        table: The table at that snapshot, with all its columns.
        columns: The columns that are wanted, in the order wanted.
        files: The data files to read.
        name_mappings: By `mapping_id`: the mappings that the files need.
        inlined_tables: Names of the catalog's tables that hold inlined rows visible at the snapshot.
        files_skipped: Files that statistics or partition values rule out.
        bytes_skipped: Their size.
        time_zone: The zone in which DuckDB casts naive timestamps to zoned ones for this lake.
        inlined_row_count: How many inlined rows are visible at the snapshot.
        predicate: What rows are wanted; all where None. The files may hold other rows as well.
    """

    snapshot_id: int
    table: TableInfo
    columns: tuple[Column, ...]
    files: tuple[DataFile, ...]
    name_mappings: Mapping[int, tuple[NameMapping, ...]]
    inlined_tables: tuple[str, ...]
    files_skipped: int = 0
    bytes_skipped: int = 0
    time_zone: str = "UTC"
    inlined_row_count: int = 0
    predicate: Predicate | None = None


def plan_scan(
    reader: CatalogReader,
    table_name: str,
    snapshot_id: int,
    columns: Sequence[str] | None = None,
    where: Where | Predicate | None = None,
) -> ScanPlan:
    """Plans the scan of a table at a snapshot, in one transaction on the metadata.

    Args:
        reader: The lake.
        table_name: `schema.table`, or `table` in the schema `main`.
        snapshot_id: The snapshot.
        columns: Names of the columns that are wanted, compared case-insensitively; all where None.
        where: Only rows for which it is true are wanted; see `lakeconf.catalog.predicate.parse`.

    Raises:
        SnapshotNotFoundError: The snapshot was expired, or never was.
        TableNotFoundError: There is no such table at the snapshot.
        SchemaError: The table has no column of that name.
        PredicateError: `where` cannot be understood.
        UnsupportedError: It is a view or a macro, or has files of an unknown format.
        CatalogError: The catalog has another version, or two live delete files for one data file.
    """
    time_zone = reader.time_zone
    with reader.transaction() as transaction:
        table = find_table(transaction, table_name, snapshot_id)
        wanted = table.columns if columns is None else columns_named(table, columns)
        predicate = where if where is None or isinstance(where, Predicate) else parse(where, table.columns)
        survivors: Survivors | None = None
        if predicate is not None:
            survivors = surviving_files(transaction, table, snapshot_id, predicate)
        ids = None if survivors is None else survivors.data_file_ids
        files = load_data_files(transaction, table, snapshot_id, ids)
        mappings = load_name_mappings(transaction, (f.mapping_id for f in files if f.mapping_id is not None))
        inlined = _inlined_tables(transaction, table, snapshot_id)
    skipped = survivors.files_skipped if survivors else 0
    _log.debug("scan of %s at snapshot %d: %d data files, %d skipped", table_name, snapshot_id, len(files), skipped)
    return ScanPlan(
        snapshot_id=snapshot_id,
        table=table,
        columns=wanted,
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
    """Plans a scan and reads its inlined rows, and does so again where a flush came in between.

    Takes what `plan_scan` takes and raises what it and `inlined_rows` raise.

    Returns:
        The plan, and what `inlined_rows` gives for it.
    """
    return until_stable(
        lambda: plan_scan(reader, table_name, snapshot_id, columns, where), lambda plan: inlined_rows(reader, plan)
    )


def until_stable(
    make_plan: Callable[[], Plan], read_rows: Callable[[Plan], pyarrow.Table]
) -> tuple[Plan, pyarrow.Table]:
    """Makes a plan and reads its inlined rows; does so again, a few times, where that fails with a retryable error."""
    for _ in range(_ATTEMPTS - 1):
        plan = make_plan()
        try:
            return plan, read_rows(plan)
        except CatalogError as error:
            if not error.retryable:
                raise
    plan = make_plan()
    return plan, read_rows(plan)


def inlined_rows(reader: CatalogReader, plan: ScanPlan) -> pyarrow.Table:
    """The rows of the plan's table that are in the catalog and not in a file, whether they match or not.

    They are read after the plan was made, and a flush in between moves them to files that the plan does not have. The
    rows that are visible at a snapshot never change and are never joined by others, so as long as they are as many as
    the plan has counted, they are the ones.

    Args:
        reader: The lake.
        plan: The plan; the rows are as of its snapshot.

    Returns:
        The plan's columns, in its order and with its names, in DuckDB's types; behind them, where no column of the
        table has the name `rowid` or `snapshot_id`, the rows' ids and snapshots as `_ducklake_internal_row_id` and
        `_ducklake_internal_snapshot_id`.

    Raises:
        CatalogError: The rows were flushed since; it is retryable: plan again, or use `plan_with_inlined_rows`.
        UnsupportedError: Columns of the table hide the names by which inlined rows are found, or an inlined row has
            a VARIANT.
    """
    names = {folded(column.name) for column in plan.table.columns}
    variants = [column.name for column in plan.columns if has_variant(column)]
    if variants and plan.inlined_row_count:
        raise UnsupportedError(
            f"the catalog holds rows of {plan.table.schema_name}.{plan.table.name} whose column {variants[0]!r} is a "
            "VARIANT, which DuckDB does not hand over",
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


def moved_rows(table: TableInfo, planned: int, found: int) -> CatalogError:
    """The error where inlined rows are not those of the plan any more; it is retryable."""
    error = CatalogError(
        f"the inlined rows of {table.schema_name}.{table.name} were moved to files since the scan was planned: there "
        f"were {planned}, and are {found}",
        hint="plan the scan again",
    )
    error.retryable = True
    return error


def has_variant(column: Column) -> bool:
    """True where the column is a VARIANT, or holds one."""
    return column.type == "variant" or any(map(has_variant, column.children))


def _is_inlined(reader: CatalogReader, plan: ScanPlan, names: set[str]) -> str:
    """The condition on DuckDB's table that picks the inlined rows, without a look at any file."""
    if not plan.inlined_row_count:
        return "false"
    if "filename" not in names:
        return f"filename IN ({', '.join(map(literal, plan.inlined_tables))})"
    if "rowid" in names:
        raise UnsupportedError(
            f"the table {plan.table.schema_name}.{plan.table.name} has inlined rows, and its columns 'filename' and "
            "'rowid' hide the names by which DuckDB finds them",
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


def _inlined_tables(transaction: MetadataTransaction, table: TableInfo, snapshot_id: int) -> dict[str, int]:
    """The tables with inlined rows that are visible at the snapshot, and how many each has."""
    counts = {
        name: transaction.rows(_visible_inlined("count(*)", name), [snapshot_id])[0][0]
        for (name,) in transaction.rows(INLINED_TABLES, [table.table_id])
    }
    return {name: count for name, count in counts.items() if count}


def _visible_inlined(selected: str, table: str) -> str:
    return f"SELECT {selected} FROM {identifier(table)} WHERE {visible_at()}"  # noqa: S608
