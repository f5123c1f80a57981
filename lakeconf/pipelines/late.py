"""Finds late rows: changes of a model's inputs in intervals that are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import narwhals as nw

from lakeconf.commit.journal import ModelRun
from lakeconf.errors import LakeconfError, SnapshotNotFoundError, listed
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.intervals import Batch, batches, covered, floor, merged, moment, step
from lakeconf.pipelines.kinds import Append, Incremental
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import Bounds, Known, Late, Step, changed_inputs, located
from lakeconf.pipelines.recorded_runs import done_ranges, without_ranges
from lakeconf.pipelines.rows import rows_of
from lakeconf.sql import folded


def late_intervals(pipeline: Pipeline, model: Model, known: Known, bounds: Bounds) -> Late:
    """Finds the done intervals of a model whose inputs have changed since.

    The change feed of an input contains its changed rows. They belong to the intervals that the model computes from
    them, and to the intervals of their own time column, if the input has a column of that name.

    Args:
        model: A model; only incremental models have intervals.
        known: The recorded state of the model.

    Returns:
        The intervals, and the inputs whose late rows are unknown.
    """
    kind = model.kind
    if not isinstance(kind, Incremental) or kind.late == "ignore" or not known.exists or bounds.rebuild:
        return Late()
    definition = pipeline.definition(model)
    runs = [run for run in known.runs if run.interval is not None and run.definition == definition]
    done = done_ranges(kind, known.runs, definition)
    latest = {one: run for run in runs for one in _within(kind, run) if covered(one, done)}
    if not latest:
        return Late()  # all intervals are processed again
    # Runs of other definitions after the last one of this definition know nothing about its intervals.
    last, found, since, unknown = runs[-1], set[datetime](), dict[str, int](), []
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


def _within(kind: Incremental, run: ModelRun) -> list[datetime]:
    """Returns the starts of the intervals that a run has processed."""
    start, end = run.interval or (datetime.max, datetime.min)
    found = []
    while start < end:
        found.append(start)
        start = step(start, kind.interval)
    return found


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
    if not lake.runs.changes_since(name, first):
        return set()
    read: dict[int, set[datetime]] = {}
    for one, run in latest.items():
        read.setdefault(max(run.inputs.get(table, first), first), set()).add(one)
    late: set[datetime] = set()
    for snapshot_id, intervals in read.items():
        if lake.runs.changes_since(name, snapshot_id):
            batch = Batch(min(intervals), end := step(max(intervals), kind.interval), end)
            frames = [rows_of(pipeline, Step(model, "", delta={table: snapshot_id}), known.lakes, batch)]
            frames.append(lake.table(name).changes(snapshot_id + 1))
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


_SHOWN = 3


def is_own(table: str) -> bool:
    """True if an input is in the same lake as the model, not in another store."""
    return not table.rpartition(".")[0].rpartition(".")[0]


def up_to_date(
    pipeline: Pipeline, model: Model, source: Lake, runs: Sequence[ModelRun]
) -> tuple[Sequence[ModelRun], str]:
    """Returns the runs whose work the source would not repeat, and what the plan of a promotion says about the others.

    The target records the snapshot of the promotion for all inputs, so it cannot find these changes. It finds those of
    inputs in other stores itself.

    Args:
        source: The lake that has run it.
        runs: The runs whose rows its table has, oldest first.
    """
    loads_files = isinstance(model.kind, Append) and model.kind.files is not None
    if not runs or loads_files:
        return runs, ""
    inputs = pipeline.stored_inputs(model)
    known = Known({"": source}, exists=True, runs=runs, pending=frozenset(one for one in inputs if not is_own(one)))
    try:
        changed, lost = changed_inputs([one for one in inputs if is_own(one)], known, runs[-1])
    except LakeconfError as error:
        return runs, f"; changes of its inputs in the source are unknown: {error.message.splitlines()[0]}"
    if isinstance(model.kind, Incremental):
        return _up_to_date_intervals(pipeline, model, model.kind, known, changed)
    if not changed and not lost:
        return runs, ""
    tables = " and ".join([*changed, *lost])
    return [], f"; {tables} changed in the source since its last run: the target computes all rows again"


def _up_to_date_intervals(
    pipeline: Pipeline, model: Model, kind: Incremental, known: Known, changed: Sequence[str]
) -> tuple[Sequence[ModelRun], str]:
    done = done_ranges(kind, known.runs, pipeline.definition(model))
    if not done:
        return known.runs, ""
    start, end = done[0][0], done[-1][1]
    late = late_intervals(pipeline, model, known, Bounds(None, end))
    unknown = "".join(f"; {why}" for why in late.unknown)
    found = batches(kind, start, end, done, late=bool(changed), redo=late.ranges)
    redone = [one for one in found if one.redone]
    if not redone:
        return known.runs, unknown
    days = listed([*map(str, redone)], _SHOWN)
    note = f"; its inputs changed in the source since it computed {days}: the target computes these intervals again"
    return [part for run in known.runs for part in without_ranges(run, redone)], f"{note}{unknown}"
