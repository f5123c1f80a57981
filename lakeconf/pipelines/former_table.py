"""Runs of a former table: nobody knows whether the table that has its name now has their rows."""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.commit.journal import ModelRun
from lakeconf.errors import PipelineError, SnapshotNotFoundError, TableNotFoundError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.intervals import Batch, merged, without
from lakeconf.pipelines.kinds import Append, Incremental
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.new_files import runs_by_full_name
from lakeconf.pipelines.recorded_runs import creation, current_runs, done_ranges, is_former, reads_changes


def former_runs(lake: Lake, table: str, runs: Sequence[ModelRun], restores: dict[int, int]) -> list[ModelRun]:
    """Returns the runs of a former table, if the present table had rows before the first run that wrote it.

    Args:
        lake: The lake of the table, which exists.
        table: The full name of the table.
        runs: All recorded runs of its model, oldest first.
        restores: As `restores_of` returns them.
    """
    former = [run for run in current_runs(runs) if is_former(run, restores)]
    created = creation(lake, table, restores) if former else None
    later = [run.snapshot_id for run in runs if run.snapshot_id is not None and run.snapshot_id >= (created or 0)]
    if created is None or created in later:  # a run created it
        return []
    try:
        then = lake.at(version=min(later) - 1) if later else lake
        return former if then.table(table).count() else []
    except (SnapshotNotFoundError, TableNotFoundError):
        return former


def check_former(
    model: Model,
    definition: str,
    runs: Sequence[ModelRun],
    former: Sequence[ModelRun],
    batches: Sequence[Batch],
    files: Sequence[str],
) -> None:
    """Refuses a run that would repeat those of a former table.

    Args:
        model: The model.
        definition: The hash of its definition.
        runs: The runs that count.
        former: The result of `former_runs`.
        batches: The intervals of the planned run.
        files: The files of the planned run.

    Raises:
        PipelineError: The table may have the rows of these runs, which the planned run would add again or replace.
    """
    if isinstance(model.kind, Incremental):
        done = [Batch(start, end, end) for start, end in done_ranges(model.kind, runs, definition)]
        left = without(done_ranges(model.kind, former, definition), done)
        repeats = without(left, batches) != merged(left)
    elif isinstance(model.kind, Append) and model.kind.files is not None:
        loaded = {file for run in runs_by_full_name(model, model.kind.files, former) for file in run.files}
        repeats = not loaded.isdisjoint(files)
    else:
        repeats = reads_changes(model) and not runs
    if repeats:
        raise PipelineError(
            f"the table {model.table} is not the one that earlier runs wrote, and had rows before any run wrote it: "
            "lakeconf cannot tell whether these are the rows of earlier runs",
            hint=f"run with --rebuild to compute all rows again, or restore the former table: "
            f"lakeconf restore {model.table} --version {former[-1].snapshot_id}",
        )
