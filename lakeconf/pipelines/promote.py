"""Brings tables of one lake into another as they are, with what the lake remembers of the models that made them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lakeconf.lake import Lake
from lakeconf.pipelines.pipeline import Pipeline


def promote(pipeline: Pipeline, source: Lake, target: Lake, tables: Iterable[str] = ()) -> dict[str, int]:
    """Copies the tables of models from one lake to another; nothing is computed again.

    Each is one snapshot of the target, which remembers the runs of its model as if they had been its own: a run of the
    pipeline there skips what is done, unless an input changes there.

    Args:
        pipeline: The models.
        source: The lake that has the tables, opened on the same engine as the target.
        target: The lake that gets them.
        tables: The models' tables; all that are stored unless given.

    Returns:
        The snapshot of the target that each table was brought with; views are left out.
    """
    made: dict[str, int] = {}
    for model in pipeline.chosen(tables):
        runs = source.model_runs(model.table)
        if model.table not in source.tables() or not runs:
            continue
        earlier = target.model_runs(model.table)
        target.refresh()
        frame = source.table(model.table).scan()
        message = f"{model.table}: brought from snapshot {source.snapshot_id} of another lake"
        with target.transaction(message, extra={"model": model.table, "promoted": source.snapshot_id}) as transaction:
            if model.table not in transaction.tables():
                keys = model.partitioned_by
                transaction.create_table(model.table, frame, partitioned_by=keys, comment=model.comment)
            transaction.table(model.table).overwrite(frame, evolve=True)
            inputs = dict.fromkeys(pipeline.stored_inputs(model), transaction.snapshot_id)
            for run in runs:
                transaction.record(replace(run, inputs=inputs, earlier=len(earlier)))
        made[model.table] = target.snapshot_id
    return made
