"""The changes of a table, as DuckLake's `table_changes` has them.

Source: https://ducklake.select/docs/stable/duckdb/advanced_features/data_change_feed
"""

from __future__ import annotations

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import snapshots
from lakeconf.catalog.table import load_table
from lakeconf.errors import LakeconfError, SnapshotNotFoundError, UnsupportedError
from lakeconf.sql import literal

_ADDED = ("snapshot_id", "rowid", "change_type")


def check_range(reader: CatalogReader, snapshot_id: int, since: int, until: int | None) -> int:
    """Checks that the changes of a range of snapshots are all known.

    Args:
        reader: The lake.
        snapshot_id: The snapshot that the lake is read at.
        since: The first snapshot of the range.
        until: The last one; `snapshot_id` where None.

    Returns:
        The last one.

    Raises:
        LakeconfError: The range is empty, or goes beyond `snapshot_id`.
        SnapshotNotFoundError: A snapshot of it has expired, or never was.
    """
    last = snapshot_id if until is None else until
    if last > snapshot_id:
        raise LakeconfError(
            f"changes until snapshot {last} are wanted, but the lake is read at snapshot {snapshot_id}",
            hint="call lake.refresh(), or leave `until` out",
        )
    if since > last:
        raise LakeconfError(f"changes since snapshot {since} until snapshot {last} are none: the range is empty")
    known = {snapshot.snapshot_id for snapshot in snapshots(reader)}
    lost = [version for version in range(since, last + 1) if version not in known]
    if lost:
        raise SnapshotNotFoundError(
            f"the changes of snapshot {lost[-1]} are not known: it has expired, or never was",
            hint=f"the lake knows the snapshots from {min(v for v in known if v > lost[-1])} on",
        )
    return last


def changes_sql(reader: CatalogReader, table: str, since: int, until: int) -> str:
    """DuckDB's query for the changes of a table in a range of snapshots.

    Raises:
        TableNotFoundError: There is no such table at the end of the range.
        UnsupportedError: A column of the table hides what DuckLake says of a change.
    """
    info = load_table(reader, table, until)
    hidden = [column.name for column in info.columns if column.name.lower() in _ADDED]
    if hidden:
        # DuckLake shows the table's value in place of its own, without a word.
        raise UnsupportedError(
            f"{info.schema_name}.{info.name} has a column {hidden[0]!r}, which hides what DuckLake says of a change",
            hint=f"rename the column; its own names are {', '.join(_ADDED)}",
        )
    names = ", ".join(map(literal, (reader.alias, info.schema_name, info.name)))
    return f"FROM ducklake_table_changes({names}, {since}, {until})"
