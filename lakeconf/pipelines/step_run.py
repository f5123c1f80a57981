"""Carries out the step of one model: one transaction for each batch, whose commit records the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakeconf.commit.journal import ModelRun
from lakeconf.errors import CommitError, CommitUnknownError, LakeconfError, PipelineError
from lakeconf.lake.lake import Lake
from lakeconf.logs import EventLogger
from lakeconf.pipelines.body import Query
from lakeconf.pipelines.changed_files import file_states
from lakeconf.pipelines.file_rows import check_files, files_of
from lakeconf.pipelines.intervals import Batch
from lakeconf.pipelines.kinds import View
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import Step, located
from lakeconf.pipelines.recorded_runs import PROMOTED
from lakeconf.pipelines.rows import placeholder_values, rows_of
from lakeconf.pipelines.write import write
from lakeconf.pipelines.write_errors import reworded

_log = EventLogger("pipeline")


@dataclass
class StepRun:
    """The transactions of a step, and which of them are in the catalog, also after an exception such as Ctrl-C.

    Attributes:
        pipeline: The models.
        step: The planned run of a model.
        lakes: The lakes, by store name; the pipeline's own lake under the empty name.
        run_id: The id of the run.
        allow_drop_columns: True to drop all columns that the model no longer has.
        snapshot_id: The last snapshot; None if there is none.
        rows: The number of rows in its snapshots.
        is_complete: True if every transaction is in the catalog.
        unknown: The error of a transaction that may be in the catalog.
        warnings: Those of the step, and what went wrong after a commit.
    """

    pipeline: Pipeline
    step: Step
    lakes: Mapping[str, Lake]
    run_id: str
    allow_drop_columns: bool = False
    snapshot_id: int | None = None
    rows: int = 0
    is_complete: bool = False
    unknown: CommitUnknownError | None = None
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.warnings.extend(self.step.warnings)

    def carry_out(self) -> None:
        """Commits every batch.

        Raises:
            LakeconfError: A transaction failed, or its files are missing; later batches did not run.
        """
        batches: Sequence[Batch | None] = self.step.batches or [None]
        for index, batch in enumerate(batches):
            if batch is not None:
                _log.info("model %s: %s", self.step.model.table, batch)
            is_last = batch is batches[-1]
            step = replace(self.step, earlier=self.step.earlier + index)
            if not is_last:
                # Late rows of later batches are known until all batches are committed: one of them may fail.
                step = replace(step, late_since=step.unfinished_since)
            try:
                self._commit(step, batch, is_last=is_last)
            except LakeconfError as error:
                if index and self.unknown is None:
                    said = error.message.replace("nothing was written", "nothing of this range was written")
                    done = "1 range was" if index == 1 else f"{index} ranges were"
                    error.message = f"{batch} failed after {done} committed: {said}"
                raise

    def _commit(self, step: Step, batch: Batch | None, *, is_last: bool) -> None:
        extra: dict[str, object] = {}
        message = f"{step.model.table}: {step.reason if batch is None else batch}"
        runs = None
        try:
            with self.lakes[""].transaction(message, extra=extra) as transaction:
                runs = transaction.runs
                self._write(transaction, step, batch, extra)
        except LakeconfError as error:
            if isinstance(error, CommitError) or runs is None or runs.outcome() is None:
                raise
            self.warnings.append(f"its commit succeeded, but then: {error.message}")
        finally:
            outcome = None if runs is None else runs.outcome()
            self.unknown = None if runs is None else runs.unknown()
            if outcome is not None:
                self.snapshot_id, rows = outcome
                self.rows += rows
                self.is_complete = is_last

    def _write(self, transaction: Lake, step: Step, batch: Batch | None, extra: dict[str, object]) -> None:
        """Adds everything to a transaction."""
        model, pipeline = step.model, self.pipeline
        definition = pipeline.definition(model)
        inputs = {table: located(table, self.lakes)[0].snapshot_id for table in pipeline.stored_inputs(model)}
        interval = None if batch is None else (batch.start, batch.done_until)
        states = file_states(self.lakes[""], model, step.files)  # before they are read, to notice a change meanwhile
        recorded = ModelRun(
            model.table, definition, self.run_id, interval, inputs, step.files, step.earlier, step.late_since, states,
            restores=step.restores,
        )  # fmt: skip
        extra |= {
            "model": model.table,
            "kind": model.kind.name,
            "definition": definition,
            "run": self.run_id,
            "inputs": inputs,
        }
        if batch is not None:
            extra["interval"] = [batch.start.isoformat(), batch.end.isoformat()]
        if isinstance(model.kind, View) and isinstance(model.body, Query):
            model.body.check(self.lakes[""])
            transaction.create_view(model.table, model.body.text.rstrip().rstrip(";"))
        else:
            extra["columns"] = self._write_rows(transaction, step, batch)
        _add_checks(transaction, model)
        if not step.batches and step.rebuild and step.earlier:
            # The rows of earlier runs are gone. A file that is absent now is loaded when it returns.
            transaction.runs.record(replace(recorded, definition=PROMOTED, files=(), file_states={}))
        transaction.runs.record(recorded)
        if pipeline.definition(model, on_disk=True) != definition:
            raise PipelineError(
                f"the definition of the model {model.table} changed during the run; nothing was written",
                hint="run it again",
            )

    def _write_rows(self, transaction: Lake, step: Step, batch: Batch | None) -> list[str]:
        """Adds a model's rows to a transaction; returns their columns."""
        body = step.model.body
        files = files_of(step.model, step.files)
        frame = rows_of(self.pipeline, step, {**self.lakes, "": transaction}, batch, files)
        columns = [*frame.collect_schema().names()]
        if files is not None:
            check_files(files, self.lakes[""])
        try:
            write(transaction, step, frame, batch, allow_drop_columns=self.allow_drop_columns)
        except LakeconfError as error:
            placed = error
            if isinstance(body, Query):
                placed = body.write_error(error, placeholder_values(step.model, batch))
            placed = reworded(placed, step.model, files)
            if placed is error:
                raise
            raise placed from error
        return columns


def _add_checks(transaction: Lake, model: Model) -> None:
    """Adds the audits and the tests of a model to a transaction."""
    for name, check in model.audits.items():
        transaction.audit(name, check, table=None if isinstance(check, str) else model.table)
    for test, query in model.test_queries:
        transaction.runs.test(test, query)
