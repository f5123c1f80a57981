"""Warns about recorded runs whose rows a restore of the table removed: later runs do not repeat them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from lakeconf.commit.journal import ModelRun
from lakeconf.counted import counted
from lakeconf.errors import listed
from lakeconf.pipelines.intervals import Batch, short, without
from lakeconf.pipelines.kinds import Append, Incremental
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.recorded_runs import CREATED, reads_changes, undone_intervals, undone_runs

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
    undone = undone_runs(runs, None, restores)
    if not undone:
        return []
    last = max(one for one, version in restores.items() if version != CREATED)
    restored = f"the table was restored to version {restores[last]}"
    if isinstance(model.kind, Incremental):
        left = without(undone_intervals(undone), planned)
        ranges = ", ".join(f"--from {argument(start)} --to {argument(end)}" for start, end in left[:_SHOWN])
        more = f" and {counted(len(left) - _SHOWN, 'more range')}" if len(left) > _SHOWN else ""
        return [f"{restored}, before these intervals were done: run with {ranges}{more}"] if left else []
    if isinstance(model.kind, Append) and model.kind.files is not None:
        files = list(dict.fromkeys(file for run, _ in undone for file in run.files))
        missing = f"{restored}, without the rows of {listed(files, _SHOWN)}"
        return [f"{missing}: run with --rebuild to load all files of the pattern again"]
    if not reads_changes(model) and all(later for _, later in undone):  # it replaced the rows, or merged all of them
        return []
    return [
        f"{restored}, before {counted(len(undone), 'run')} of the model: run with --rebuild to compute all rows again"
    ]


def argument(value: datetime) -> str:
    """Formats a time for the command line."""
    return short(value).replace(" ", "T")
