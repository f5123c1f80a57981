"""Reads the inputs of a model, computes its rows, and finds late rows: changes of inputs in intervals that are done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import narwhals as nw

from lakeconf.catalog.health import has_deletes, merged_update
from lakeconf.errors import LakeconfError, PipelineError, SnapshotNotFoundError
from lakeconf.lake.lake import Lake
from lakeconf.lake.run_journal import ModelRun
from lakeconf.pipelines.file_rows import Files, read_files, sql_rows
from lakeconf.pipelines.intervals import Batch, Range, covered, floor, merged, moment, starts, step
from lakeconf.pipelines.models.kinds import Append, Incremental, Seed, View
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.recorded_runs import Known, done_ranges
from lakeconf.sql import folded

_FEED = ("snapshot_id", "rowid", "change_type")


def rows_of(
    pipeline: Pipeline,
    model: Model,
    lake: Lake,
    batch: Batch | None = None,
    *,
    files: Files | None = None,  # the files to read
    since: int | None = None,  # the snapshot after which the driving input is read; None: all its rows
    delta: Mapping[str, int] | None = None,  # tables of which only rows that changed after a snapshot are read
) -> nw.LazyFrame[Any]:
    """Returns the rows of a model as a lazy frame of the lake's engine."""
    if files is not None and isinstance(model.kind, Seed):
        return read_files(files, lake)
    frames = {name: _input(pipeline, model, name, lake, since, delta or {}) for name in pipeline.inputs(model)}
    if files is not None:
        rows = read_files(files, lake)
        if model.body is None:
            return rows
        arguments = model.body.arguments()
        if not arguments:
            raise PipelineError(
                f"the model {model.table} does not read its files", hint="read them: SELECT … FROM files"
            )
        frames = {arguments[0]: rows, **frames}
    return computed(model, lake, frames, placeholder_values(model, batch))


def _input(
    pipeline: Pipeline, model: Model, name: str, lake: Lake, since: int | None, delta: Mapping[str, int]
) -> nw.LazyFrame[Any]:
    table = pipeline.inputs(model)[name]
    below = pipeline.by_table.get(table)
    if below is not None and isinstance(below.kind, View):
        inputs = {one: _input(pipeline, below, one, lake, None, delta) for one in pipeline.inputs(below)}
        return adopted(lake, computed(below, lake, inputs, {}))
    if table in delta:
        return lake.table(table).changes(delta[table] + 1).drop(*_FEED)
    if name == model.driving_input:
        return _driving(model, name, lake, table, since)
    return lake.table(table).scan()


def adopted(lake: Lake, rows: Any) -> nw.LazyFrame[Any]:
    """Returns rows as a lazy frame that joins with those of a lake's engine."""
    found: nw.LazyFrame[Any] = nw.from_native(lake._session.engine.joinable(rows))  # noqa: SLF001 - not for users
    return found


def _driving(model: Model, name: str, lake: Lake, table: str, since: int | None) -> nw.LazyFrame[Any]:
    """Returns the new or changed rows of an input since a snapshot; all its rows if there is none."""
    if since is None:
        rows = lake.table(table).scan()
        if isinstance(model.kind, Append):
            return rows
        added = (nw.lit(lake.snapshot_id), nw.lit(None, nw.Int64()), nw.lit("insert"))
        return rows.with_columns(*(value.alias(column) for value, column in zip(added, _FEED, strict=True)))
    changes = lake.table(table).changes(since + 1)
    if not isinstance(model.kind, Append):
        return changes
    # A merge of files gives updated rows new row ids, so that they look like new ones.
    found = merged_update(lake._session.reader, table, since, lake.snapshot_id)  # noqa: SLF001 - not for users
    if found is not None:
        why = f"snapshot {found[0]} updated rows, and snapshot {found[1]} gave them new ids when it merged their files"
    elif (replaced := _replaced(lake, table, changes, since)) is not None:
        why = f"snapshot {replaced} wrote rows again, as an overwrite and a restore do"
    else:
        why = None
    if why is not None:
        raise PipelineError(
            f"the new rows of {name} cannot be told from others: {why}",
            hint=f"replace all rows: lakeconf run {model.table} --rebuild; later, run it before lakeconf maintain, and "
            "read an input that is overwritten with the kind full or merge",
        )
    return changes.filter(nw.col("change_type") == "insert").drop(*_FEED)


def _replaced(lake: Lake, table: str, changes: nw.LazyFrame[Any], since: int) -> int | None:
    """Returns a snapshot that wrote rows of an input again, so that they are not new."""
    for snapshot in lake.snapshots():
        if since < snapshot.snapshot_id <= lake.snapshot_id and _restored(snapshot.extra_info) == folded(table):
            return snapshot.snapshot_id
    if not has_deletes(lake._session.reader, table, since, lake.snapshot_id):  # noqa: SLF001 - not for users
        return None
    rows = sql_rows(lake, _WRITTEN_AGAIN, {"changes": changes})
    return next((int(version) for (version,) in rows), None)


# A snapshot that inserts and deletes rows, without those that it updates; or rows that come back after a delete.
_WRITTEN_AGAIN = """
    SELECT snapshot_id FROM changes WHERE change_type IN ('insert', 'delete')
    GROUP BY snapshot_id HAVING count(DISTINCT change_type) = 2
    UNION ALL SELECT lakeconf_again FROM (
        SELECT * EXCLUDE (snapshot_id, rowid, change_type),
            max(snapshot_id) FILTER (change_type = 'insert') AS lakeconf_again
        FROM changes WHERE change_type IN ('insert', 'delete') GROUP BY ALL
        HAVING min(snapshot_id) FILTER (change_type = 'delete') < lakeconf_again
    ) LIMIT 1
"""


def _restored(extra_info: str | None) -> str | None:
    """The table that a commit restored."""
    try:
        return folded(json.loads(extra_info or "")["extra"]["restored_table"])
    except (ValueError, TypeError, KeyError):  # of another writer
        return None


def computed(
    model: Model, lake: Lake, frames: Mapping[str, Any], bounds: Mapping[str, date | datetime]
) -> nw.LazyFrame[Any]:
    """Returns the rows that a model computes from its inputs."""
    if model.body is None:
        raise PipelineError(
            f"the model {model.table} has neither code nor files", hint="add sql or files, or declare it in Python"
        )
    try:
        made = model.body.rows(lake, frames, bounds)
    except LakeconfError:
        raise
    except Exception as error:
        place = model.body.place(error)
        at = "" if place is None else f"{place}: "
        raise PipelineError(f"{at}the model {model.table} failed: {type(error).__name__}: {error}") from error
    found: nw.LazyFrame[Any] = made.lazy() if isinstance(made, nw.DataFrame) else made
    return found


def placeholder_values(model: Model, batch: Batch | None) -> dict[str, date | datetime]:
    """Returns the values of `start` and `end` for a time range; empty without one."""
    if batch is None:
        return {}
    values = {"start": batch.start, "end": batch.end}
    is_hour = isinstance(model.kind, Incremental) and model.kind.interval == "hour"
    whole = all(value.time() == datetime.min.time() for value in values.values())
    return dict(values) if is_hour or not whole else {name: value.date() for name, value in values.items()}


@dataclass(frozen=True)
class Late:
    """Done intervals whose inputs have changed since."""

    ranges: Sequence[Range] = ()  # the intervals, in chronological order
    # The snapshot after which the late rows were written, by input.
    since: Mapping[str, int] = field(default_factory=dict)
    unknown: Sequence[str] = ()  # A reason for each input whose late rows are unknown


def late_intervals(pipeline: Pipeline, model: Model, known: Known) -> Late:
    """Finds the done intervals of a model whose inputs have changed since.

    The change feed of an input contains its changed rows. They belong to the intervals that the model computes from
    them, and to the intervals of their own time column, if the input has a column of that name.
    """
    kind = model.kind
    if not isinstance(kind, Incremental) or kind.late == "ignore" or not known.exists:
        return Late()
    definition = pipeline.definition(model)
    every = known.history.runs
    runs = [(run, run.interval) for run in every if run.interval and run.definition == definition]
    done = done_ranges(kind, every, definition)
    latest = {one: run for run, given in runs for one in starts(kind, *given) if covered(one, done)}
    if not latest:
        return Late()  # all intervals are processed again
    # Runs of other definitions after the last one of this definition know nothing about its intervals.
    last, found, since, unknown = runs[-1][0], set[datetime](), dict[str, int](), []
    for table in pipeline.stored_inputs(model):
        if table in known.pending or table not in last.inputs:
            continue
        first = last.late_since.get(table, last.inputs[table])
        try:
            late = _late(pipeline, model, kind, known, table, first, latest)
        except LakeconfError as error:
            expired = f"snapshots after {first} have expired"
            why = expired if isinstance(error, SnapshotNotFoundError) else error.message.splitlines()[0]
            unknown.append(f"late rows of {table} are unknown: {why}")
            continue
        if late:
            found |= late
            since[table] = first
    return Late(merged((one, step(one, kind.interval)) for one in found), since, unknown)


def _late(
    pipeline: Pipeline,
    model: Model,
    kind: Incremental,
    known: Known,
    table: str,
    first: int,
    latest: Mapping[datetime, ModelRun],
) -> set[datetime]:
    """Returns the done intervals that an input has changed since the last run that processed them."""
    read: dict[int, set[datetime]] = {}
    for one, run in latest.items():
        read.setdefault(max(run.inputs.get(table, first), first), set()).add(one)
    late, unread = set[datetime](), dict[int, set[datetime]]()  # the latter by the first change that they lack
    for snapshot_id, intervals in read.items():
        changes = known.lake.runs.changes_since(table, snapshot_id)
        if changes is None:  # they were computed from another table
            late |= intervals
        elif changes:
            unread.setdefault(changes[0], set()).update(intervals)
    for change, intervals in unread.items():
        batch = Batch(min(intervals), end := step(max(intervals), kind.interval), end)
        frames = [rows_of(pipeline, model, known.lake, batch, delta={table: change - 1})]
        frames.append(known.lake.table(table).changes(change))
        touched = {floor(moment(value), kind.interval) for one in frames for value in _times(one, kind, table)}
        late |= touched & intervals
    return late


def _times(frame: nw.LazyFrame[Any], kind: Incremental, table: str) -> list[Any]:
    """Returns the values of the time column, truncated to the minute; empty if the frame has no such column."""
    try:
        columns = {folded(name): (name, dtype) for name, dtype in frame.collect_schema().items()}
        name, dtype = columns.get(folded(kind.time_column), (None, None))
        if name is None or dtype is None or not dtype.is_temporal():
            return []
        value = nw.col(name) if dtype == nw.Date else nw.col(name).dt.truncate("1m")
        rows = frame.select(value.alias("at")).unique().collect("pyarrow").rows()
    except LakeconfError:
        raise
    except Exception as error:
        raise LakeconfError(f"the changed rows of {table} cannot be computed: {error}") from error
    return [at for (at,) in rows if at is not None]
