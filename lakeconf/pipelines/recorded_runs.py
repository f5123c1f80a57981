"""What is known of a model before a run: one fold over the recorded events of its table, and what changed since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakeconf.errors import SnapshotNotFoundError, listed
from lakeconf.lake.lake import Lake
from lakeconf.lake.run_journal import RESET, RESTORED, ModelRun
from lakeconf.pipelines.intervals import Batch, Range, merged, short, step, without
from lakeconf.pipelines.models.kinds import Append, Incremental, Merge
from lakeconf.pipelines.models.model import Model
from lakeconf.wording import counted

# The number of intervals or files that a message lists.
SHOWN = 3


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
            then = history(
                [earlier_event for earlier_event in events[:index] if (earlier_event.snapshot_id or 0) <= version]
            )
            later = [run for run in runs if run not in then.runs and (run.snapshot_id or 0) > version]
            runs, undone = [*then.runs, *later], [*then.undone, *later]
            restored, since = version, event.snapshot_id or 0
        else:
            runs.append(event)
    if created is not None and since < created:  # the restore may have created the table again
        runs, undone = ([run for run in recorded if (run.snapshot_id or 0) >= created] for recorded in (runs, undone))
    return History(runs, undone, restored, bool(events) and not runs)


@dataclass(frozen=True)
class RecordedState:
    """The recorded state of a model."""

    lake: Lake
    exists: bool  # True if the model's table exists
    history: History = field(default_factory=History)  # what the recorded events say about the rows of the table
    earlier: int = 0  # the number of all recorded events of the model
    pending: frozenset[str] = frozenset()  # tables that this run would change; only for plans


def done_ranges(kind: Incremental, runs: Iterable[ModelRun], definition: str) -> list[Range]:
    """The ranges whose rows the last run that wrote them computed with a definition."""
    done: list[Range] = []
    for run in runs:
        if run.interval is not None and run.definition == definition:
            cut = [(run.interval[1], step(run.interval[1], kind.interval))] if run.is_cut else []
            done = merged([*without(done, cut), run.interval])
        elif run.interval is not None:
            start, end = run.interval
            # The run may also have written a part of the interval after it, which does not count as done.
            done = without(done, [(start, step(end, kind.interval) if kind.partial else end)])
    return done


def as_of_lookback(kind: Incremental, runs: Sequence[ModelRun], last: ModelRun) -> ModelRun:
    """The last run, with the oldest inputs of the last runs of the intervals within the lookback.

    A run that failed half-way has processed only some of these intervals again.
    """
    intervals = [(*run.interval, run) for run in runs if run.interval is not None and run.definition == last.definition]
    end = max((end for _, end, _ in intervals), default=None)
    if end is None:
        return last
    moments = [step(end, kind.interval, -count) for count in range(1, kind.lookback + 1)]
    newest = [[run for start, end, run in intervals if start <= instant < end][-1:] for instant in moments]
    oldest = {
        table: min([snapshot_id, *(run.inputs[table] for (run,) in filter(None, newest) if table in run.inputs)])
        for table, snapshot_id in last.inputs.items()
    }
    return replace(last, inputs=oldest)


def changed_inputs(
    tables: Iterable[str], lake: Lake, read: Mapping[str, int] | None, pending: frozenset[str] = frozenset()
) -> tuple[list[str], dict[str, str]]:
    """Returns the inputs that have changed since they were read, and the reasons for inputs where this is unknown."""
    changed, lost = [], {}
    for table in tables:
        if table in pending:
            changed.append(table)
        elif read is not None and table not in read:
            lost[table] = f"{table} is a new input"
        elif read is not None:
            try:
                newer = lake.runs.changes_since(table, read[table])
                if newer is None:
                    lost[table] = f"{table} is no longer the table that the last run read"
                if newer != []:
                    changed.append(table)
            except SnapshotNotFoundError:
                lost[table] = f"the changes of {table} are unknown, because snapshots since the last run have expired"
    return changed, lost


def reads_changes(model: Model) -> bool:
    """True if a run of the model reads only rows that changed since the run before, so that it repeats no other."""
    return isinstance(model.kind, Append) or (isinstance(model.kind, Merge) and model.driving_input is not None)


def undone_warnings(model: Model, record: History, planned: Sequence[Batch] = ()) -> list[str]:
    """Returns a warning if the current rows lack those of recorded runs, because the table was restored."""
    there = [run for run in record.runs if run not in record.undone]
    undone = [(run, [later for later in there if later.earlier > run.earlier]) for run in record.undone]
    if not undone:
        return []
    restored = f"the table was restored to version {record.restored}"
    if isinstance(model.kind, Incremental):
        left = merged(
            part
            for run, later in undone
            if run.interval is not None
            for part in without([run.interval], [later_run.interval for later_run in later if later_run.interval])
        )
        left = without(left, [(batch.start, batch.end) for batch in planned])
        return [f"{restored}, before these intervals were done: run with {arguments(left)}"] if left else []
    if isinstance(model.kind, Append) and model.kind.files is not None:
        files = list(dict.fromkeys(file for run, _ in undone for file in run.files))
        missing = f"{restored}, without the rows of {listed(files, SHOWN)}"
        return [f"{missing}: run with --rebuild to load all files of the pattern again"]
    if not reads_changes(model) and all(later for _, later in undone):  # it replaced the rows, or merged all of them
        return []
    return [
        f"{restored}, before {counted(len(undone), 'run')} of the model: run with --rebuild to compute all rows again"
    ]


def arguments(ranges: Sequence[Range]) -> str:
    """Returns the arguments of the command line for ranges of time."""
    shown = [*ranges[:SHOWN], (ranges[0][0], ranges[-1][1])]
    *first, whole = ("--from {} --to {}".format(*(short(bound).replace(" ", "T") for bound in span)) for span in shown)
    more = f" and {counted(len(ranges) - SHOWN, 'more range')}" if len(ranges) > SHOWN else ""
    return ", ".join(first) + more + (f", or {whole} for all" if len(ranges) > 1 else "")
