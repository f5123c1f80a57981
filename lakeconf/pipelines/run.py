"""Runs models: each is one transaction, whose commit the lake remembers."""

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
from lakeconf.pipelines.columns import column_changes
from lakeconf.pipelines.intervals import Batch, moment
from lakeconf.pipelines.kinds import Full, Merge, Seed, View
from lakeconf.pipelines.late import late_intervals
from lakeconf.pipelines.model import Model, Query
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import Bounds, Known, Step, current_runs, decide, located
from lakeconf.pipelines.rows import rows_of
from lakeconf.pipelines.write import told_apart, write

_log = EventLogger("pipeline")
Status = Literal["done", "skipped", "failed", "not run"]


@dataclass(frozen=True)
class ModelResult:
    """What became of a model.

    Attributes:
        model: Its table.
        status: `done`, `skipped` where nothing was to be done, `failed`, or `not run` behind one that failed.
        reason: Why, in words.
        snapshot_id: The snapshot that it made last; None where it made none.
        rows: How many rows were written.
        seconds: How long it took.
        error: Why it failed.
        warnings: What was left undone, and how to do it.
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
    """What a run would do, and why; nothing is changed.

    Args:
        pipeline: The models.
        lake: The lake that their tables are in.
        tables: The models' tables; all of them unless given. `+` before a name adds what it reads.
        since: The beginning of the range in which intervals are done again; the missing ones are done unless given.
        until: The end of the range; now unless given.
        rebuild: True to do everything again, whatever the lake remembers.
        redo_late: True to do the intervals again that are done and whose inputs have changed since.
        others: The lakes of other stores that inputs are in, by the store's name.

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
) -> list[ModelResult]:
    """Runs models, each in one transaction: evolution of the table, rows, audits, and what the lake remembers.

    A model that fails leaves its table as it was, and those that read it are not run.

    Args:
        pipeline: The models.
        lake: The lake that their tables are in.
        tables: As for `plan`.
        since: As for `plan`.
        until: As for `plan`.
        rebuild: As for `plan`.
        redo_late: As for `plan`.
        allow_drop_columns: True to drop columns that the models no longer have; else only those in `dropped`.
        others: As for `plan`.
        progress: Called with each result as soon as it is known.

    Returns:
        What became of each model, in order.
    """
    lakes = {"": lake, **(others or {})}
    bounds = replace(_asked(since, until, rebuild=rebuild), allow_drop_columns=allow_drop_columns, redo_late=redo_late)
    run_id = uuid.uuid4().hex
    results: dict[str, ModelResult] = {}
    chosen = list(pipeline.chosen(tables))
    for number, model in enumerate(chosen, start=1):
        _log.info("model %s (%d of %d)", model.table, number, len(chosen))
        failed = [table for table in pipeline.inputs(model).values() if _is_broken(results.get(table))]
        if failed:
            result = ModelResult(model.table, "not run", f"{failed[0]} failed")
        else:
            result = _run_model(pipeline, model, lakes, bounds, run_id)
        _log.info(
            "model %s: %s, %s, %d rows, %.1f s", model.table, result.status, result.reason, result.rows, result.seconds
        )
        results[model.table] = result
        progress(result)
    return list(results.values())


def _run_model(pipeline: Pipeline, model: Model, lakes: Mapping[str, Lake], bounds: Bounds, run_id: str) -> ModelResult:
    began, snapshot_id, rows = time.monotonic(), None, 0
    reason = "cannot be planned"
    try:
        known = _known(lakes, model)
        step = decide(pipeline, model, known, bounds, late_intervals(pipeline, model, known, bounds))
        reason = step.reason
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
    """A step that says how the columns of its table change, if they are known before it runs."""
    model, lake = step.model, known.lakes[""]
    if isinstance(model.kind, View) or not known.exists:
        return step
    replaces = step.rebuild or isinstance(model.kind, (Full, Seed)) or bool(step.batches)
    try:
        frame = rows_of(pipeline, step, known.lakes, next(iter(step.batches), None))
        rows = told_apart(model.kind, frame)[0] if isinstance(model.kind, Merge) else frame
        columns = column_changes(model, lake.table(model.table).schema, lake.columns_of(rows))
    except LakeconfError as error:
        # What the inputs become is not known before they have run.
        warning = f"how its columns change is not known: {error.message}"
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
    """One transaction of a model; gives its snapshot."""
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
        for name, check in model.audits.items():
            transaction.audit(name, check, table=None if isinstance(check, str) else model.table)
        transaction.runs.record(remembered)
        if pipeline.definition(model, on_disk=True) != definition:
            raise PipelineError(
                f"the definition of the model {model.table} has changed while it was run, so nothing was written",
                hint="run it again",
            )
    return lake.snapshot_id


def _known(lakes: Mapping[str, Lake], model: Model, pending: frozenset[str] = frozenset()) -> Known:
    lake = lakes[""]
    # The runs before the snapshot: one that is committed in between is noticed when this one is.
    runs = lake.runs.committed(model.table)
    for one in lakes.values():
        one.refresh()
    exists = model.table in lake.tables() or isinstance(model.kind, View)
    return Known(lakes, exists, current_runs(runs), len(runs), pending)


def _asked(since: date | datetime | None, until: date | datetime | None, *, rebuild: bool) -> Bounds:
    end = datetime.now(UTC) if until is None else until
    return Bounds(None if since is None else moment(since), moment(end), rebuild)


def _is_broken(result: ModelResult | None) -> bool:
    return result is not None and result.status in ("failed", "not run")
