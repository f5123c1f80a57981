"""Carries out the planned run of a model: each transaction evolves the table, writes rows, and records the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import narwhals as nw

from lakeconf.catalog.tables import split_name
from lakeconf.errors import (
    CommitError,
    CommitUnknownError,
    DataLossError,
    LakeconfError,
    PipelineError,
    SchemaError,
    listed,
)
from lakeconf.lake.lake import Lake
from lakeconf.lake.run_journal import RESET, ModelRun
from lakeconf.logs import event_logger
from lakeconf.pipelines.column_changes import apply, check_dropped, column_changes
from lakeconf.pipelines.file_rows import ModelFiles, check_files, column_key, files_of
from lakeconf.pipelines.intervals import Batch
from lakeconf.pipelines.models.body import Query
from lakeconf.pipelines.models.column_tests import not_null, unique
from lakeconf.pipelines.models.kinds import Append, Incremental, Merge, Seed, View
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.new_files import file_states
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import Step
from lakeconf.pipelines.recorded_runs import changed_inputs
from lakeconf.pipelines.rows import placeholder_values, rows_of
from lakeconf.sql import folded, identifier, literal, qualified
from lakeconf.write.operations.merge.clauses import Delete, Update

# The types of a time column, as their literals write them.
_TIME_TYPES = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}
_log = event_logger("pipeline")


def write(
    transaction: Lake, step: Step, frame: nw.LazyFrame[Any], batch: Batch | None, *, allow_drop_columns: bool = False
) -> None:
    """Writes rows according to the model's kind. It creates the table, or changes its columns to match the rows."""
    model, kind = step.model, step.model.kind
    rows, deleted = split_deleted(kind, frame) if isinstance(kind, Merge) else (frame, None)
    if isinstance(kind, Merge) and deleted is not None:
        both = rows.select(*kind.keys).join(deleted, on=kind.keys, how="semi")
        if len(both.head(1).collect("pyarrow")):
            raise SchemaError(
                f"the rows of the model {model.table} write and delete the same {', '.join(kind.keys)}",
                hint="return one row for each key, such as the last change: … QUALIFY row_number() OVER (…) = 1",
            )
    if model.table not in transaction.tables():
        partitions, comment = model.partitioned_by, model.comment
        table = transaction.create_table(model.table, rows, partitioned_by=partitions, comment=comment)
    else:
        table = transaction.table(model.table)
        columns = transaction.columns_of(rows)
        changes = column_changes(model, table.schema, columns, replaces=step.replaces_all)
        if not allow_drop_columns:
            check_dropped(model, table.schema, columns, changes.dropped)
        apply(table, changes)
    if isinstance(kind, Incremental) and batch is not None:
        table.overwrite(rows, _range(model, kind, batch, table.schema), evolve=True)
    elif isinstance(kind, Append) and not step.rebuild:
        table.append(rows, evolve=True)
    elif isinstance(kind, Merge) and not step.rebuild:
        table.merge(rows, kind.on, matched=Update() if kind.update else None, evolve=True)
        if deleted is not None:
            table.merge(deleted, kind.on, matched=Delete(), not_matched=None)
    else:
        table.overwrite(rows, evolve=True)


def split_deleted(kind: Merge, frame: nw.LazyFrame[Any]) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any] | None]:
    """Splits a merge's rows into the rows to write and the keys to delete; None if the kind deletes no keys."""
    if kind.deleted is None:
        return frame, None
    deleted = nw.col(kind.deleted)
    # NOT NULL is NULL, and a filter leaves it out: only true deletes a key.
    kept = frame.filter(~deleted | deleted.is_null())
    return kept.drop(kind.deleted), frame.filter(deleted).select(*kind.keys)


def _range(model: Model, kind: Incremental, batch: Batch, types: Mapping[str, str]) -> str:
    """Returns the SQL condition for the time range of a batch."""
    column = kind.time_column
    column_type = {folded(name): text for name, text in types.items()}.get(folded(column))
    if column_type is None:
        raise SchemaError(
            f"the time column {column!r} of the model {model.table} is not in the table",
            hint=f"use one of its columns: {', '.join(types)}",
        )
    if column_type not in _TIME_TYPES:
        raise SchemaError(
            f"the time column {column!r} of the model {model.table} has type {column_type}",
            hint="use DATE or TIMESTAMP",
        )
    if column_type == "DATE" and kind.interval == "hour":
        raise SchemaError(
            f"the time column {column!r} of the model {model.table} is a DATE, which has no hours",
            hint='set interval = "day", or make it a TIMESTAMP',
        )
    # A day that has begun is a whole DATE.
    end_of_day = batch.end + timedelta(days=1) - timedelta.resolution
    bounds = (batch.start, end_of_day if column_type == "DATE" else batch.end)
    texts = (str(bound.date()) if column_type == "DATE" else bound.isoformat(" ") for bound in bounds)
    zone = "+00:00" if column_type not in ("DATE", "TIMESTAMP") else ""
    start, end = (f"{_TIME_TYPES[column_type]} {literal(text + zone)}" for text in texts)
    return f"{identifier(column)} >= {start} AND {identifier(column)} < {end}"


def _of_files(error: LakeconfError, files: ModelFiles) -> LakeconfError:
    """Returns an error of a write about the columns of files, with their names and what to declare."""
    hint = error.hint
    if isinstance(error, SchemaError) and error.column is not None and error.wanted is not None:
        key = column_key(error.column, error.wanted)
        hint = f"set {key} in columns of the model, next to the other columns, if all values have this type"
    return type(error)(f"{listed(files.names)}: {error.message}", hint=hint)


@dataclass
class StepRun:
    """The transactions of a step, and which of them are in the catalog, also after an exception such as Ctrl-C."""

    pipeline: Pipeline  # the models
    step: Step  # the planned run of a model
    lake: Lake
    run_id: str
    allow_drop_columns: bool = False  # True to drop all columns that the model no longer has
    snapshot_id: int | None = None  # the last snapshot; None if there is none
    rows: int = 0  # the number of rows in its snapshots
    is_complete: bool = False  # True if every transaction is in the catalog
    unknown: CommitUnknownError | None = None  # the error of a transaction that may be in the catalog
    warnings: list[str] = field(default_factory=list)  # those of the step, and what went wrong after a commit

    def __post_init__(self) -> None:
        self.warnings.extend(self.step.warnings)
        self._planned = self._inputs()

    def carry_out(self) -> None:
        """Commits every batch."""
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
                    done = "1 range was" if index == 1 else f"{index} ranges were"
                    error.message = f"{done} committed, but not {batch}: {error.message}"
                raise

    def _commit(self, step: Step, batch: Batch | None, *, is_last: bool) -> None:
        extra: dict[str, object] = {}
        message = f"{step.model.table}: {step.reason if batch is None else batch}"
        runs = None
        try:
            with self.lake.transaction(message, extra=extra) as transaction:
                runs = transaction.runs
                self._write(transaction, step, batch, extra)
        except LakeconfError as error:
            if isinstance(error, CommitError) or runs is None or runs.result() is None:
                raise
            self.warnings.append(f"its commit succeeded, but then: {error.message}")
        finally:
            result = None if runs is None else runs.result()
            self.unknown = None if runs is None else runs.unknown()
            if result is not None:
                self.snapshot_id, rows = result
                self.rows += rows
                self.is_complete = is_last

    def _write(self, transaction: Lake, step: Step, batch: Batch | None, extra: dict[str, object]) -> None:
        """Adds everything to a transaction."""
        model, pipeline = step.model, self.pipeline
        definition = pipeline.definition(model)
        inputs = self._inputs()
        interval = None if batch is None else (batch.start, batch.done_until)
        states = file_states(self.lake, model, step.files)  # before they are read, to notice a change meanwhile
        recorded = ModelRun(
            model.table, definition, self.run_id, interval, inputs, step.files, step.earlier,
            {**self._changed_since_plan(inputs), **step.late_since}, states,
            is_cut=batch is not None and batch.end > batch.done_until,
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
            model.body.check(self.lake)
            transaction.create_view(model.table, model.body.text.rstrip().rstrip(";"))
            is_new = False
        else:
            is_new = model.table not in transaction.tables()
            extra["columns"] = self._write_rows(transaction, step, batch)
        _add_checks(transaction, model)
        if step.earlier and (is_new or (step.rebuild and not step.batches)):
            # The rows of earlier runs are gone. A file that is absent now is loaded when it returns.
            transaction.runs.record(replace(recorded, definition=RESET, files=(), file_states={}))
        transaction.runs.record(recorded)
        if isinstance(model.kind, Seed) and pipeline.definition(model) != definition:
            raise PipelineError(
                f"{model.kind.csv}, the file of the model {model.table}, changed during the run; nothing was written",
                hint="run it again",
            )

    def _inputs(self) -> dict[str, int]:
        """Returns the snapshot at which each input is read now."""
        return dict.fromkeys(self.pipeline.stored_inputs(self.step.model), self.lake.snapshot_id)

    def _changed_since_plan(self, inputs: Mapping[str, int]) -> dict[str, int]:
        """Returns the inputs that others have changed since the plan, with its snapshot.

        The commit of a batch moves the reads of the next one past these changes, and nobody has looked for late rows in
        them.
        """
        moved = {table: planned for table, planned in self._planned.items() if inputs[table] != planned}
        changed, lost = changed_inputs(moved, self.lake, moved)
        return {table: moved[table] for table in (*changed, *lost)}

    def _write_rows(self, transaction: Lake, step: Step, batch: Batch | None) -> list[str]:
        """Adds a model's rows to a transaction; returns their columns."""
        body = step.model.body
        files = files_of(step.model, step.files)
        frame = rows_of(self.pipeline, step.model, transaction, batch, files=files, since=step.since)
        columns = [*frame.collect_schema().names()]
        if files is not None:
            check_files(files, self.lake)
        try:
            write(transaction, step, frame, batch, allow_drop_columns=self.allow_drop_columns)
        except LakeconfError as error:
            if isinstance(body, Query):
                raise body.write_error(error, placeholder_values(step.model, batch)) from error
            if body is None and files is not None and isinstance(error, SchemaError | DataLossError):
                raise _of_files(error, files) from error
            raise
        return columns


def _add_checks(transaction: Lake, model: Model) -> None:
    """Adds the audits and the tests of a model to a transaction."""
    if isinstance(model.kind, Merge):
        table, keys = qualified(*split_name(model.table)), model.kind.keys
        for key in keys:
            # NULL matches nothing, so each run would insert the row again.
            transaction.audit(f"the key {key} is not NULL", not_null(key).query(table))
        transaction.audit(f"the key {', '.join(keys)} is unique", unique(*keys).query(table))
    for name, sql in model.audits.items():
        transaction.audit(name, sql)
    for test, query in model.test_queries:
        transaction.runs.test(test, query)
