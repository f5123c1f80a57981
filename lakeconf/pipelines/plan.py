"""Plans the run of a model: whether it runs, why, and for which intervals or files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lakeconf.errors import PipelineError, listed
from lakeconf.lake.run_journal import ModelRun
from lakeconf.pipelines.column_changes import ColumnChanges
from lakeconf.pipelines.intervals import Batch, Range, batches, moment, without
from lakeconf.pipelines.late_rows import Late
from lakeconf.pipelines.models.body import Query
from lakeconf.pipelines.models.kinds import Append, Full, Incremental, Merge, Seed, View
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.new_files import new_files
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.recorded_runs import (
    SHOWN,
    RecordedState,
    arguments,
    as_of_lookback,
    changed_inputs,
    done_ranges,
    reads_changes,
    undone_warnings,
)
from lakeconf.wording import counted

_REQUESTED = "requested"
_UNCHANGED = "nothing has changed"


@dataclass(frozen=True)
class RunRequest:
    """The request of a run."""

    since: datetime | None  # start of the time range whose intervals are processed again; None: only missing intervals
    until: datetime  # end of the time range
    rebuild: bool = False  # True to process everything again, regardless of recorded runs
    allow_drop_columns: bool = False  # True to drop columns that models no longer have


@dataclass(frozen=True)
class Step:
    """The planned run of a model."""

    model: Model
    reason: str
    runs: bool = True  # False if there is nothing to do
    rebuild: bool = False  # True if new rows replace all existing rows
    needs_rebuild: bool = False  # True if that would replace rows of earlier runs, and was not requested
    since: int | None = None  # the snapshot after which the changes of the driving input are read; None: all its rows
    batches: Sequence[Batch] = ()  # the intervals of an incremental model
    files: Sequence[str] = ()  # the files to load
    earlier: int = 0  # the number of recorded runs of the model
    # Inputs with late rows that this run does not process, with the snapshot after which they changed.
    late_since: Mapping[str, int] = field(default_factory=dict)
    # The same, until the last batch is committed: inputs with rows that the batches process again.
    unfinished_since: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()  # work that the run leaves undone, and how to do it
    # Changes to the columns of the table; only set by `plan`.
    columns: ColumnChanges = field(default_factory=ColumnChanges)
    replaces: bool = False  # True if rows of an existing table are replaced; only set by `plan`

    @property
    def replaces_all(self) -> bool:
        """True if no row of the table is left after the run."""
        kind = self.model.kind
        return isinstance(kind, Full | Seed) or (self.rebuild and isinstance(kind, Append | Merge))


def decide(pipeline: Pipeline, model: Model, recorded: RecordedState, request: RunRequest, late: Late) -> Step:
    """Plans the run of a model."""
    step = replace(_decided(pipeline, model, recorded, request, late), earlier=recorded.earlier)
    is_former = recorded.history.is_former and reads_changes(model)
    is_unasked = step.runs and not request.rebuild and (step.rebuild or is_former) and _keeps_rows(model, recorded)
    if is_unasked and is_former:
        raise PipelineError(
            f"the table {model.table} is not the one that earlier runs wrote, and has rows: lakeconf cannot tell "
            "whether these are the rows of earlier runs",
            hint="run with --rebuild to compute all rows again, or restore the former table: lakeconf restore",
        )
    if is_unasked:
        # The inputs may no longer have the rows from which earlier runs computed those of the table.
        step = replace(step, needs_rebuild=True, reason=f"{step.reason}; needs --rebuild, which replaces all rows")
    if not recorded.exists or not recorded.history.undone or (step.runs and step.rebuild and not step.batches):
        return step
    warnings = undone_warnings(model, recorded.history, step.batches)
    return replace(step, warnings=[*warnings, *step.warnings])


def _keeps_rows(model: Model, recorded: RecordedState) -> bool:
    """True if the table has rows that a model of its kind keeps. The answer can read files, and is a read of it."""
    keeps = recorded.exists and isinstance(model.kind, Append | Merge)
    return keeps and bool(recorded.lake.table(model.table).count())


def check_rebuild(step: Step) -> None:
    """Checks that rows of earlier runs are replaced only on request."""
    if step.needs_rebuild:
        raise PipelineError(
            f"the run would replace all rows of {step.model.table}: {step.reason}",
            hint=f"look at what its inputs have now: lakeconf run {step.model.table} --rebuild deletes the rows that "
            "cannot be computed from them again",
        )


def _decided(pipeline: Pipeline, model: Model, recorded: RecordedState, request: RunRequest, late: Late) -> Step:
    runs = recorded.history.runs
    last = runs[-1] if runs and recorded.exists else None
    fresh = _changed_definition(pipeline, model, last)
    if isinstance(model.kind, View):
        if not isinstance(model.body, Query):
            return Step(model, "computed when it is read", runs=False)
        return Step(model, fresh or _UNCHANGED, runs=fresh is not None)
    if request.rebuild:
        by = f" by those of {model.kind.csv}" if isinstance(model.kind, Seed) else ""
        # The intervals follow later.
        is_replaced = recorded.exists and not isinstance(model.kind, Incremental)
        fresh = f"{_REQUESTED}: replaces all rows{by}" if is_replaced else _REQUESTED
    if isinstance(model.kind, Append) and model.kind.files is not None:
        step = _files(model, model.kind.files, recorded, () if last is None or request.rebuild else runs, request)
        # Rows that a run of another kind wrote may be those of the files.
        is_other = step.runs and not request.rebuild and last is not None and not last.files
        return replace(step, reason=str(fresh), rebuild=True) if is_other else step
    if isinstance(model.kind, Incremental):
        if last is not None and fresh is None:
            last = as_of_lookback(model.kind, runs, last)
        inputs = None if last is None else last.inputs
        changed, _ = changed_inputs(pipeline.stored_inputs(model), recorded.lake, inputs, recorded.pending)
        return _intervals(pipeline, model, model.kind, recorded, request, fresh, changed, late)
    return _tables(pipeline, model, recorded, last, fresh)


def _tables(
    pipeline: Pipeline, model: Model, recorded: RecordedState, last: ModelRun | None, fresh: str | None
) -> Step:
    """Plans a model that reads all rows of its inputs, or their changes since the last run."""
    inputs = None if last is None else last.inputs
    changed, lost = changed_inputs(pipeline.stored_inputs(model), recorded.lake, inputs, recorded.pending)
    driving = model.driving_input
    if driving is not None and last is not None and fresh is None:
        table = pipeline.inputs(model)[driving]
        if table in lost:
            return Step(model, lost[table], rebuild=True)
        if table not in changed:
            return Step(model, _UNCHANGED, runs=False)
        return Step(model, f"{table} has changed", since=last.inputs[table])
    if fresh is None and not changed and not lost:
        return Step(model, _UNCHANGED, runs=False)
    why = fresh or f"{' and '.join(dict.fromkeys([*changed, *lost]))} changed"
    return Step(model, why, rebuild=fresh is not None or driving is not None)


def _changed_definition(pipeline: Pipeline, model: Model, last: ModelRun | None) -> str | None:
    """Returns the reason to compute all rows again; None if the last run had the present definition."""
    if last is None:
        return "first run"
    if last.definition != pipeline.definition(model):
        return "its file has changed" if isinstance(model.kind, Seed) else "its definition has changed"
    return None


def _files(model: Model, pattern: str, recorded: RecordedState, runs: Sequence[ModelRun], request: RunRequest) -> Step:
    """Plans the load of files that the current rows do not contain."""
    # Loaded files may have been deleted since: a new definition applies to new files only.
    new, warnings = new_files(recorded.lake, model, pattern, runs)
    replaces = request.rebuild and recorded.exists
    if not new:
        kept = f"no file of {pattern} exists, so the table keeps its rows"
        return Step(model, kept if replaces else f"no new file matches {pattern}", runs=False, warnings=warnings)
    why = counted(len(new), "new file")
    if replaces:
        why = f"{_REQUESTED}: replaces all rows by those of {listed(new, SHOWN)}"
    return Step(model, why, rebuild=request.rebuild, files=new, warnings=warnings)


def _intervals(
    pipeline: Pipeline,
    model: Model,
    kind: Incremental,
    recorded: RecordedState,
    request: RunRequest,
    fresh: str | None,
    changed: Sequence[str],
    late: Late,
) -> Step:
    start = _start(model, kind, request)
    done: list[Range] = []
    if recorded.exists and request.since is None and not request.rebuild:
        done = done_ranges(kind, recorded.history.runs, pipeline.definition(model))
    planned = batches(kind, start, request.until, done, late=bool(changed))
    left = without(late.ranges, [(batch.start, batch.end) for batch in planned])
    warnings = [] if request.rebuild else list(late.unknown)
    if left:
        warnings.append(f"{' and '.join(late.since)} changed in done intervals: run with {arguments(left)}")
    if not planned:
        return Step(model, "all intervals are done", runs=False, warnings=warnings)
    ranges = listed([*map(str, planned)], SHOWN)
    why = fresh or (f"{' and '.join(changed)} changed" if all(batch.redone for batch in planned) else "missing")
    return Step(
        model, f"{why}: {ranges}", batches=planned, rebuild=fresh is not None,
        late_since=late.since if left else {}, unfinished_since=late.since, warnings=warnings,
    )  # fmt: skip


def _start(model: Model, kind: Incremental, request: RunRequest) -> datetime:
    """Returns the start of the first interval."""
    start = request.since or (None if kind.start is None else moment(kind.start))
    if start is None:
        raise PipelineError(f"the model {model.table} has no start of its first interval", hint="set start=…")
    if start > request.until:
        raise PipelineError(
            f"the interval from {start} to {request.until} of the model {model.table} ends before it starts",
            hint="set --from to a time before --to",
        )
    return start
