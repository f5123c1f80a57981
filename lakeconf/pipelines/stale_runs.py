"""Runs that a promotion leaves out: their inputs have changed in the source since, so their rows are not up to date."""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.commit.journal import ModelRun
from lakeconf.errors import LakeconfError, listed
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.intervals import batches
from lakeconf.pipelines.kinds import Append, Incremental
from lakeconf.pipelines.late import late_intervals
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import Bounds, Known, changed_inputs
from lakeconf.pipelines.recorded_runs import done_ranges, without_ranges

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
        pipeline: The models.
        model: The model.
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
