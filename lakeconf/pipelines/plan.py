"""Plans the run of a model: whether it runs, why, for which intervals or files, and what happens to its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lakeconf.config.toml_text import dotted, toml_value
from lakeconf.errors import DataLossError, PipelineError, SnapshotNotFoundError, TableNotFoundError, listed
from lakeconf.lake.lake import Lake
from lakeconf.lake.run_journal import ModelRun
from lakeconf.lake.table import Table
from lakeconf.pipelines.intervals import Batch, Range, batches, moment, step, without
from lakeconf.pipelines.models.body import Query
from lakeconf.pipelines.models.kinds import Append, Incremental, Seed, View
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.new_files import changed_file_warnings, found_files, runs_by_full_name
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.recorded_runs import History, argument, done_ranges, reads_changes, undone_warnings
from lakeconf.sql import folded, identifier
from lakeconf.wording import counted
from lakeconf.write.schema_changes import evolution_for


@dataclass(frozen=True)
class ColumnChanges:
    """Changes to the columns of an existing table."""

    added: Mapping[str, str] = field(default_factory=dict)  # new columns and their DuckDB types
    renamed: Mapping[str, str] = field(default_factory=dict)  # map of old to new names, as for `Table.evolve`
    # The old and the new type by the column's name.
    retyped: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    dropped: Sequence[str] = ()  # columns that the rows no longer have

    def __bool__(self) -> bool:
        return bool(self.added or self.renamed or self.retyped or self.dropped)

    def __str__(self) -> str:
        parts = [f"adds {name} {kind}" for name, kind in self.added.items()]
        parts += [f"renames {old} to {new}" for old, new in self.renamed.items()]
        parts += [f"changes {name} from {old} to {new}" for name, (old, new) in self.retyped.items()]
        return ", ".join([*parts, *(f"drops {name}" for name in self.dropped)])


def column_changes(model: Model, existing: Mapping[str, str], wanted: Mapping[str, str]) -> ColumnChanges:
    """Compares the columns of a model's table with those of its rows, ignoring case."""
    _check_renamed(model, wanted)
    known, new = {folded(name): name for name in existing}, {folded(name) for name in wanted}
    renamed = {
        known[folded(old)]: name
        for old, name in model.renamed.items()
        if folded(old) in known and folded(name) not in known
    }
    kept = {renamed.get(name, name): kind for name, kind in existing.items()}
    evolution = evolution_for(wanted, kept)
    types = {folded(name): kind for name, kind in wanted.items()}
    added = {name: kind for name, kind in wanted.items() if folded(name) not in {folded(one) for one in kept}}
    retyped = {
        name: (kind, types[folded(name)]) for name, kind in kept.items() if identifier(name) in evolution.promote
    }
    dropped = [name for name in existing if name not in renamed and folded(name) not in new]
    return ColumnChanges(added, renamed, retyped, dropped)


def apply(table: Table, changes: ColumnChanges) -> None:
    """Renames and drops columns of a table; the write of the rows then adds and widens columns."""
    rename = {identifier(old): new for old, new in changes.renamed.items()}
    if changes.dropped:
        # DuckLake cannot drop a table's last column: add new columns first.
        table.evolve(rename=rename, add={identifier(name): kind for name, kind in changes.added.items()})
        table.evolve(drop=[identifier(name) for name in changes.dropped])
    elif rename:
        table.evolve(rename=rename)


def check_dropped(table: str, dropped: Sequence[str], allowed: Sequence[str], hint: str) -> None:
    """Checks that only allowed columns are dropped."""
    known = {folded(name) for name in allowed}
    refused = [name for name in dropped if folded(name) not in known]
    if refused:
        plural = "s" if len(refused) > 1 else ""
        raise DataLossError(f"this would drop the column{plural} {', '.join(refused)} of {table}", hint=hint)


def drop_hint(model: Model, types: Mapping[str, str], dropped: Sequence[str]) -> str:
    """Returns a hint on what to do about columns of a table, which have types, that the rows of a model lack."""
    listed = ", ".join(f'"{name}"' for name in dropped)
    if isinstance(model.kind, Append) and not model.kind.columns:
        declared = ", ".join(f"{dotted((name,))} = {toml_value(kind)}" for name, kind in types.items())
        return (
            f"declare the columns of the files, so that rows without a column have NULL: columns = {{ {declared} }}; "
            f"or, to delete the column and its values, write dropped = [{listed}] in the model"
        )
    return (
        f"write dropped = [{listed}] in the model, or run with --allow-drop-columns (allow_drop_columns=True); "
        "for a renamed column, use `renamed`"
    )


def _check_renamed(model: Model, wanted: Mapping[str, str]) -> None:
    names = {folded(name) for name in wanted}
    for old, new in model.renamed.items():
        if folded(new) not in names:
            raise PipelineError(
                f"`renamed` of the model {model.table} renames {old!r} to {new!r}, but the model has no column {new!r}",
                hint=f'write the old name first: renamed = {{old = "new"}}; the columns are {", ".join(wanted)}',
            )
        if folded(old) in names:
            raise PipelineError(
                f"`renamed` of the model {model.table} renames {old!r} to {new!r}, but the model still has {old!r}",
                hint=f"remove {old!r} from the model, or from `renamed`",
            )


_REQUESTED = "requested"
_SHOWN = 3


@dataclass(frozen=True)
class Bounds:
    """The request of a run."""

    since: datetime | None  # start of the time range whose intervals are processed again; None: only missing intervals
    until: datetime  # end of the time range
    rebuild: bool = False  # True to process everything again, regardless of recorded runs
    allow_drop_columns: bool = False  # True to drop columns that models no longer have
    redo_late: bool = False  # True to process intervals with late rows again


@dataclass(frozen=True)
class Late:
    """Done intervals whose inputs have changed since."""

    ranges: Sequence[Range] = ()  # the intervals, in chronological order
    # The snapshot after which the late rows were written, by input.
    since: Mapping[str, int] = field(default_factory=dict)
    unknown: Sequence[str] = ()  # A reason for each input whose late rows are unknown


@dataclass(frozen=True)
class Step:
    """The planned run of a model."""

    model: Model
    reason: str  # the reason, in words
    runs: bool = True  # False if there is nothing to do
    rebuild: bool = False  # True if new rows replace all existing rows
    needs_rebuild: bool = False  # True if that would replace rows of earlier runs, and was not requested
    since: Mapping[str, int] | None = None  # the snapshot after which the changes of an input are read, by input
    batches: Sequence[Batch] = ()  # the intervals of an incremental model
    files: Sequence[str] = ()  # the files to load
    earlier: int = 0  # the number of recorded runs of the model
    # Inputs of which only changed rows are read, with the snapshot after which they changed.
    delta: Mapping[str, int] = field(default_factory=dict)
    # Inputs with late rows that this run does not process, with the snapshot after which they changed.
    late_since: Mapping[str, int] = field(default_factory=dict)
    # The same, until the last batch is committed: inputs with rows that the batches process again.
    unfinished_since: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()  # work that the run leaves undone, and how to do it
    # Changes to the columns of the table; only set by `plan`.
    columns: ColumnChanges = field(default_factory=ColumnChanges)
    replaces: bool = False  # True if rows of an existing table are replaced; only set by `plan`


@dataclass(frozen=True)
class Known:
    """The recorded state of a model."""

    lakes: Mapping[str, Lake]  # the lakes of the inputs, by store name; the pipeline's own lake under the empty name
    exists: bool  # True if the model's table exists
    runs: Sequence[ModelRun]  # the runs that produced the model's current rows, oldest first
    earlier: int = 0  # the number of all recorded runs of the model
    pending: frozenset[str] = frozenset()  # tables that this run would change; only for plans
    history: History = field(default_factory=History)  # what the recorded events say about the rows of the table
    # True if the table has rows that a model of its kind keeps, as Append and Merge do. Asked only if they are at risk:
    # the answer can read files, and is a read of the table.
    has_rows: Callable[[], bool] = lambda: False


def decide(pipeline: Pipeline, model: Model, known: Known, bounds: Bounds, late: Late) -> Step:
    """Plans the run of a model."""
    step = _decided(pipeline, model, known, bounds, late)
    is_former = known.history.is_former and reads_changes(model)
    is_unasked = step.runs and not bounds.rebuild and (step.rebuild or is_former) and known.has_rows()
    if is_unasked and is_former:
        raise PipelineError(
            f"the table {model.table} is not the one that earlier runs wrote, and has rows: lakeconf cannot tell "
            "whether these are the rows of earlier runs",
            hint="run with --rebuild to compute all rows again, or restore the former table: lakeconf restore",
        )
    if is_unasked:
        # The inputs may no longer have the rows from which earlier runs computed those of the table.
        step = replace(step, needs_rebuild=True, reason=f"{step.reason}; needs --rebuild, which replaces all rows")
    if not known.exists or not known.history.undone or (step.runs and step.rebuild and not step.batches):
        return step
    warnings = undone_warnings(model, known.history, step.batches)
    return replace(step, warnings=[*warnings, *step.warnings])


def check_rebuild(step: Step) -> None:
    """Checks that rows of earlier runs are replaced only on request."""
    if step.needs_rebuild:
        raise PipelineError(
            f"the run would replace all rows of {step.model.table}: {step.reason}",
            hint=f"look at what its inputs have now: lakeconf run {step.model.table} --rebuild deletes the rows that "
            "cannot be computed from them again",
        )


def _decided(pipeline: Pipeline, model: Model, known: Known, bounds: Bounds, late: Late) -> Step:
    last = known.runs[-1] if known.runs and known.exists else None
    earlier = known.earlier
    if isinstance(model.kind, View):
        return _view(pipeline, model, last, earlier)
    inputs = None if last is None else last.inputs
    changed, lost = changed_inputs(pipeline.stored_inputs(model), known.lakes, inputs, known.pending)
    fresh = _requested(model, known) if bounds.rebuild else _rebuild_reason(pipeline, model, last)
    if isinstance(model.kind, Incremental):
        if last is not None and fresh is None and model.kind.lookback:
            last = _as_of_lookback(model.kind, known.runs, last)
            changed, _ = changed_inputs(pipeline.stored_inputs(model), known.lakes, last.inputs, known.pending)
        return _intervals(pipeline, model, model.kind, known, bounds, fresh, changed, late)
    if isinstance(model.kind, Append) and model.kind.files is not None:
        return _files(model, model.kind.files, known, () if last is None or bounds.rebuild else known.runs, bounds)
    driving = model.driving_input
    if driving is not None and last is not None and fresh is None:
        table = pipeline.inputs(model)[driving]
        if table in lost:
            return Step(model, lost[table], rebuild=True, earlier=earlier)
        if table not in changed:
            return Step(model, "nothing has changed", runs=False)
        return Step(model, f"{table} has changed", since={driving: last.inputs[table]}, earlier=earlier)
    if fresh is None and not changed and not lost:
        return Step(model, "nothing has changed", runs=False)
    why = fresh or f"{' and '.join(dict.fromkeys([*changed, *lost]))} changed"
    return Step(model, why, rebuild=fresh is not None or driving is not None, earlier=earlier)


def _files(model: Model, pattern: str, known: Known, runs: Sequence[ModelRun], bounds: Bounds) -> Step:
    """Plans the load of files that the current rows do not contain."""
    lake = known.lakes[""]
    found, runs = found_files(lake, model, pattern), runs_by_full_name(model, pattern, runs)
    # Loaded files may have been deleted since: a new definition applies to new files only.
    loaded = {file for run in runs for file in run.files}
    new = [file for file in found if file not in loaded]
    warnings = changed_file_warnings(lake, model, found, runs)
    if not new:
        kept = " exists, so the table keeps its rows" if bounds.rebuild and known.exists else ""
        why = f"no file of {pattern}{kept}" if kept else f"no new file matches {pattern}"
        return Step(model, why, runs=False, warnings=warnings)
    why = counted(len(new), "new file")
    if bounds.rebuild and known.exists:
        why = f"{_REQUESTED}: replaces all rows by those of {listed(new, _SHOWN)}"
    return Step(model, why, rebuild=bounds.rebuild, files=new, earlier=known.earlier, warnings=warnings)


def _requested(model: Model, known: Known) -> str:
    """Returns the reason of a rebuild, with what happens to existing rows; the intervals follow later."""
    if isinstance(model.kind, Incremental) or not known.exists:
        return _REQUESTED
    by = f" by those of {model.kind.csv}" if isinstance(model.kind, Seed) else ""
    return f"{_REQUESTED}: replaces all rows{by}"


def _rebuild_reason(pipeline: Pipeline, model: Model, last: ModelRun | None) -> str | None:
    if last is None:
        return "first run"
    if last.definition != pipeline.definition(model):
        return "its file has changed" if isinstance(model.kind, Seed) else "its definition has changed"
    return None


def _view(pipeline: Pipeline, model: Model, last: ModelRun | None, earlier: int) -> Step:
    if not isinstance(model.body, Query):
        return Step(model, "computed when it is read", runs=False)
    why = _rebuild_reason(pipeline, model, last)
    return Step(model, why or "nothing has changed", runs=why is not None, earlier=earlier)


def changed_inputs(
    tables: Iterable[str],
    lakes: Mapping[str, Lake],
    read: Mapping[str, int] | None,
    pending: frozenset[str] = frozenset(),
) -> tuple[list[str], dict[str, str]]:
    """Returns the inputs that have changed since they were read, and the reasons for inputs where this is unknown."""
    changed, lost = [], {}
    for table in tables:
        if table in pending:
            changed.append(table)
        elif read is not None and table not in read:
            lost[table] = f"{table} is a new input"
        elif read is not None:
            lake, name = located(table, lakes)
            try:
                found = lake.runs.changes_since(name, read[table])
                if found is None:
                    lost[table] = f"{table} is no longer the table that the last run read"
                if found != []:
                    changed.append(table)
            except SnapshotNotFoundError:
                lost[table] = f"the changes of {table} are unknown, because snapshots since the last run have expired"
    return changed, lost


def located(table: str, lakes: Mapping[str, Lake]) -> tuple[Lake, str]:
    """Returns the lake of an input, and the input's table name in that lake."""
    store, _, name = table.rpartition(".")[0].rpartition(".")
    if store not in lakes:
        raise TableNotFoundError(
            f"the input {table} is in the store {store!r}, which is not open",
            hint=f'pass its lake: run(pipeline, lake, others={{"{store}": …}})',
        )
    return lakes[store], f"{name}.{table.rpartition('.')[2]}"


def _as_of_lookback(kind: Incremental, runs: Sequence[ModelRun], last: ModelRun) -> ModelRun:
    """The last run, with the oldest inputs of the last runs of the intervals within the lookback.

    A run that failed half-way has processed only some of these intervals again.
    """
    found = [(*run.interval, run) for run in runs if run.interval is not None and run.definition == last.definition]
    end = max((end for _, end, _ in found), default=None)
    if end is None:
        return last
    moments = [step(end, kind.interval, -count) for count in range(1, kind.lookback + 1)]
    newest = [[run for start, end, run in found if start <= one < end][-1:] for one in moments]
    oldest = {
        table: min([snapshot_id, *(run.inputs[table] for (run,) in filter(None, newest) if table in run.inputs)])
        for table, snapshot_id in last.inputs.items()
    }
    return replace(last, inputs=oldest)


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
        raise PipelineError(f"the model {model.table} has no start of its first interval", hint="set start=…")
    if start > bounds.until:
        raise PipelineError(
            f"the interval from {start} to {bounds.until} of the model {model.table} ends before it starts",
            hint="set --from to a time before --to",
        )
    done: list[Range] = []
    if known.exists and bounds.since is None and not bounds.rebuild:
        done = done_ranges(kind, known.runs, pipeline.definition(model))
    is_redone = bounds.redo_late or kind.late == "redo"
    if is_redone and late.unknown and bounds.since is None:
        raise PipelineError(
            f"the model {model.table} cannot redo late rows: {late.unknown[0]}",
            hint="name the intervals to recompute, with --from and --to",
        )
    redo = late.ranges if is_redone else ()
    found = batches(kind, start, bounds.until, done, late=bool(changed), redo=redo)
    left = without(late.ranges, found)
    warnings = [*late.unknown, *_late_warnings(left, late)]
    if not found:
        return Step(model, "all intervals are done", runs=False, warnings=warnings)
    ranges = listed([*map(str, found)], _SHOWN)
    changes = list(dict.fromkeys([*changed, *(late.since if redo else ())]))
    why = fresh or (f"{' and '.join(changes)} changed" if all(one.redone for one in found) else "missing")
    return Step(
        model, f"{why}: {ranges}", batches=found, rebuild=fresh is not None, earlier=known.earlier,
        late_since=late.since if left else {}, unfinished_since=late.since, warnings=warnings,
    )  # fmt: skip


def _late_warnings(left: Sequence[Range], late: Late) -> list[str]:
    """Returns a warning that says how to process intervals with late rows."""
    if not left:
        return []
    ranges = [f"--from {argument(start)} --to {argument(end)}" for start, end in left[:_SHOWN]]
    more = f" and {counted(len(left) - _SHOWN, 'more range')}" if len(left) > _SHOWN else ""
    tables = " and ".join(late.since)
    return [f"{tables} changed in done intervals: run with {', '.join(ranges)}{more}, or with --redo-late for all"]
