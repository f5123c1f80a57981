"""Copies tables from one lake to another, including the recorded runs of their models."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lakeconf.commit.journal import ModelRun
from lakeconf.errors import CommitConflictError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.columns import apply
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.promotion import Promotion, PromotionPlan, plan_promotion
from lakeconf.pipelines.recorded_runs import PROMOTED
from lakeconf.pipelines.stale_runs import is_own


def promote(
    pipeline: Pipeline,
    source: Lake,
    target: Lake,
    tables: Iterable[str] = (),
    *,
    allow_row_loss: bool = False,
    allow_drop_columns: bool = False,
    planned: PromotionPlan | None = None,
) -> dict[str, int]:
    """Copies the tables of models from one lake to another in one snapshot, without recomputing them.

    Equal tables are skipped. The target records the runs of each model as its own: a run of the pipeline on the target
    skips these models until their inputs change there.

    Args:
        pipeline: The models.
        source: The lake to copy from, opened with the same engine as the target.
        target: The lake to copy to.
        tables: The models' tables; all if empty.
        allow_row_loss: True to delete rows that only the target has.
        allow_drop_columns: True to drop columns that only the target has.
        planned: The result of `plan_promotion` for these lakes and tables; planned now if None.

    Returns:
        The snapshot of the target by table; without the skipped tables.

    Raises:
        DataLossError: Rows or columns would be lost without consent; nothing was changed.
        CommitConflictError: Another writer has changed one of the tables since the plan; nothing was changed.
        PipelineError: As for `plan_promotion`.
    """
    plan = plan_promotion(pipeline, source, target, tables) if planned is None else planned
    plan.check_losses(allow_row_loss=allow_row_loss, allow_drop_columns=allow_drop_columns)
    if (source.snapshot_id, target.snapshot_id) != (plan.source_snapshot, plan.target_snapshot):
        raise CommitConflictError("one of the lakes has changed since the promotion was planned", hint="plan it again")
    if not plan.changes:
        return {}
    names = [step.model.table for step in plan.changes]
    message = f"promote {', '.join(names)} from snapshot {source.snapshot_id} of another lake"
    extra = {"models": names, "promoted": source.snapshot_id}
    with target.transaction(message, extra=extra) as transaction:
        for step in plan.changes:
            # The expected snapshot of the promoted tables. If another writer commits first, their snapshot is later,
            # and models that read them run once more than necessary, but never too rarely.
            stored = filter(is_own, pipeline.stored_inputs(step.model))
            inputs = {table: transaction.snapshot_id + (table in names) for table in stored}
            _write(step, source, transaction, inputs)
    return dict.fromkeys(names, target.snapshot_id)


def _write(step: Promotion, source: Lake, transaction: Lake, inputs: Mapping[str, int]) -> None:
    model = step.model
    copied = source.table(model.table)
    frame = copied.scan()
    if step.action == "create":
        # The types of the source: those of a frame between two lakes differ for HUGEINT, for example.
        transaction.create_table(model.table, copied.schema, partitioned_by=model.partitioned_by, comment=model.comment)
    table = transaction.table(model.table)
    apply(table, step.columns)
    if step.action != "remember":
        table.overwrite(frame, evolve=True)
    # The promotion replaces the rows of the target's own runs, so these runs no longer count.
    marker = ModelRun(model.table, PROMOTED, uuid.uuid4().hex)
    for run in (marker, *step.runs):
        # Inputs in other stores are the same tables for both lakes.
        others = {table: snapshot_id for table, snapshot_id in run.inputs.items() if not is_own(table)}
        late = {table: snapshot_id for table, snapshot_id in run.late_since.items() if not is_own(table)}
        recorded = replace(run, inputs={**others, **inputs}, earlier=step.earlier, late_since=late, restores={})
        transaction.runs.record(recorded)
