"""The state of a model: one fold over the recorded events of its table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeconf.errors import listed
from lakeconf.lake.run_journal import RESET, RESTORED, ModelRun
from lakeconf.pipelines.intervals import Batch, Range, merged, short, step, without
from lakeconf.pipelines.models.kinds import Append, Incremental, Kind, Merge
from lakeconf.pipelines.models.model import Model
from lakeconf.wording import counted


@dataclass(frozen=True)
class History:
    """What the events of a model's table say about its rows."""

    runs: Sequence[ModelRun] = ()  # the runs that count, oldest first: those since the rows were last replaced
    undone: Sequence[ModelRun] = ()  # those whose rows a restore removed, and which no later restore brought back
    restored: int | None = None  # the version of the last restore; None if there is none
    is_former: bool = False  # True if runs wrote a former table of the name, and none wrote the present one


def history(events: Sequence[ModelRun], created: int | None = None) -> History:
    """Reads the events of a model's table."""
    runs: list[ModelRun] = []
    undone: list[ModelRun] = []
    restored, since = None, 0
    for index, event in enumerate(events):
        if event.definition == RESET:
            runs, undone = [], []
        elif event.definition == RESTORED and event.restored is not None:
            version = event.restored
            then = history([one for one in events[:index] if (one.snapshot_id or 0) <= version])
            later = [run for run in runs if run not in then.runs and (run.snapshot_id or 0) > version]
            runs, undone = [*then.runs, *later], [*then.undone, *later]
            restored, since = version, event.snapshot_id or 0
        else:
            runs.append(event)
    if created is not None and since < created:  # the restore may have created the table again
        runs, undone = ([run for run in found if (run.snapshot_id or 0) >= created] for found in (runs, undone))
    return History(runs, undone, restored, bool(events) and not runs)


def done_ranges(kind: Kind, runs: Iterable[ModelRun], definition: str) -> list[Range]:
    """The ranges whose rows the last run that wrote them computed with a definition."""
    done: list[Range] = []
    for run in runs:
        if run.interval is None:
            continue
        if run.definition == definition:
            done = merged([*done, run.interval])
            continue
        start, end = run.interval
        # The run may also have written a part of the interval after it, which does not count as done.
        done = without(
            done,
            [Batch(start, step(end, kind.interval) if isinstance(kind, Incremental) and kind.partial else end, end)],
        )
    return done


def undone_runs(found: History) -> list[tuple[ModelRun, list[ModelRun]]]:
    """The runs that a restore has undone, each with the later runs whose rows the table has."""
    there = [run for run in found.runs if run not in found.undone]
    return [(run, [later for later in there if later.earlier > run.earlier]) for run in found.undone]


def undone_intervals(undone: Iterable[tuple[ModelRun, Sequence[ModelRun]]]) -> list[Range]:
    """The intervals of undone runs that no later run has done again."""
    return merged(
        part
        for run, later in undone
        if run.interval is not None
        for part in without([run.interval], [Batch(*one.interval, one.interval[1]) for one in later if one.interval])
    )


def reads_changes(model: Model) -> bool:
    """True if a run of the model reads only rows that changed since the run before, so that it repeats no other."""
    return isinstance(model.kind, Append) or (isinstance(model.kind, Merge) and model.driving_input is not None)


_SHOWN = 3


def undone_warnings(model: Model, found: History, planned: Sequence[Batch] = ()) -> list[str]:
    """Returns a warning if the current rows lack those of recorded runs, because the table was restored."""
    undone = undone_runs(found)
    if not undone:
        return []
    restored = f"the table was restored to version {found.restored}"
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
