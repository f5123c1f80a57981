"""The changes of a table, as DuckLake's `table_changes` has them.

Source: https://ducklake.select/docs/stable/duckdb/advanced_features/data_change_feed
"""

from __future__ import annotations

from datetime import datetime

from lakeconf.catalog.change_feed import ChangesPlan, Deletes
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import by_timestamp, snapshots
from lakeconf.catalog.table import TableInfo
from lakeconf.engines.schema_check import full_name
from lakeconf.errors import LakeconfError, SnapshotNotFoundError, UnsupportedError
from lakeconf.sql import folded, literal

_ADDED = ("snapshot_id", "rowid", "change_type")
_ALL = 2**63 - 1


def check_range(
    reader: CatalogReader, snapshot_id: int, since: int | datetime, until: int | datetime | None
) -> tuple[int, int]:
    """Checks that the changes of a range of snapshots are all known.

    Args:
        reader: The lake.
        snapshot_id: The snapshot that the lake is read at.
        since: The first snapshot of the range, or a moment: the first one committed then or later.
        until: The last one, or a moment: the last one committed until then; `snapshot_id` where None.

    Returns:
        The first and the last one.

    Raises:
        LakeconfError: The range is empty, or goes beyond `snapshot_id`.
        SnapshotNotFoundError: A snapshot of it has expired, or never was.
    """
    last = snapshot_id if until is None else until
    last = by_timestamp(reader, last).snapshot_id if isinstance(last, datetime) else last
    if last > snapshot_id:
        raise LakeconfError(
            f"changes until snapshot {last} are wanted, but the lake is read at snapshot {snapshot_id}",
            hint="call lake.refresh(), or leave `until` out",
        )
    first = _first_since(reader, since) if isinstance(since, datetime) else since
    if first > last:
        raise LakeconfError(f"changes since snapshot {first} until snapshot {last} are none: the range is empty")
    known = {snapshot.snapshot_id for snapshot in snapshots(reader)}
    lost = [version for version in range(first, last + 1) if version not in known]
    if lost:
        raise SnapshotNotFoundError(
            f"the changes of snapshot {lost[-1]} are not known: it has expired, or never was",
            hint=f"the lake knows the snapshots from {min(v for v in known if v > lost[-1])} on",
        )
    return first, last


def _first_since(reader: CatalogReader, moment: datetime) -> int:
    """The first snapshot that was committed at this moment or later; it may not be there yet, or not any more."""
    before = by_timestamp(reader, moment)
    return before.snapshot_id if before.time == moment else before.snapshot_id + 1


def refuse_hidden(info: TableInfo) -> None:
    """Refuses a table whose columns hide what DuckLake says of a change.

    Raises:
        UnsupportedError: It has one.
    """
    hidden = [column.name for column in info.columns if folded(column.name) in _ADDED]
    if hidden:
        # DuckLake shows the table's value in place of its own, without a word.
        raise UnsupportedError(
            f"{full_name(info)} has a column {hidden[0]!r}, which hides what DuckLake says of a change",
            hint=f"rename the column; its own names are {', '.join(_ADDED)}",
        )


def changes_sql(reader: CatalogReader, plan: ChangesPlan) -> str:
    """DuckDB's query for the changes of a plan; another filter around it leaves its rows as they are.

    Raises:
        UnsupportedError: DuckDB would give other rows than the changes.
    """
    table = plan.inserted.table
    refuse_hidden(table)
    for deletes in plan.deletes:
        if _is_misread(deletes):
            raise UnsupportedError(
                f"DuckDB gives wrong changes for deletes from {deletes.path}, of {full_name(table)}",
                hint="read the changes with Spark: open the lake with a session, store.open(spark)",
            )
    names = ", ".join(map(literal, (reader.alias, table.schema_name, table.name)))
    feed = f"FROM ducklake_table_changes({names}, {plan.since}, {plan.until})"
    # DuckDB compares a filter on `snapshot_id` with the snapshot that inserted the row, even where another deleted it.
    # No filter goes below a LIMIT.
    query = f"FROM ({feed} LIMIT {_ALL})"
    if plan.compactions:
        # It calls every row of a rewritten file updated.
        query += f" WHERE snapshot_id NOT IN ({', '.join(map(str, plan.compactions))})"
    return query


def _is_misread(deletes: Deletes) -> bool:
    """True where DuckDB loses deletes of a file, gives them twice or dates them wrongly."""
    if deletes.is_mixed:
        return True
    return bool(deletes.inlined) and (
        deletes.end_snapshot is not None or (deletes.is_rewritten and bool(deletes.files))
    )
