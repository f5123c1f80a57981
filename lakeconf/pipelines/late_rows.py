"""Finds late rows: changes of inputs in intervals of a model that are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import narwhals as nw

from lakeconf.errors import LakeconfError, SnapshotNotFoundError
from lakeconf.lake.run_journal import ModelRun
from lakeconf.pipelines.intervals import Batch, Range, covered, floor, merged, moment, starts, step
from lakeconf.pipelines.models.kinds import Incremental
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.recorded_runs import RecordedState, done_ranges
from lakeconf.pipelines.rows import FEED, rows_of
from lakeconf.sql import folded


@dataclass(frozen=True)
class Late:
    """Done intervals whose inputs have changed since."""

    ranges: Sequence[Range] = ()  # the intervals, in chronological order
    # The snapshot after which the late rows were written, by input.
    since: Mapping[str, int] = field(default_factory=dict)
    unknown: Sequence[str] = ()  # A reason for each input whose late rows are unknown


def late_intervals(pipeline: Pipeline, model: Model, recorded: RecordedState) -> Late:
    """Finds the done intervals of a model whose inputs have changed since.

    The change feed of an input contains its changed rows. They belong to the intervals that the model computes from
    them, and to the intervals of their own time column, if the input has a column of that name.
    """
    kind = model.kind
    if not isinstance(kind, Incremental) or kind.late == "ignore" or not recorded.exists:
        return Late()
    definition = pipeline.definition(model)
    every = recorded.history.runs
    runs = [(run, run.interval) for run in every if run.interval and run.definition == definition]
    done = done_ranges(kind, every, definition)
    latest = {begin: run for run, interval in runs for begin in starts(kind, *interval) if covered(begin, done)}
    if not latest:
        return Late()  # all intervals are processed again
    # Runs of other definitions after the last one of this definition know nothing about its intervals.
    last, late_starts, since, unknown = runs[-1][0], set[datetime](), dict[str, int](), []
    for table in pipeline.stored_inputs(model):
        if table in recorded.pending or table not in last.inputs:
            continue
        first = last.late_since.get(table, last.inputs[table])
        try:
            late = _late(pipeline, model, kind, recorded, table, first, latest)
        except LakeconfError as error:
            expired = f"snapshots after {first} have expired"
            why = expired if isinstance(error, SnapshotNotFoundError) else error.message.splitlines()[0]
            unknown.append(f"late rows of {table} are unknown: {why}")
            continue
        if late:
            late_starts |= late
            since[table] = first
    return Late(merged((begin, step(begin, kind.interval)) for begin in late_starts), since, unknown)


def _late(
    pipeline: Pipeline,
    model: Model,
    kind: Incremental,
    recorded: RecordedState,
    table: str,
    first: int,
    latest: Mapping[datetime, ModelRun],
) -> set[datetime]:
    """Returns the done intervals that an input has changed since the last run that processed them."""
    read: dict[int, set[datetime]] = {}
    for begin, run in latest.items():
        read.setdefault(max(run.inputs.get(table, first), first), set()).add(begin)
    late, unread = set[datetime](), dict[int, set[datetime]]()  # the latter by the first change that they lack
    for snapshot_id, intervals in read.items():
        changes = recorded.lake.runs.changes_since(table, snapshot_id)
        if changes is None:  # they were computed from another table
            late |= intervals
        elif changes:
            unread.setdefault(changes[0], set()).update(intervals)
    for change, intervals in unread.items():
        batch = Batch(min(intervals), end := step(max(intervals), kind.interval), end)
        changed = recorded.lake.table(table).changes(change)
        lakes = [recorded.lake]
        if len(pipeline.stored_inputs(model)) > 1:
            # Rows that no input has any more are found by the first change: then all others were still there.
            lakes.append(recorded.lake.at(version=change - 1))
        delta = {table: changed.drop(*FEED)}
        frames = [changed, *(rows_of(pipeline, model, own_lake, batch, delta=delta) for own_lake in lakes)]
        touched = {floor(moment(value), kind.interval) for frame in frames for value in _times(frame, kind, table)}
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
