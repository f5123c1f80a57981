"""What a run of a model would do, and why: decided from what the lake remembers."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakeconf.commit.journal import ModelRun
from lakeconf.connection.connection import fetched
from lakeconf.errors import PipelineError, SnapshotNotFoundError, TableNotFoundError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.columns import ColumnChanges
from lakeconf.pipelines.intervals import Batch, Range, batches, moment, short, without
from lakeconf.pipelines.kinds import Append, Incremental, Seed, View
from lakeconf.pipelines.model import Model, Query
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.sql import literal

# The definition in a record that marks where a promotion replaced the table: what runs before it did no longer counts.
PROMOTED = "promoted"


@dataclass(frozen=True)
class Bounds:
    """What a run was asked for.

    Attributes:
        since: The beginning of the range of time, whose intervals are done again; None: those that are missing.
        until: Its end.
        rebuild: True to do everything again, whatever the lake remembers.
        allow_drop_columns: True to drop columns that models no longer have.
        redo_late: True to do intervals again that have late rows.
    """

    since: datetime | None
    until: datetime
    rebuild: bool = False
    allow_drop_columns: bool = False
    redo_late: bool = False


@dataclass(frozen=True)
class Late:
    """Intervals that are done and whose inputs have changed since.

    Attributes:
        ranges: The intervals, in the order of time.
        since: The snapshot after which the late rows came, by input.
        unknown: Why they are not known, for each input of which they are not.
    """

    ranges: Sequence[Range] = ()
    since: Mapping[str, int] = field(default_factory=dict)
    unknown: Sequence[str] = ()


@dataclass(frozen=True)
class Step:
    """What is to be done for a model.

    Attributes:
        model: The model.
        reason: Why, in words.
        runs: False where nothing is to be done.
        rebuild: True where the rows that there are make place for new ones.
        since: By input, the snapshot after which its changes are wanted.
        batches: The intervals, where it has any.
        files: The files to load.
        earlier: How many runs of the model there were.
        delta: Inputs of which changed rows alone are read, and the snapshot after which they changed.
        late_since: Inputs with late rows that are left, and the snapshot after which they came.
        warnings: What is left undone, and how to do it.
        columns: How the columns of the table change; only `plan` tells.
        replaces: True if rows of an existing table are replaced; only `plan` tells.
    """

    model: Model
    reason: str
    runs: bool = True
    rebuild: bool = False
    since: Mapping[str, int] | None = None
    batches: Sequence[Batch] = ()
    files: Sequence[str] = ()
    earlier: int = 0
    delta: Mapping[str, int] = field(default_factory=dict)
    late_since: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    columns: ColumnChanges = field(default_factory=ColumnChanges)
    replaces: bool = False


@dataclass(frozen=True)
class Known:
    """What a decision is made from.

    Attributes:
        lakes: The lakes that inputs are in, by the store's name; the pipeline's own by an empty name.
        exists: True where the model's table is there.
        runs: The runs of the model that its rows come from, oldest first.
        earlier: How many runs of the model the lake remembers in all.
        pending: Tables that this run would change, where nothing is done yet.
    """

    lakes: Mapping[str, Lake]
    exists: bool
    runs: Sequence[ModelRun]
    earlier: int = 0
    pending: frozenset[str] = frozenset()


def current_runs(runs: Sequence[ModelRun]) -> Sequence[ModelRun]:
    """The runs that the rows of a table come from: those since it was last replaced by a promotion."""
    marks = [index for index, run in enumerate(runs) if run.definition == PROMOTED]
    return runs[marks[-1] + 1 :] if marks else runs


def decide(pipeline: Pipeline, model: Model, known: Known, bounds: Bounds, late: Late) -> Step:
    """What a run has to do for a model.

    Args:
        pipeline: The models.
        model: The model.
        known: What the lake knows about it.
        bounds: What the run was asked for.
        late: What `late_intervals` has found.

    Raises:
        PipelineError: It cannot be told, such as where an incremental model has no start.
    """
    last = known.runs[-1] if known.runs and known.exists else None
    earlier = known.earlier
    if isinstance(model.kind, View):
        return _view(pipeline, model, last, earlier)
    changed, lost = _changed_inputs(pipeline, model, known, last)
    fresh = "asked for" if bounds.rebuild else _why_afresh(pipeline, model, last)
    if isinstance(model.kind, Incremental):
        return _intervals(pipeline, model, model.kind, known, bounds, fresh, changed, late)
    if isinstance(model.kind, Append) and model.kind.files is not None:
        # Files that were loaded may be gone by now: a new definition is for new files alone.
        loaded = () if last is None or bounds.rebuild else known.runs
        new = _new_files(known.lakes[""], model, model.kind.files, {file for run in loaded for file in run.files})
        if not new:
            return Step(model, f"no new file matches {model.kind.files}", runs=False)
        why = f"{len(new)} new file{'s' if len(new) > 1 else ''}"
        return Step(model, why, rebuild=bounds.rebuild, files=new, earlier=earlier)
    driving = model.driving_input
    if driving is not None and last is not None and fresh is None:
        table = pipeline.inputs(model)[driving]
        if table in lost:
            return Step(model, f"{lost[table]}: all of {table} is read", rebuild=True, earlier=earlier)
        if table not in changed:
            return Step(model, "nothing has changed", runs=False)
        return Step(model, f"{table} has changed", since={driving: last.inputs[table]}, earlier=earlier)
    if fresh is None and not changed and not lost:
        return Step(model, "nothing has changed", runs=False)
    why = fresh or f"{' and '.join([*changed, *lost])} changed"
    return Step(model, why, rebuild=fresh is not None or driving is not None, earlier=earlier)


def _why_afresh(pipeline: Pipeline, model: Model, last: ModelRun | None) -> str | None:
    if last is None:
        return "first run"
    if last.definition != pipeline.definition(model):
        return "its file has changed" if isinstance(model.kind, Seed) else "its definition has changed"
    return None


def _view(pipeline: Pipeline, model: Model, last: ModelRun | None, earlier: int) -> Step:
    if not isinstance(model.body, Query):
        return Step(model, "computed where it is read", runs=False)
    why = _why_afresh(pipeline, model, last)
    return Step(model, why or "nothing has changed", runs=why is not None, earlier=earlier)


def _changed_inputs(
    pipeline: Pipeline, model: Model, known: Known, last: ModelRun | None
) -> tuple[list[str], dict[str, str]]:
    """The inputs that have changed since the last run, and those of which it cannot be told, with the reason."""
    changed, lost = [], {}
    for table in pipeline.stored_inputs(model):
        if table in known.pending:
            changed.append(table)
        elif last is not None and table not in last.inputs:
            lost[table] = f"{table} is a new input"
        elif last is not None:
            lake, name = located(table, known.lakes)
            try:
                if lake.runs.changes_since(name, last.inputs[table]):
                    changed.append(table)
            except SnapshotNotFoundError:
                lost[table] = f"snapshots since the last run have expired, so that what changed in {table} is not known"
    return changed, lost


def located(table: str, lakes: Mapping[str, Lake]) -> tuple[Lake, str]:
    """The lake that an input is in, and its name there.

    Raises:
        TableNotFoundError: It names a store that was not opened.
    """
    store, _, name = table.rpartition(".")[0].rpartition(".")
    if store not in lakes:
        raise TableNotFoundError(
            f"the input {table} is in the store {store!r}, which was not opened",
            hint="give its lake: pipeline.run(lake, others={…})",
        )
    return lakes[store], f"{name}.{table.rpartition('.')[2]}"


def _new_files(lake: Lake, model: Model, pattern: str, loaded: set[str]) -> Sequence[str]:
    """The files of a pattern that were not loaded before: URIs, or paths from the model's folder."""
    if "://" in pattern:
        secrets = lake._session.writer.secrets  # noqa: SLF001 - for scrubbing alone
        rows = fetched(lake.sql(f"SELECT file FROM glob({literal(pattern)})"), secrets)
        return sorted({str(file) for (file,) in rows} - loaded)
    paths = glob.glob(str(model.folder / pattern), recursive=True)
    return sorted({os.path.relpath(path, model.folder) for path in paths} - loaded)


def _intervals(
    pipeline: Pipeline,
    model: Model,
    kind: Incremental,
    known: Known,
    bounds: Bounds,
    fresh: str | None,
    changed: Sequence[str],
    late: Late,
) -> Step:
    start = bounds.since or (None if kind.start is None else moment(kind.start))
    if start is None:
        raise PipelineError(f"the model {model.table} does not say when its first interval begins", hint="start=…")
    if start > bounds.until:
        raise PipelineError(
            f"the interval from {start} to {bounds.until} of the model {model.table} ends before it starts",
            hint="--from is before --to",
        )
    definition = pipeline.definition(model)
    done: list[Range] = []
    if known.exists and bounds.since is None and not bounds.rebuild:
        done = [run.interval for run in known.runs if run.interval is not None and run.definition == definition]
    redo = late.ranges if bounds.redo_late or kind.late == "redo" else ()
    found = batches(kind, start, bounds.until, done, late=bool(changed), redo=redo)
    left = without(late.ranges, found)
    warnings = [*late.unknown, *_late_warnings(left, late)]
    if not found:
        return Step(model, "all intervals are done", runs=False, warnings=warnings)
    ranges = ", ".join(map(str, found[:3])) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    changes = list(dict.fromkeys([*changed, *(late.since if redo else ())]))
    why = fresh or (f"{' and '.join(changes)} changed" if all(one.redone for one in found) else "missing")
    return Step(
        model, f"{why}: {ranges}", batches=found, rebuild=fresh is not None, earlier=known.earlier,
        late_since=late.since if left else {}, warnings=warnings,
    )  # fmt: skip


def _late_warnings(left: Sequence[Range], late: Late) -> list[str]:
    """What to do about intervals with late rows."""
    if not left:
        return []
    ranges = [f"--from {_argument(start)} --to {_argument(end)}" for start, end in left[:3]]
    more = f" and {len(left) - 3} more ranges" if len(left) > 3 else ""
    tables = " and ".join(late.since)
    return [f"{tables} changed in intervals that are done: run {', '.join(ranges)}{more}, or all with --redo-late"]


def _argument(value: datetime) -> str:
    """A time as the command line accepts it."""
    return short(value).replace(" ", "T")
