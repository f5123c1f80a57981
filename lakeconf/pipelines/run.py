"""Runs models: each run is one transaction, and its commit records the run."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Literal

from lakeconf.commit.journal import ModelRun
from lakeconf.errors import LakeconfError, PipelineError
from lakeconf.lake.lake import Lake
from lakeconf.logs import EventLogger
from lakeconf.pipelines.body import Query
from lakeconf.pipelines.columns import column_changes
from lakeconf.pipelines.intervals import Batch, moment
from lakeconf.pipelines.jobs import check_engine, forked, in_parallel, interrupt_queries, needed
from lakeconf.pipelines.kinds import Full, Merge, Seed, View
from lakeconf.pipelines.late import late_intervals
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import Bounds, Known, Step, current_runs, decide, located
from lakeconf.pipelines.rows import rows_of
from lakeconf.pipelines.write import split_deleted, write

_log = EventLogger("pipeline")
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
    redo_late: bool = False,
    others: Mapping[str, Lake] | None = None,
) -> list[Step]:
    """Plans a run and changes nothing.

    Args:
        pipeline: The models.
        lake: The lake that contains their tables.
        tables: The models' tables; default: all. `+` before a name adds the models that it reads.
        since: Start of the range whose intervals are processed again; default: process only missing intervals.
        until: End of the range; default: now.
        rebuild: True to process everything again, regardless of recorded runs.
        redo_late: True to process intervals again whose inputs have changed since.
        others: The lakes of inputs in other stores, by store name.

    Returns:
        The steps, in order.

    Raises:
        PipelineError: A model cannot be run.
    """
    lakes = {"": lake, **(others or {})}
    bounds = replace(_asked(since, until, rebuild=rebuild), redo_late=redo_late)
    steps: list[Step] = []
    for model in pipeline.chosen(tables):
        pending = frozenset(step.model.table for step in steps if step.runs)
        known = _known(lakes, model, pending)
        step = decide(pipeline, model, known, bounds, late_intervals(pipeline, model, known, bounds))
        steps.append(_with_columns(pipeline, step, known) if step.runs else step)
    return steps


def run(
    pipeline: Pipeline,
    lake: Lake,
    tables: Iterable[str] = (),
    *,
    since: date | datetime | None = None,
    until: date | datetime | None = None,
    rebuild: bool = False,
    redo_late: bool = False,
    allow_drop_columns: bool = False,
    others: Mapping[str, Lake] | None = None,
    progress: Callable[[ModelResult], None] = lambda _: None,
    began: Callable[[Model], None] = lambda _: None,
    jobs: int = 1,
) -> list[ModelResult]:
    """Runs models. One transaction per model evolves the table, writes rows, checks audits and records the run.

    An incremental model may need several transactions, one for each batch of intervals. A transaction that fails
    changes nothing, and models that read a failed model are not run.

    Args:
        pipeline: The models.
        lake: The lake that contains their tables.
        tables: As for `plan`.
        since: As for `plan`.
        until: As for `plan`.
        rebuild: As for `plan`.
        redo_late: As for `plan`.
        allow_drop_columns: True to drop all columns that the models no longer have, not only those in `dropped`.
        others: As for `plan`.
        progress: Called with the result of each model when it ends.
        began: Called when a model begins to run that has something to do, in the thread that runs it.
        jobs: The number of models that run at the same time, each after those that it reads; only on DuckDB.

    Returns:
        The result of each model, in order.

    Raises:
        UnsupportedError: Several jobs on another engine.
    """
    lakes = {"": lake, **(others or {})}
    bounds = replace(_asked(since, until, rebuild=rebuild), allow_drop_columns=allow_drop_columns, redo_late=redo_late)
    running = _Running(pipeline, list(pipeline.chosen(tables)), bounds, began, progress)
    if jobs == 1:
        for model in running.models:
            running.end(model.table, running.work(model.table, lakes))
    else:
        check_engine(lake)
        in_parallel(
            [model.table for model in running.models],
            running.needs,
            jobs,
            lambda table: running.work(table, forked(lakes)),
            running.end,
            lambda: interrupt_queries(lakes),
            lambda result: result.snapshot_id is not None,
        )
        for one in lakes.values():
            one.refresh()
    return [running.results[model.table] for model in running.models]


class _Running:
    """A run of several models, and the results so far."""

    def __init__(
        self,
        pipeline: Pipeline,
        models: Sequence[Model],
        bounds: Bounds,
        began: Callable[[Model], None],
        progress: Callable[[ModelResult], None],
    ) -> None:
        self.models = models
        self.needs = needed(pipeline, models)
        self.results: dict[str, ModelResult] = {}
        self._pipeline, self._bounds, self._began, self._progress = pipeline, bounds, began, progress
        self._id = uuid.uuid4().hex
        self._order = [model.table for model in models]

    def work(self, table: str, lakes: Mapping[str, Lake]) -> ModelResult:
        """Runs a model whose inputs have run."""
        _log.info("model %s (%d of %d)", table, self._order.index(table) + 1, len(self._order))
        failed = [one for one in self._order if one in self.needs[table] and _is_broken(self.results[one])]
        if failed:
            return ModelResult(table, "not run", f"{failed[0]} failed")
        return _run_model(self._pipeline, self._pipeline.by_table[table], lakes, self._bounds, self._id, self._began)

    def end(self, table: str, result: ModelResult) -> None:
        """Records the result of a model."""
        _log.info("model %s: %s, %s, %d rows, %.1f s", table, result.status, result.reason, result.rows, result.seconds)
        self.results[table] = result
        self._progress(result)


def _run_model(
    pipeline: Pipeline,
    model: Model,
    lakes: Mapping[str, Lake],
    bounds: Bounds,
    run_id: str,
    began_to_run: Callable[[Model], None],
) -> ModelResult:
    began, snapshot_id, rows = time.monotonic(), None, 0
    reason = "cannot be planned"
    try:
        known = _known(lakes, model)
        step = decide(pipeline, model, known, bounds, late_intervals(pipeline, model, known, bounds))
        reason = step.reason
        if step.runs:
            began_to_run(model)
        for index, batch in enumerate(step.batches or ([None] if step.runs else [])):
            if batch is not None:
                _log.info("model %s: %s", model.table, batch)
            one = replace(step, earlier=step.earlier + index)
            snapshot_id = _commit(pipeline, one, lakes, batch, run_id, allow_drop_columns=bounds.allow_drop_columns)
            rows += int(lakes[""].runs.commit_info(snapshot_id).get("rows", 0))
    except LakeconfError as error:
        _log.debug("model %s failed", model.table, exc_info=True)
        return ModelResult(model.table, "failed", reason, snapshot_id, rows, time.monotonic() - began, error)
    status: Status = "done" if step.runs else "skipped"
    seconds = time.monotonic() - began
    return ModelResult(model.table, status, reason, snapshot_id, rows, seconds, warnings=step.warnings)


def _with_columns(pipeline: Pipeline, step: Step, known: Known) -> Step:
    """Adds the column changes to a step, if they are known before it runs."""
    model, lake = step.model, known.lakes[""]
    if isinstance(model.kind, View) or not known.exists:
        return step
    replaces = step.rebuild or isinstance(model.kind, (Full, Seed)) or bool(step.batches)
    try:
        frame = rows_of(pipeline, step, known.lakes, next(iter(step.batches), None))
        rows = split_deleted(model.kind, frame)[0] if isinstance(model.kind, Merge) else frame
        columns = column_changes(model, lake.table(model.table).schema, lake.columns_of(rows))
    except LakeconfError as error:
        # The columns of an input may be unknown before that input has run.
        warning = f"its column changes are unknown: {error.message.splitlines()[0]}"
        return replace(step, replaces=replaces, warnings=[*step.warnings, warning])
    return replace(step, replaces=replaces, columns=columns)


def _commit(
    pipeline: Pipeline,
    step: Step,
    lakes: Mapping[str, Lake],
    batch: Batch | None,
    run_id: str,
    *,
    allow_drop_columns: bool,
) -> int:
    """Runs one transaction of a model and returns its snapshot."""
    model, lake = step.model, lakes[""]
    definition = pipeline.definition(model)
    inputs = {table: located(table, lakes)[0].snapshot_id for table in pipeline.stored_inputs(model)}
    interval = None if batch is None else (batch.start, batch.done_until)
    remembered = ModelRun(model.table, definition, run_id, interval, inputs, step.files, step.earlier, step.late_since)
    extra: dict[str, object] = {
        "model": model.table,
        "kind": model.kind.name,
        "definition": definition,
        "run": run_id,
        "inputs": inputs,
    }
    if batch is not None:
        extra["interval"] = [batch.start.isoformat(), batch.end.isoformat()]
    message = f"{model.table}: {step.reason if batch is None else batch}"
    with lake.transaction(message, extra=extra) as transaction:
        if isinstance(model.kind, View) and isinstance(model.body, Query):
            transaction.create_view(model.table, model.body.text.rstrip().rstrip(";"))
        else:
            frame = rows_of(pipeline, step, {**lakes, "": transaction}, batch)
            extra["columns"] = [*frame.collect_schema().names()]
            write(transaction, step, frame, batch, allow_drop_columns=allow_drop_columns)
        for name, check in model.checks:
            transaction.audit(name, check, table=None if isinstance(check, str) else model.table)
        transaction.runs.record(remembered)
        if pipeline.definition(model, on_disk=True) != definition:
            raise PipelineError(
                f"the definition of the model {model.table} changed during the run; nothing was written",
                hint="run it again",
            )
    return lake.snapshot_id


def _known(lakes: Mapping[str, Lake], model: Model, pending: frozenset[str] = frozenset()) -> Known:
    lake = lakes[""]
    # Read the runs before the snapshot: a run committed in between is then detected when this run commits.
    runs = lake.runs.committed(model.table)
    for one in lakes.values():
        one.refresh()
    exists = model.table in lake.tables() or isinstance(model.kind, View)
    loaded = frozenset(file for one in runs for file in one.files)
    return Known(lakes, exists, current_runs(runs), len(runs), pending, loaded)


def _asked(since: date | datetime | None, until: date | datetime | None, *, rebuild: bool) -> Bounds:
    end = datetime.now(UTC) if until is None else until
    return Bounds(None if since is None else moment(since), moment(end), rebuild)


def _is_broken(result: ModelResult | None) -> bool:
    return result is not None and result.status in ("failed", "not run")
