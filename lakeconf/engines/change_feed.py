"""The changes of a table, as DuckLake's `table_changes` returns them.

Source: https://ducklake.select/docs/stable/duckdb/advanced_features/data_change_feed
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING, TypeVar

from lakeconf.catalog.changes import KEY, ChangesPlan, Deletes, plan_changes, plan_changes_with_inlined_rows
from lakeconf.catalog.partial_lake import ALL
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import by_timestamp, moment_of, snapshots, version_number
from lakeconf.catalog.table import TableInfo, load_table
from lakeconf.errors import LakeconfError, SnapshotNotFoundError, UnsupportedError
from lakeconf.sql import folded, literal

if TYPE_CHECKING:
    import pyarrow

Rows = TypeVar("Rows")
# `by_timestamp` refuses a date, which is no moment.
_TIMES = (str, date)


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
    known = {snapshot.snapshot_id for snapshot in snapshots(reader)}
    lost = [version for version in range(first, last + 1) if version not in known]
    if lost:
        raise SnapshotNotFoundError(
            f"the changes of snapshot {lost[-1]} are not available: it has expired or never existed",
            hint=f"read the changes from snapshot {min(v for v in known if v > lost[-1])} on",
        )
    return first, last


def _first_since(reader: CatalogReader, moment: datetime | str) -> int:
    """The first snapshot committed at or after this time; it may not exist yet, or may have expired."""
    before = by_timestamp(reader, moment)
    return before.snapshot_id if before.time == moment_of(moment) else before.snapshot_id + 1


def refuse_hidden(info: TableInfo) -> None:
    """Refuses a table with a column that hides a column of the change feed."""
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
            hint=f'read them with DuckDB: lake.sql("{query}")',
        ) from error


def _is_misread(deletes: Deletes) -> bool:
    """True if DuckDB loses deletes of a file, returns them twice or assigns them to the wrong snapshot."""
    if deletes.is_mixed:
        return True
    return bool(deletes.inlined) and (
        deletes.end_snapshot is not None or (deletes.is_rewritten and bool(deletes.files))
    )
