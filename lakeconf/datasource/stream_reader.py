"""Plans the batches of a stream: an offset is the last snapshot whose changes were returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lakeconf.backends.access import Access
from lakeconf.catalog.changes import changes_since
from lakeconf.catalog.changes_plan import ChangesPlan, check_range, plan_changes_with_inlined_rows, refuse_hidden
from lakeconf.catalog.partial_lake import refuse_encrypted
from lakeconf.catalog.pruning.scan_plan import plan_with_inlined_rows
from lakeconf.catalog.tables import Column, TableInfo, tables
from lakeconf.datasource.planning import Opened, Options, opened, parts_of
from lakeconf.engines.schema_check import selected
from lakeconf.engines.spark.read.native_scan import refuse_columns, refuse_timetz
from lakeconf.engines.spark.read.parts import ChangePart, Part, check_mapped, stream_of
from lakeconf.errors import LakeconfError, SchemaError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError
from lakeconf.write.context import quoted_name

# The snapshot of an offset before all rows of the table.
_NOTHING = -2
_RESTART = (
    "start the stream again with a new checkpoint: without the option since, its first batch is the whole table; with "
    'option("since", …), it begins with the changes of that snapshot'
)

_HOUR = 3_600_000_000  # in microseconds
# A number, because fetching a TIMESTAMPTZ into Python needs another library.
_TIME = "SELECT epoch_us(CAST(snapshot_time AS TIMESTAMPTZ)) FROM ducklake_snapshot WHERE snapshot_id = ?"

# The position of a stream in its checkpoint. `snapshot` is the last snapshot whose changes were returned, or -2 before
# a first batch with the whole table. `table` is the id of the table, see `_identity`: another table of the same name
# would continue with other rows. `lake` and `time` are the id of the lake and the time of the snapshot in microseconds,
# or null if it does not exist: another lake, or one restored from a backup, has other snapshots with the same numbers.
Offset: TypeAlias = Mapping[str, Any]


def initial_offset(options: Options) -> dict[str, Any]:
    """The offset before the first batch."""
    if options.changes and options.since is None:
        raise LakeconfError(
            "a stream of all changes begins with a snapshot, because rows that exist already are no changes",
            hint='pass the option since, such as .option("since", lake.snapshot_id + 1)',
        )
    with opened(options) as lake:
        latest = lake.session.snapshot_id
        table = lake.table(latest)
        refuse_hidden(table)
        identity = _identity(lake, latest, table)
        if options.since is not None and identity < 0:
            raise UnsupportedError(
                f"the branch has not written {table.full_name}: a stream of it has rows, and no changes",
                hint="omit the option since: the first batch is the whole table",
            )
        if options.since is not None and options.since > latest + 1:
            raise LakeconfError(f"the option since is {options.since}, but the newest snapshot is {latest}")
        return _offset(lake, _NOTHING if options.since is None else options.since - 1, identity)


def latest_offset(
    options: Options, columns: Sequence[Column], start: Offset, limit: int | None, target: int | None = None
) -> dict[str, Any]:
    """The offset that ends the next batch."""
    with opened(options) as lake:
        _check_lake(lake, start)
        latest = lake.session.snapshot_id
        if latest < start["snapshot"]:
            raise SnapshotNotFoundError(
                f"the stream has read snapshot {start['snapshot']}, but the newest snapshot of the lake is {latest}",
                hint=f"{_RESTART}; this helps if the catalog was restored from a backup",
            )
        table = _same_table(lake, latest, start)
        current = selected(table, options.names)
        if [column.shape for column in current] != [column.shape for column in columns]:
            raise SchemaError(
                f"the columns of {table.full_name} have changed since the stream started",
                hint="start the stream again, with the same checkpoint, to read with the new columns",
            )
        # The first batch is the whole table, as of one snapshot.
        end = latest if target is None else max(target, start["snapshot"])
        if start["snapshot"] != _NOTHING:
            if end == start["snapshot"] or _is_unchanged(lake, start, end):
                return dict(start)
            end = end if limit is None else min(end, start["snapshot"] + limit)
        return _offset(lake, end, start["table"])


def batch(options: Options, columns: Sequence[Column], start: Offset, end: Offset) -> list[Part]:
    """Plans a batch; the same offsets give the same rows."""
    if start["snapshot"] == end["snapshot"]:
        return []
    with opened(options) as lake:
        for offset in (start, end):
            _check_lake(lake, offset)
        try:
            if start["snapshot"] == _NOTHING:
                return _whole(lake, columns, end)
            return [] if end["table"] < 0 else [_changes(lake, columns, start["snapshot"] + 1, end)]
        except SnapshotNotFoundError as error:
            raise SnapshotNotFoundError(f"the stream cannot continue: {error.message}", hint=_RESTART) from error


def _is_unchanged(lake: Opened, start: Offset, end: int) -> bool:
    """True if a batch would be empty: its commit to the same lake would make the next batch, and so on for ever.

    A stream moves on at least each hour: it could not continue from a snapshot that expires.
    """
    try:
        changed = changes_since(lake.session.reader, start["table"], start["snapshot"], end)
    except SnapshotNotFoundError:  # the batch says so
        return False
    return not changed and (_time(lake, end) or 0) - (start["time"] or 0) < _HOUR


def _offset(lake: Opened, snapshot_id: int, table_id: int) -> dict[str, Any]:
    reader = lake.session.reader
    return {"snapshot": snapshot_id, "time": _time(lake, snapshot_id), "table": table_id, "lake": reader.lake_id}


def _time(lake: Opened, snapshot_id: int) -> int | None:
    """The time of a snapshot in microseconds; None if it has expired or never existed."""
    with lake.session.reader.transaction() as transaction:
        rows = transaction.rows(_TIME, [snapshot_id])
    return rows[0][0] if rows else None


def _check_lake(lake: Opened, offset: Offset) -> None:
    """Checks that an offset is a position in this lake."""
    if not {"snapshot", "time", "table", "lake"} <= set(offset):
        raise LakeconfError("the checkpoint is not that of a stream of a lake", hint=_RESTART)
    if offset["lake"] != lake.session.reader.lake_id:
        raise LakeconfError(
            f"the stream has read another lake than the one of the store {lake.store.name!r}", hint=_RESTART
        )
    time = _time(lake, offset["snapshot"])
    if None not in (time, offset["time"]) and time != offset["time"]:
        raise SnapshotNotFoundError(
            f"the lake has another snapshot {offset['snapshot']} than the one that the stream has read",
            hint=f"{_RESTART}; this helps if the catalog was restored from a backup",
        )


def _whole(lake: Opened, columns: Sequence[Column], end: Offset) -> list[Part]:
    """The table at the end of the first batch."""
    source, options = lake.source(end["snapshot"]), lake.options
    table = _table_then(lake, end)
    current = selected(table, options.names)
    if [column.shape for column in current] != [column.shape for column in columns]:
        raise SchemaError(
            f"the columns of {table.full_name} have changed since the first batch was planned", hint=_RESTART
        )
    planned = plan_with_inlined_rows(source.session.reader, quoted_name(table), source.snapshot_id, options.names)
    return parts_of(lake.access(source), *planned, current)


def _changes(lake: Opened, columns: Sequence[Column], since: int, end: Offset) -> Part:
    reader = lake.session.reader
    check_range(reader, lake.session.snapshot_id, since, end["snapshot"])
    table = _table_then(lake, end)
    refuse_hidden(table)
    refuse_columns(columns)
    try:
        check_mapped(columns, table.columns)
    except SchemaError as error:
        raise SchemaError(f"the stream cannot continue: {error.message}", hint=_RESTART) from error
    plan, inlined = plan_changes_with_inlined_rows(reader, quoted_name(table), since, end["snapshot"])
    _refuse_encrypted(plan)
    if inlined.num_rows:
        refuse_timetz(columns)
    return ChangePart(Access.of(lake.store), plan, stream_of(inlined), tuple(columns), lake.options.changes)


def _refuse_encrypted(plan: ChangesPlan) -> None:
    refuse_encrypted(plan.inserted)
    refuse_encrypted(plan.deleted)
    files = [file for deletes in plan.deletes for file, _ in deletes.files]
    if any(file.encryption_key is not None for file in files):
        raise UnsupportedError(f"the deletes of {plan.inserted.table.full_name} are encrypted")


def _table_then(lake: Opened, offset: Offset) -> TableInfo:
    """The table of the stream at the end of a batch, when it may have had another name."""
    try:
        return _same_table(lake, offset["snapshot"], offset)
    except (TableNotFoundError, UnsupportedError):  # the name was free, or that of another table or of a view
        for table in tables(lake.session.reader, offset["snapshot"]):
            if table.table_id == offset["table"]:
                return table
        raise


def _same_table(lake: Opened, snapshot_id: int, offset: Offset) -> TableInfo:
    """The table at a snapshot, if it is the one of the stream."""
    table = lake.table(snapshot_id)
    if _identity(lake, snapshot_id, table) != offset["table"]:
        problem = "is another table than the one that the stream has read"
        if offset["table"] < 0:
            problem = "is a table of the branch now: the stream has read that of the other lake"
        raise TableNotFoundError(f"{table.full_name} {problem}", hint=_RESTART)
    return table


def _identity(lake: Opened, snapshot_id: int, table: TableInfo) -> int:
    """The id of a table in offsets: a negative one for a table of the lake that this one is a branch of."""
    return table.table_id if lake.source(snapshot_id).session is lake.session else -1 - table.table_id
