"""Finds late rows: changes of a model's inputs in intervals that are done."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import narwhals as nw

from lakeconf.errors import LakeconfError, SnapshotNotFoundError
from lakeconf.lake.run_journal import ModelRun
from lakeconf.pipelines.intervals import Batch, covered, floor, merged, moment, starts, step
from lakeconf.pipelines.models.kinds import Incremental
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import Bounds, Known, Late, Step, located
from lakeconf.pipelines.recorded_runs import done_ranges
from lakeconf.pipelines.rows import rows_of
from lakeconf.sql import folded


def late_intervals(pipeline: Pipeline, model: Model, known: Known, bounds: Bounds) -> Late:
    """Finds the done intervals of a model whose inputs have changed since.

    The change feed of an input contains its changed rows. They belong to the intervals that the model computes from
    them, and to the intervals of their own time column, if the input has a column of that name.
    """
    kind = model.kind
    if not isinstance(kind, Incremental) or kind.late == "ignore" or not known.exists or bounds.rebuild:
        return Late()
    definition = pipeline.definition(model)
    runs = [(run, run.interval) for run in known.runs if run.interval and run.definition == definition]
    done = done_ranges(kind, known.runs, definition)
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
        except SnapshotNotFoundError:
            unknown.append(f"late rows of {table} are unknown: snapshots after {first} have expired")
            continue
        except LakeconfError as error:
            unknown.append(f"late rows of {table} are unknown: {error.message.splitlines()[0]}")
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
    lake, name = located(table, known.lakes)
    read: dict[int, set[datetime]] = {}
    for one, run in latest.items():
        read.setdefault(max(run.inputs.get(table, first), first), set()).add(one)
    late, unread = set[datetime](), dict[int, set[datetime]]()  # the latter by the first change that they lack
    for snapshot_id, intervals in read.items():
        changes = lake.runs.changes_since(name, snapshot_id)
        if changes is None:  # they were computed from another table
            late |= intervals
        elif changes:
            unread.setdefault(changes[0], set()).update(intervals)
    for change, intervals in unread.items():
        batch = Batch(min(intervals), end := step(max(intervals), kind.interval), end)
        frames = [rows_of(pipeline, Step(model, "", delta={table: change - 1}), known.lakes, batch)]
        frames.append(lake.table(name).changes(change))
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
