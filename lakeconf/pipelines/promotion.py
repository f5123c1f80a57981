"""Plans a promotion: compares each table of the source with that of the target."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lakeconf.commit.journal import ModelRun
from lakeconf.connection.connection import fetched
from lakeconf.engines.base import SparkOperations
from lakeconf.errors import CommitConflictError, DataLossError, LakeconfError, PipelineError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.intervals import Batch, without
from lakeconf.pipelines.kinds import Merge, View
from lakeconf.pipelines.late import is_own, up_to_date
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import ColumnChanges, apply, check_dropped, column_changes
from lakeconf.pipelines.recorded_runs import PROMOTED, current_runs, done_ranges, restores_of, runs_in, standing_runs
from lakeconf.sql import folded, identifier
from lakeconf.wording import counted

Action = Literal["create", "replace", "remember", "skip"]


_UNDONE = "; without the runs that `restore` undid: the target computes them"


@dataclass(frozen=True)
class RowChanges:
    """Changes to the rows of a table.

    Attributes:
        added: Rows that only the source has.
        removed: Rows that only the target has.
        changed: Rows with equal keys and different values; 0 if the model has no key.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True)
class Promotion:
    """The planned promotion of one table.

    Attributes:
        model: The model of the table.
        action: `create` or `replace` the table, `remember` only the model's runs if the rows are equal, or `skip` it.
        reason: The reason, in words.
        rows: Changes to its rows.
        columns: Changes to its columns.
        runs: The runs to record in the target.
        earlier: The number of runs of the model that the target has recorded.
    """

    model: Model
    action: Action
    reason: str
    rows: RowChanges = field(default_factory=RowChanges)
    columns: ColumnChanges = field(default_factory=ColumnChanges)
    runs: Sequence[ModelRun] = ()
    earlier: int = 0


@dataclass(frozen=True)
class PromotionPlan:
    """The plan of a promotion.

    Attributes:
        source_snapshot: The snapshot of the source from which tables are read.
        target_snapshot: The snapshot of the target with which they were compared.
        steps: The tables, in the order of the pipeline.
    """

    source_snapshot: int
    target_snapshot: int
    steps: Sequence[Promotion]

    @property
    def changes(self) -> list[Promotion]:
        """The steps that change the target."""
        return [step for step in self.steps if step.action != "skip"]

    def check_losses(self, *, allow_row_loss: bool, allow_drop_columns: bool) -> None:
        """Checks that the promotion deletes no rows or columns of the target without consent.

        Args:
            allow_row_loss: True to allow deleting rows that only the target has.
            allow_drop_columns: True to allow dropping columns that only the target has.
        """
        losing = [step for step in self.steps if step.rows.removed]
        if losing and not allow_row_loss:
            tables = ", ".join(f"{counted(step.rows.removed, 'row')} of {step.model.table}" for step in losing)
            raise DataLossError(
                f"this would delete rows that only the target has: {tables}",
                hint="compare the tables with `lakeconf diff`; --allow-row-loss (allow_row_loss=True) deletes the rows",
            )
        if not allow_drop_columns:
            for step in self.steps:
                hint = "use --allow-drop-columns (allow_drop_columns=True) to drop them"
                check_dropped(step.model.table, step.columns.dropped, step.model.dropped, hint)


def plan_promotion(pipeline: Pipeline, source: Lake, target: Lake, tables: Iterable[str] = ()) -> PromotionPlan:
    """Compares the tables of models in two lakes, and changes nothing.

    Args:
        target: The lake to copy to, opened with the same engine.
        tables: The models' tables; all if empty.
    """
    _check_distinct(source, target)
    names = set(tables)
    source.refresh()
    target.refresh()
    existing = {folded(name): name for name in target.tables()}
    steps = []
    for model in pipeline.chosen(names):
        reason = _absent(model, source)
        if reason is not None and model.table in names:
            raise PipelineError(f"{model.table} cannot be promoted: {reason}", hint="run it on the source first")
        if reason is not None:
            steps.append(Promotion(model, "skip", reason))
        else:
            steps.append(_step(pipeline, model, source, target, existing.get(folded(model.table))))
    return PromotionPlan(source.snapshot_id, target.snapshot_id, steps)


def _check_distinct(source: Lake, target: Lake) -> None:
    """Rejects two lakes with the same history: two stores may use the same catalog."""
    while True:
        before, there, after = source.snapshots(), target.snapshots(), source.snapshots()
        if before == after:  # no commit to the source in between
            break
    if before == there:
        raise PipelineError(
            "the source and the target are the same lake, or identical copies: both have the same snapshots",
            hint="name two stores with different catalogs",
        )


def _absent(model: Model, source: Lake) -> str | None:
    """Returns the reason why a model cannot be promoted, or None."""
    if isinstance(model.kind, View):
        return "a view has no rows: `lakeconf run` creates it in the target"
    if model.table not in source.tables():
        return "its table does not exist in the source"
    return None if current_runs(source.runs.committed(model.table)) else "the source has no run of the model"


def _done(model: Model, lake: Lake, recorded: Sequence[ModelRun]) -> tuple[Sequence[ModelRun], Sequence[ModelRun]]:
    """Returns the runs whose rows the model's table has, and those that also count: a restore may have undone some."""
    restores = restores_of(lake, model.table, recorded, recorded[0]) if recorded else {}
    return runs_in(model, recorded, lake.snapshot_id, restores), standing_runs(recorded, restores)


def _step(pipeline: Pipeline, model: Model, source: Lake, target: Lake, name: str | None) -> Promotion:
    recorded, remembered = source.runs.committed(model.table), target.runs.committed(model.table)
    runs, standing = _done(model, source, recorded)
    undone = _UNDONE if [*runs] != [*standing] else ""
    runs, stale = up_to_date(pipeline, model, source, runs)
    undone += stale
    frame = source.table(model.table).scan()
    if name is None:
        ((count,),) = _counts(target, {"s": frame}, "SELECT count(*) FROM s")
        added = RowChanges(added=count)
        reason = f"new table, {counted(count, 'row')}{undone}"
        return Promotion(model, "create", reason, added, runs=runs, earlier=len(remembered))
    types = source.table(model.table).schema
    columns = column_changes(model, target.table(name).schema, types)
    rows = _compared(model, target, frame, target.table(name).scan(), columns, types)
    step = Promotion(model, "replace", "", rows, columns, runs, len(remembered))
    if rows or columns:
        return replace(step, reason=f"{describe(step)}{undone}")
    if _is_remembered(model, runs, _done(model, target, remembered)[0]):
        return Promotion(model, "skip", "equal in both")
    return replace(step, action="remember", reason=f"equal rows: only the model's runs are copied{undone}")


def describe(step: Promotion) -> str:
    """Describes the changes to rows and columns of a table."""
    counts = ((step.rows.added, "added"), (step.rows.changed, "changed"), (step.rows.removed, "removed"))
    rows = ", ".join(f"{counted(count, 'row')} {done}" for count, done in counts if count)
    return "; ".join(part for part in (rows, str(step.columns)) if part)


def _is_remembered(model: Model, runs: Sequence[ModelRun], there: Sequence[ModelRun]) -> bool:
    """Returns True if the target would skip everything that is done in the source."""
    if not runs:
        return True
    if not there or there[-1].definition != runs[-1].definition:
        return False
    files = {file for run in there for file in run.files}
    if not all(files.issuperset(run.files) for run in runs):
        return False
    for definition in {run.definition for run in runs}:
        done = [Batch(start, end, end) for start, end in done_ranges(model.kind, there, definition)]
        if without(done_ranges(model.kind, runs, definition), done):
            return False
    return True


def _compared(
    model: Model, target: Lake, ours: Any, theirs: Any, columns: ColumnChanges, types: Mapping[str, str]
) -> RowChanges:
    """Compares the rows of both tables by their common columns."""
    names = {folded(name): name for name in target.columns_of(theirs)}
    before = {folded(new): old for old, new in columns.renamed.items()}
    pairs = {name: names.get(folded(before.get(folded(name), name))) for name in types}
    common = {name: there for name, there in pairs.items() if there is not None}
    frames = {"s": ours, "t": theirs}
    if not common:
        ((added, removed),) = _counts(target, frames, "SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM t)")
        return RowChanges(added, removed)
    quoted = _quotes(target)
    s = f"(SELECT {', '.join(map(quoted, common))} FROM s)"
    t = f"(SELECT {', '.join(f'{quoted(there)} AS {quoted(name)}' for name, there in common.items())} FROM t)"
    keys = _key(model, common, target, frames, (s, t))
    if not keys:
        ((added, removed),) = _counts(
            target,
            frames,
            f"SELECT (SELECT count(*) FROM ({s} EXCEPT ALL {t}) a), (SELECT count(*) FROM ({t} EXCEPT ALL {s}) r)",
        )
        return RowChanges(added, removed)
    same = " AND ".join(f"a.{quoted(key)} IS NOT DISTINCT FROM b.{quoted(key)}" for key in keys)
    differ = " OR ".join(f"a.{quoted(name)} IS DISTINCT FROM b.{quoted(name)}" for name in common)
    ((added, removed, changed),) = _counts(
        target,
        frames,
        f"SELECT (SELECT count(*) FROM {s} a ANTI JOIN {t} b ON {same}), "
        f"(SELECT count(*) FROM {t} a ANTI JOIN {s} b ON {same}), "
        f"(SELECT count(*) FROM {s} a JOIN {t} b ON {same} WHERE {differ})",
    )
    return RowChanges(added, removed, changed)


def _key(
    model: Model, common: Mapping[str, str], target: Lake, frames: Mapping[str, Any], sources: Sequence[str]
) -> Sequence[str]:
    """Returns the model's key columns; empty if it has no key, or if the key is not unique in one of the tables."""
    if not isinstance(model.kind, Merge):
        return ()
    given = [model.kind.on] if isinstance(model.kind.on, str) else model.kind.on
    known = {folded(name): name for name in common}
    keys = [known[folded(name)] for name in given if folded(name) in known]
    if len(keys) != len(given):
        return ()
    listed = ", ".join(map(_quotes(target), keys))
    doubled = [
        f"(SELECT count(*) FROM (SELECT 1 FROM {one} GROUP BY {listed} HAVING count(*) > 1) d)" for one in sources
    ]
    ((twice,),) = _counts(target, frames, f"SELECT {' + '.join(doubled)}")
    return () if twice else keys


def _quotes(lake: Lake) -> Callable[[str], str]:
    """How the engine of a lake quotes names."""
    if isinstance(lake._session.engine, SparkOperations):  # noqa: SLF001 - not for users
        return lambda name: f"`{name.replace('`', '``')}`"
    return identifier


def _counts(lake: Lake, frames: Mapping[str, Any], sql: str) -> list[tuple[Any, ...]]:
    try:
        session = lake._session  # noqa: SLF001 - not for users
        engine = session.engine
        # Only counts leave Spark: both tables may be large.
        rows = engine.run_sql(sql, frames) if isinstance(engine, SparkOperations) else lake.query(sql, frames)
        return fetched(rows, session.writer.secrets)
    except LakeconfError:
        raise
    except Exception as error:
        raise PipelineError(f"the rows of both lakes cannot be compared: {type(error).__name__}: {error}") from error


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
