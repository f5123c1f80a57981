"""Runs and plans the models of a pipeline, one after the other or at the same time, each after those that it reads."""

from __future__ import annotations

import contextlib
import queue
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Literal, TypeVar

from lakeconf.commit.scope import Scope
from lakeconf.connection.connection import SharedConnection
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.errors import LakeconfError, PipelineError, UnsupportedError
from lakeconf.lake.lake import Lake
from lakeconf.logs import EventLogger
from lakeconf.pipelines.file_rows import files_of
from lakeconf.pipelines.intervals import in_utc, moment
from lakeconf.pipelines.models.body import Query
from lakeconf.pipelines.models.kinds import Full, Merge, Seed, View
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import Bounds, Step, check_rebuild, column_changes, decide
from lakeconf.pipelines.recorded_runs import Known, history
from lakeconf.pipelines.rows import Late, late_intervals, rows_of
from lakeconf.pipelines.step_run import StepRun, split_deleted

_INTERRUPT_SECONDS = 1.0
Result = TypeVar("Result")


def in_parallel(
    names: Sequence[str],
    needs: Mapping[str, frozenset[str]],
    jobs: int,
    work: Callable[[str], Result],
    ended: Callable[[str, Result], None],
    interrupt: Callable[[], None],
) -> None:
    """Does work in threads; each item after those that it needs."""
    waiting, done, running = list(names), set[str](), dict[Future[Result], str]()
    # Ctrl-C cannot break this queue, unlike the locks of `concurrent.futures.wait`.
    finished = queue.SimpleQueue[Future[Result]]()
    with ThreadPoolExecutor(jobs, thread_name_prefix="lakeconf-model") as pool:
        try:
            while waiting or running:
                for name in [one for one in waiting if needs[one] <= done][: jobs - len(running)]:
                    waiting.remove(name)
                    future = pool.submit(work, name)
                    running[future] = name
                    future.add_done_callback(finished.put)
                future = finished.get()
                name = running.pop(future)
                ended(name, future.result())
                done.add(name)
        finally:
            # Waits until the threads have ended. A thread that begins a query later is interrupted again.
            while not all(future.done() for future in running):
                with contextlib.suppress(KeyboardInterrupt, queue.Empty):
                    interrupt()
                    finished.get(timeout=_INTERRUPT_SECONDS)


def needed(pipeline: Pipeline, models: Sequence[Model]) -> dict[str, frozenset[str]]:
    """Returns the models among these that each must wait for: those that it needs, directly or through views."""
    chosen = {model.table for model in models}
    every: dict[str, frozenset[str]] = {}
    for model in pipeline.ordered:
        read = pipeline.needed(model)
        passed = [table for table in read if table in chosen or isinstance(pipeline.by_table[table].kind, View)]
        every[model.table] = frozenset(read & chosen).union(*(every[table] for table in passed))
    return {table: every[table] for table in chosen}


def forked(lake: Lake) -> Lake:
    """Returns the same lake for a thread, at a snapshot that other threads do not move."""
    return Lake(Scope(lake._session.fork()))  # noqa: SLF001 - not for users


def interrupt_queries(lake: Lake) -> None:
    """Stops the queries of all threads."""
    session = lake._session  # noqa: SLF001 - not for users
    for connection in (session.reader.connection, session.writer):
        if isinstance(connection, SharedConnection):
            connection.interrupt()


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

    Returns:
        The steps, in order.

    Raises:
        PipelineError: A model cannot be run.
    """
    bounds = _bounds(since, until, rebuild=rebuild, redo_late=redo_late)
    steps: list[Step] = []
    with in_utc(lake):
        for model in pipeline.chosen(tables):
            used = computing(model, lake)
            step = _planned(pipeline, model, used, bounds, frozenset(step.model.table for step in steps if step.runs))
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
    redo_late: bool = False,
    allow_drop_columns: bool = False,
    progress: Callable[[ModelResult], None] = lambda _: None,
    jobs: int = 1,
) -> list[ModelResult]:
    """Runs models. One transaction per model evolves the table, writes rows, checks audits and records the run.

    An incremental model may need several transactions, one for each batch of intervals. A transaction that fails
    changes nothing, and models that read a failed model are not run.

    Args:
        pipeline: The models.
        lake: The lake that contains their tables.
        tables: As for `plan`, like `since`, `until`, `rebuild` and `redo_late`.
        allow_drop_columns: True to drop all columns that the models no longer have, not only those in `dropped`.
        progress: Called with the result of each model when it ends.
        jobs: The number of models that run at the same time, each after those that it reads; only on DuckDB.

    Returns:
        The result of each model, in order.

    Raises:
        PipelineError: `jobs` is less than 1.
        UnsupportedError: Several jobs on another engine.
    """
    if jobs < 1:
        raise PipelineError(f"jobs is {jobs}, but at least one model must run at a time", hint="set jobs to 1 or more")
    if jobs > 1 and not _is_on_duckdb(lake):
        raise UnsupportedError("models run at the same time on DuckDB only", hint="run one at a time: jobs=1")
    bounds = _bounds(since, until, rebuild=rebuild, redo_late=redo_late, allow_drop_columns=allow_drop_columns)
    running = _Running(pipeline, list(pipeline.chosen(tables)), bounds, progress)
    try:
        if jobs == 1:
            running.one_by_one(lake)
        else:
            running.in_parallel(lake, jobs)
    except BaseException:
        running.end_committed()
        raise
    return [running.results[model.table] for model in running.models]


def computing(model: Model, lake: Lake) -> Lake:
    """Returns the lake with the engine that computes a model: DuckDB for DuckDB's SQL, also if the lake is on Spark."""
    runs_on_duckdb = isinstance(model.body, Query) and not isinstance(model.kind, View)
    if not runs_on_duckdb or _is_on_duckdb(lake):
        return lake
    session = lake._session  # noqa: SLF001 - not for users
    return Lake(Scope(replace(session.fork(), engine=DuckDBEngine(session.reader, session.writer))))


def _is_on_duckdb(lake: Lake) -> bool:
    return lake._session.engine.name == DuckDBEngine.name  # noqa: SLF001 - not for users


class _Running:
    """A run of several models, and the results so far."""

    def __init__(
        self,
        pipeline: Pipeline,
        models: Sequence[Model],
        bounds: Bounds,
        progress: Callable[[ModelResult], None],
    ) -> None:
        self.models = models
        self.needs = needed(pipeline, models)
        self.results: dict[str, ModelResult] = {}
        self._step_runs: dict[str, StepRun] = {}
        self._pipeline, self._bounds, self._progress = pipeline, bounds, progress
        self._id = uuid.uuid4().hex
        self._order = [model.table for model in models]

    def one_by_one(self, lake: Lake) -> None:
        """Runs the models in this thread."""
        for model in self.models:
            used = computing(model, lake)
            self.end(model.table, self.work(model.table, used))
            if used is not lake:
                lake.refresh()

    def in_parallel(self, lake: Lake, jobs: int) -> None:
        """Runs the models in threads."""

        def work(table: str) -> ModelResult:
            return self.work(table, forked(lake))

        in_parallel(self._order, self.needs, jobs, work, self.end, lambda: interrupt_queries(lake))
        lake.refresh()

    def work(self, table: str, lake: Lake) -> ModelResult:
        """Runs a model whose inputs have run."""
        _log.info("model %s (%d of %d)", table, self._order.index(table) + 1, len(self._order))
        failed = [one for one in self._order if one in self.needs[table] and self._is_broken(one)]
        if failed:
            return ModelResult(table, "not run", f"{failed[0]} failed")
        began, one = time.monotonic(), None
        reason = "cannot be planned"
        try:
            with in_utc(lake):
                step = _planned(self._pipeline, self._pipeline.by_table[table], lake, self._bounds)
                reason = step.reason
                if not step.runs:
                    took = time.monotonic() - began
                    return ModelResult(table, "skipped", reason, seconds=took, warnings=step.warnings)
                check_rebuild(step)
                one = StepRun(self._pipeline, step, lake, self._id, self._bounds.allow_drop_columns)
                self._step_runs[table] = one
                one.carry_out()
        except LakeconfError as error:
            _log.debug("model %s failed", table, exc_info=True)
            snapshot_id, rows = (None, 0) if one is None else (one.snapshot_id, one.rows)
            return ModelResult(table, "failed", reason, snapshot_id, rows, time.monotonic() - began, error)
        return replace(self._done(one), seconds=time.monotonic() - began)

    def _is_broken(self, table: str) -> bool:
        return table in self.results and self.results[table].status in ("failed", "not run")

    def end(self, table: str, result: ModelResult) -> None:
        """Records the result of a model."""
        _log.info("model %s: %s, %s, %d rows, %.1f s", table, result.status, result.reason, result.rows, result.seconds)
        self.results[table] = result
        self._progress(result)

    def end_committed(self) -> None:
        """Records the results of models that had, or may have, committed everything when the run was interrupted."""
        for table, one in self._step_runs.items():
            if table in self.results:
                continue
            if one.is_complete:
                self.end(table, self._done(one))
            elif one.unknown is not None:
                failed = ModelResult(table, "failed", one.step.reason, one.snapshot_id, one.rows, error=one.unknown)
                self.end(table, failed)

    @staticmethod
    def _done(one: StepRun) -> ModelResult:
        table, reason = one.step.model.table, one.step.reason
        return ModelResult(table, "done", reason, one.snapshot_id, one.rows, warnings=one.warnings)


def _planned(
    pipeline: Pipeline, model: Model, lake: Lake, bounds: Bounds, pending: frozenset[str] = frozenset()
) -> Step:
    """Plans a model from what its lake has recorded; `pending` are the tables that runs before it would change."""
    # Read the runs before the snapshot: a run committed in between is then detected when this run commits.
    events = lake.runs.committed(model.table)
    lake.refresh()
    exists = model.table in (lake.views() if isinstance(model.kind, View) else lake.tables())
    found = history(events, lake.runs.created(model.table) if exists else None)
    known = Known(lake, exists, found, len(events), pending)
    late = Late() if bounds.rebuild else late_intervals(pipeline, model, known)
    return decide(pipeline, model, known, bounds, late)


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
        return replace(step, columns=column_changes(model, lake.table(model.table).schema, lake.columns_of(rows)))
    except LakeconfError as error:
        # The columns of an input may be unknown before that input has run.
        warning = f"its column changes are unknown: {error.message.splitlines()[0]}"
        return replace(step, warnings=[*step.warnings, warning])


def _bounds(since: date | datetime | None, until: date | datetime | None, **given: bool) -> Bounds:
    end = datetime.now(UTC) if until is None else until
    return Bounds(None if since is None else moment(since), moment(end), **given)
