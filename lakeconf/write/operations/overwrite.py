"""Overwrites: rows that satisfy a condition, or partitions, are replaced with those of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeconf.catalog.pruning.predicates import Predicate, to_duckdb_sql
from lakeconf.catalog.pruning.where import Where, predicate_of
from lakeconf.commit.actions import Action, AddFiles, Target
from lakeconf.engines.engine import SparkOperations, Staged
from lakeconf.errors import PredicateError, SchemaError
from lakeconf.write.context import StartsFromLatest, WriteContext
from lakeconf.write.operations.delete import Deletion, delete_rows
from lakeconf.write.operations.evolve import evolved_for
from lakeconf.write.partitions import check_recurring, partition_keys, partitions_predicate


@dataclass(frozen=True)
class OverwriteRows(StartsFromLatest):
    """Replaces rows with those of a frame; see `Table.overwrite`."""

    frame: object
    where: Where | Predicate | None = None
    evolve: bool = False

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Stages the rows of the frame, and deletes the others."""
        target = context.target()
        frame = context.adopt(self.frame, target)
        definitions: Sequence[Action] = ()
        if self.evolve:
            target, definitions = evolved_for(context, target, frame)
        predicate = None if self.where is None else predicate_of(self.where, target.info.columns)
        condition = None if predicate is None else to_duckdb_sql(predicate)
        staged = context.stage(frame, target)
        if condition is not None:
            _check_condition(context, staged, condition)
        return [*definitions, *_replace_rows(context, target, Deletion(predicate, condition), staged)]


@dataclass(frozen=True)
class OverwritePartitions(StartsFromLatest):
    """Replaces the partitions for which a frame has rows; see `Table.overwrite_partitions`."""

    frame: object
    recurring: bool = False

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Stages the rows of the frame, and deletes those of their partitions."""
        target = context.target()
        info, session = target.info, context.session
        keys = partition_keys(info)
        if not keys:
            raise SchemaError(
                f"{info.full_name} is not partitioned", hint="name the rows to replace: overwrite(frame, where=…)"
            )
        if not self.recurring:
            check_recurring(info)
        staged = context.stage(context.adopt(self.frame, target), target)
        # Compare the keys of a row as one value, so that NULL is a partition like any other.
        row = "{" + ", ".join(f"'key{index}': {key}" for index, key in enumerate(keys)) + "}"
        condition = f"{row} IN (SELECT {row} FROM ({staged.source}))"
        # The DuckDB engine would not use the predicate.
        on_spark = isinstance(session.engine, SparkOperations)
        predicate = partitions_predicate(session.writer, info, staged.source) if on_spark else None
        return _replace_rows(context, target, Deletion(predicate, condition), staged)


def _replace_rows(context: WriteContext, target: Target, deletion: Deletion, staged: Staged) -> list[Action]:
    deleted = delete_rows(context, target, deletion, staged)
    info = target.info
    return [deleted, AddFiles(table=info.full_name, info=info, staged=staged, written_for=target.stored)]


def _check_condition(context: WriteContext, staged: Staged, condition: str) -> None:
    """Rejects staged rows that do not satisfy a condition."""
    outside = f"SELECT count(*) FROM ({staged.source}) WHERE ({condition}) IS NOT TRUE"
    ((count,),) = context.session.writer.rows(outside)
    if count:
        raise PredicateError(
            f"{count} rows of the frame do not satisfy the `where` of the overwrite ({condition})",
            hint="filter the frame, or widen the condition",
        )
