"""The recorded runs that count: those whose rows a version of the table has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from lakeconf.commit.journal import ModelRun
from lakeconf.errors import PipelineError, SnapshotNotFoundError, TableNotFoundError, listed
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.intervals import Batch, Range, merged, short, step, without
from lakeconf.pipelines.kinds import Append, Incremental, Kind, Merge
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.new_files import runs_by_full_name
from lakeconf.wording import counted

# Definition of the record that a new load of all files and `--rebuild` write when they replace the rows of a table:
# earlier runs no longer count.
RESET = "reset"


# The version among `restores` of a table that was created without the rows of earlier runs. No table exists in it.
CREATED = 0


def current_runs(runs: Sequence[ModelRun]) -> Sequence[ModelRun]:
    """Returns the runs that produced a table's current rows: those since it was last replaced."""
    marks = [index for index, run in enumerate(runs) if run.definition == RESET]
    return runs[marks[-1] + 1 :] if marks else runs


def done_ranges(kind: Kind, runs: Iterable[ModelRun], definition: str) -> list[Range]:
    """The ranges whose rows the last run that wrote them computed with a definition.

    Args:
        runs: Recorded runs of the model, oldest first.
    """
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


def restores_of(lake: Lake, table: str, runs: Sequence[ModelRun], since: ModelRun) -> dict[int, int]:
    """The version that a table was restored to, by the snapshot of the restore.

    The snapshot that created the table restores it to `CREATED`, if runs are older: those of a table that was dropped
    or renamed.

    Args:
        table: The full name of the table.
        runs: Recorded runs of its model. They know the restores before them, whose snapshots may have expired.
        since: The run after which restores are looked up.
    """
    found = {snapshot_id: version for run in runs for snapshot_id, version in run.restores.items()}
    if since.snapshot_id is None:
        return found
    created = lake.runs.created(table)
    if created is None or all(run.snapshot_id is None or run.snapshot_id >= created for run in runs):
        return found | lake.runs.restores(table, since.snapshot_id)
    found |= lake.runs.restores(table, min(since.snapshot_id, created - 1))  # a restore may have created it
    made = creation(lake, table, found)
    return found if made is None else found | {made: CREATED}


def creation(lake: Lake, table: str, restores: Mapping[int, int]) -> int | None:
    """The snapshot that created a table, not counting restores that created it again; None if it is unknown.

    Args:
        table: The full name of the table.
    """
    created = lake.runs.created(table)
    while created is not None and restores.get(created, CREATED) != CREATED:
        created = lake.runs.created(table, restores[created])
    return created


def standing_runs(runs: Sequence[ModelRun], restores: Mapping[int, int]) -> list[ModelRun]:
    """Returns the current runs of a table, without those that wrote a former table of this name.

    Args:
        runs: Recorded runs of a model, oldest first.
    """
    return [run for run in current_runs(runs) if not is_former(run, restores)]


def is_former(run: ModelRun, restores: Mapping[int, int], version: int | None = None) -> bool:
    """True if a run wrote a former table of this name: the table was created again since, without its rows."""
    before = [one for one in restores if version is None or one <= version]
    if run.snapshot_id is None or not before:
        return version == CREATED
    last = max(before)
    return not _is_after(run.snapshot_id, last, restores) and is_former(run, restores, restores[last])


def _is_after(snapshot_id: int, restore: int, restores: Mapping[int, int]) -> bool:
    """True if a run committed after a restore. The run that creates a table has the snapshot of its creation."""
    return snapshot_id > restore or (snapshot_id == restore and restores[restore] == CREATED)


def undone_runs(
    runs: Sequence[ModelRun], version: int | None, restores: Mapping[int, int]
) -> list[tuple[ModelRun, list[ModelRun]]]:
    """The runs whose rows a version of the table lacks, each with the later runs whose rows it has.

    Args:
        runs: Recorded runs of a model, oldest first.
        version: The version of the table; None: the current one.
    """
    has = [_is_in(run, version, restores) for run in runs]
    return [
        (run, [later for later, there in zip(runs[index:], has[index:], strict=True) if there])
        for index, run in enumerate(runs)
        if not has[index]
    ]


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


def _is_in(run: ModelRun, version: int | None, restores: Mapping[int, int]) -> bool:
    """True if a version of the table, None for the current one, has the rows of a run."""
    if run.snapshot_id is None:
        return True
    before = [one for one in restores if version is None or one <= version]
    if not before:
        return version is None or run.snapshot_id <= version
    last = max(before)
    if _is_after(run.snapshot_id, last, restores):
        return version is None or run.snapshot_id <= version
    return _is_in(run, restores[last], restores)


def former_runs(lake: Lake, table: str, runs: Sequence[ModelRun], restores: dict[int, int]) -> list[ModelRun]:
    """Returns the runs of a former table, if the present table had rows before the first run that wrote it.

    Args:
        lake: The lake of the table, which exists.
        table: The full name of the table.
        runs: All recorded runs of its model, oldest first.
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
        batches: The intervals of the planned run.
        files: The files of the planned run.
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


_SHOWN = 3


def undone_warnings(
    model: Model, runs: Sequence[ModelRun], restores: Mapping[int, int], planned: Sequence[Batch] = ()
) -> list[str]:
    """Returns a warning if the current rows lack those of recorded runs, because the table was restored.

    Args:
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
