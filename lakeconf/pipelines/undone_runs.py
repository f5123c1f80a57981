"""Warns about recorded runs whose rows a restore of the table removed: later runs do not repeat them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from lakeconf.commit.journal import ModelRun
from lakeconf.counted import counted
from lakeconf.errors import listed
from lakeconf.pipelines.intervals import Batch, short, without
from lakeconf.pipelines.kinds import Append, Incremental, Merge
from lakeconf.pipelines.model import Model

_SHOWN = 3


def undone_warnings(
    model: Model, runs: Sequence[ModelRun], restores: Mapping[int, int], planned: Sequence[Batch] = ()
) -> list[str]:
    """Returns a warning if the current rows lack those of recorded runs, because the table was restored.

    Args:
        model: The model.
        runs: Its recorded runs since its rows were last replaced, oldest first.
        restores: For each snapshot that restored the table, the version that it restored.
        planned: The intervals that this run processes.
    """
    undone = [run for run in runs if not _is_in(run, None, restores)]
    if not undone:
        return []
    last = max(restores)
    later = [run for run in runs if run.snapshot_id is not None and run.snapshot_id > last]
    restored = f"the table was restored to version {restores[last]}"
    if isinstance(model.kind, Incremental):
        done = [*planned, *(Batch(*run.interval, run.interval[1]) for run in later if run.interval is not None)]
        left = without([run.interval for run in undone if run.interval is not None], done)
        ranges = ", ".join(f"--from {_argument(start)} --to {_argument(end)}" for start, end in left[:_SHOWN])
        more = f" and {counted(len(left) - _SHOWN, 'more range')}" if len(left) > _SHOWN else ""
        return [f"{restored}, before these intervals were done: run with {ranges}{more}"] if left else []
    if isinstance(model.kind, Append) and model.kind.files is not None:
        files = list(dict.fromkeys(file for run in undone for file in run.files))
        missing = f"{restored}, without the rows of {listed(files, _SHOWN)}"
        return [f"{missing}: run with --rebuild to load all files of the pattern again"]
    reads_changes = isinstance(model.kind, Append) or (
        isinstance(model.kind, Merge) and model.driving_input is not None
    )
    if later and not reads_changes:  # it replaced the rows, or merged all of them
        return []
    return [
        f"{restored}, before {counted(len(undone), 'run')} of the model: run with --rebuild to compute all rows again"
    ]


def _is_in(run: ModelRun, version: int | None, restores: Mapping[int, int]) -> bool:
    """True if a version of the table, None for the current one, has the rows of a run."""
    if run.snapshot_id is None:
        return True
    before = [one for one in restores if version is None or one <= version]
    if not before:
        return version is None or run.snapshot_id <= version
    last = max(before)
    if run.snapshot_id > last:
        return version is None or run.snapshot_id <= version
    return _is_in(run, restores[last], restores)


def _argument(value: datetime) -> str:
    """Formats a time for the command line."""
    return short(value).replace(" ", "T")
