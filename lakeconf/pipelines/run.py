"""Runs and plans the models of a pipeline, one after the other, each after those that it reads."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Literal

from lakeconf.commit.scope import Scope
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.errors import LakeconfError
from lakeconf.lake.lake import Lake
from lakeconf.logs import event_logger
from lakeconf.pipelines.column_changes import column_changes
from lakeconf.pipelines.file_rows import files_of
from lakeconf.pipelines.intervals import in_utc, moment
from lakeconf.pipelines.late_rows import late_intervals
from lakeconf.pipelines.models.body import Query
from lakeconf.pipelines.models.kinds import Full, Merge, Seed, View
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import RunRequest, Step, check_rebuild, decide
from lakeconf.pipelines.recorded_runs import RecordedState, history
from lakeconf.pipelines.rows import rows_of
from lakeconf.pipelines.step_run import StepRun, split_deleted

_log = event_logger("pipeline")
Status = Literal["done", "skipped", "failed", "not run"]


@dataclass(frozen=True)
class ModelResult:
    """The result of running a model.

    Attributes:
        model: The model's table.
        status: `done`, `skipped` if there was nothing to do, `failed`, or `not run` if one of its inputs failed.
        reason: The reason, in words.
        snapshot_id: The last snapshot that the run created; None if it created none.
        rows: The number of rows written.
        seconds: The duration in seconds.
        error: The error, if it failed.
        warnings: Work that the run left undone, and how to do it.
    """

    model: str
    status: Status
    reason: str
    snapshot_id: int | None = None
    rows: int = 0
    seconds: float = 0.0
    error: LakeconfError | None = None
    warnings: Sequence[str] = ()


def plan(
    pipeline: Pipeline,
    lake: Lake,
    tables: Iterable[str] = (),
    *,
    since: date | datetime | None = None,
    until: date | datetime | None = None,
    rebuild: bool = False,
) -> list[Step]:
    """Plans a run and changes nothing.

    Args:
        pipeline: The models.
        lake: The lake that contains their tables.
        tables: The models' tables; default: all. `+` before a name adds the models that it reads.
        since: Start of the range whose intervals are processed again; default: process only missing intervals.
        until: End of the range; default: now.
        rebuild: True to process everything again, regardless of recorded runs.

    Returns:
        The steps, in order.

    Raises:
        PipelineError: A model cannot be run.
    """
    request = _request(since, until, rebuild=rebuild)
    steps: list[Step] = []
    with in_utc(lake):
        for model in pipeline.chosen(tables):
            used = computing(model, lake)
            step = _planned(pipeline, model, used, request, frozenset(step.model.table for step in steps if step.runs))
            steps.append(_with_columns(pipeline, step, used) if step.runs else step)
    return steps


def run(
    pipeline: Pipeline,
    lake: Lake,
    tables: Iterable[str] = (),
    *,
    since: date | datetime | None = None,
    until: date | datetime | None = None,
    rebuild: bool = False,
    allow_drop_columns: bool = False,
    progress: Callable[[ModelResult], None] = lambda _: None,
    began: Callable[[Model], None] = lambda _: None,
) -> list[ModelResult]:
    """Runs models. One transaction per model evolves the table, writes rows, checks audits and records the run.

    An incremental model may need several transactions, one for each batch of intervals. A transaction that fails
    changes nothing, and models that read a failed model are not run.

    Args:
        pipeline: The models.
        lake: The lake that contains their tables.
        tables: As for `plan`, like `since`, `until` and `rebuild`.
        allow_drop_columns: True to drop all columns that the models no longer have, not only those in `dropped`.
        progress: Called with the result of each model when it ends.
        began: Called when a model begins to run that has something to do.

    Returns:
        The result of each model, in order.
    """
    request = _request(since, until, rebuild=rebuild, allow_drop_columns=allow_drop_columns)
    chosen, run_id = {model.table for model in pipeline.chosen(tables)}, uuid.uuid4().hex
    results, failed = list[ModelResult](), dict[str, str]()  # by tables that cannot be computed: what failed

    def end(result: ModelResult) -> None:
        _log.info("model %(model)s: %(status)s, %(reason)s, %(rows)d rows, %(seconds).1f s", vars(result))
        results.append(result)
        if result.status == "failed":
            failed[result.model] = result.model
        progress(result)

    for model in pipeline.ordered:
        broken = next((failed[table] for table in sorted(pipeline.needed(model)) if table in failed), None)
        # A table that does not run is not changed by what it reads, unlike a view.
        if broken is not None and (model.table in chosen or isinstance(model.kind, View)):
            failed[model.table] = broken
        if model.table not in chosen:
            continue
        _log.info("model %s (%d of %d)", model.table, len(results) + 1, len(chosen))
        if broken is not None:
            end(ModelResult(model.table, "not run", f"{broken} failed"))
            continue
        used = computing(model, lake)
        end(_run_model(pipeline, model, used, request, run_id, began, end))
        if used is not lake:
            lake.refresh()
    return results


def _run_model(
    pipeline: Pipeline,
    model: Model,
    lake: Lake,
    request: RunRequest,
    run_id: str,
    began: Callable[[Model], None],
    end: Callable[[ModelResult], None],
) -> ModelResult:
    """Runs a model whose inputs have run. If it is interrupted after its last commit, `end` receives the result."""
    start, step_run, reason = time.monotonic(), None, "cannot be planned"
    try:
        with in_utc(lake):
            step = _planned(pipeline, model, lake, request)
            reason = step.reason
            if not step.runs:
                took = time.monotonic() - start
                return ModelResult(model.table, "skipped", reason, seconds=took, warnings=step.warnings)
            check_rebuild(step)
            began(model)
            step_run = StepRun(pipeline, step, lake, run_id, request.allow_drop_columns)
            step_run.carry_out()
    except LakeconfError as error:
        _log.debug("model %s failed", model.table, exc_info=True)
        snapshot_id, rows = (None, 0) if step_run is None else (step_run.snapshot_id, step_run.rows)
        return ModelResult(model.table, "failed", reason, snapshot_id, rows, time.monotonic() - start, error)
    except BaseException:
        if step_run is not None and step_run.is_complete:
            end(_done(step_run))
        elif step_run is not None and step_run.unknown is not None:
            end(ModelResult(model.table, "failed", reason, step_run.snapshot_id, step_run.rows, error=step_run.unknown))
        raise
    return replace(_done(step_run), seconds=time.monotonic() - start)


def _done(step_run: StepRun) -> ModelResult:
    table, reason = step_run.step.model.table, step_run.step.reason
    return ModelResult(table, "done", reason, step_run.snapshot_id, step_run.rows, warnings=step_run.warnings)


def computing(model: Model, lake: Lake) -> Lake:
    """Returns the lake with the engine that computes a model: DuckDB for DuckDB's SQL, also if the lake is on Spark."""
    session = lake._session  # noqa: SLF001 - not for users
    runs_on_duckdb = isinstance(model.body, Query) and not isinstance(model.kind, View)
    if not runs_on_duckdb or session.engine.name == DuckDBEngine.name:
        return lake
    return Lake(Scope(replace(session.fork(), engine=DuckDBEngine(session.reader, session.writer))))


def _planned(
    pipeline: Pipeline, model: Model, lake: Lake, request: RunRequest, pending: frozenset[str] = frozenset()
) -> Step:
    """Plans a model from what its lake has recorded; `pending` are the tables that runs before it would change."""
    # Read the runs before the snapshot: a run committed in between is then detected when this run commits.
    events = lake.runs.committed(model.table)
    lake.refresh()
    exists = model.table in (lake.views() if isinstance(model.kind, View) else lake.tables())
    record = history(events, lake.runs.created(model.table) if exists else None)
    recorded = RecordedState(lake, exists, record, len(events), pending)
    late = late_intervals(pipeline, model, recorded)
    return decide(pipeline, model, recorded, request, late)


def _with_columns(pipeline: Pipeline, step: Step, lake: Lake) -> Step:
    """Adds what happens to the rows and the columns of an existing table, if it is known before the step runs."""
    model = step.model
    if isinstance(model.kind, View) or model.table not in lake.tables():
        return step
    step = replace(step, replaces=step.rebuild or isinstance(model.kind, Full | Seed) or bool(step.batches))
    try:
        batch, files = next(iter(step.batches), None), files_of(model, step.files)
        frame = rows_of(pipeline, model, lake, batch, files=files, since=step.since)
        rows = split_deleted(model.kind, frame)[0] if isinstance(model.kind, Merge) else frame
        schema, columns = lake.table(model.table).schema, lake.columns_of(rows)
        return replace(step, columns=column_changes(model, schema, columns, replaces=step.replaces_all))
    except LakeconfError as error:
        # The columns of an input may be unknown before that input has run.
        warning = f"its column changes are unknown: {error.message.splitlines()[0]}"
        return replace(step, warnings=[*step.warnings, warning])


def _request(since: date | datetime | None, until: date | datetime | None, **flags: bool) -> RunRequest:
    end = datetime.now(UTC) if until is None else until
    return RunRequest(None if since is None else moment(since), moment(end), **flags)
