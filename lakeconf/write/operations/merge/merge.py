"""Merges a frame into a table: joins both, decides what becomes of each row, and carries that out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakeconf.catalog.pruning.predicates import value_in
from lakeconf.commit.actions import Action, RunSql, Target
from lakeconf.engines.engine import StagingRequest
from lakeconf.engines.schema_check import selected
from lakeconf.sql import identifier
from lakeconf.write.changed_rows import readable_table
from lakeconf.write.context import StartsFromLatest, WriteContext
from lakeconf.write.operations.evolve import evolved_for
from lakeconf.write.operations.merge.clauses import Clauses
from lakeconf.write.operations.merge.join import checked_columns, join_source, staged_join
from lakeconf.write.operations.merge.row_actions import merge_actions


@dataclass(frozen=True)
class MergeRows(StartsFromLatest):
    """Updates, deletes and inserts rows by comparing the table with a frame; see `Table.merge`."""

    frame: object
    clauses: Clauses
    evolve: bool = False

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Computes what becomes of the rows at the read snapshot."""
        target = context.target()
        frame = context.adopt(self.frame, target)
        definitions: Sequence[Action] = ()
        if self.evolve:
            target, definitions = evolved_for(context, target, frame)
        in_frame = checked_columns(context, target, frame, self.clauses)
        if self.clauses.deletes_matches and context.changes_rows_of(target.info):
            return [*definitions, _delete_matches(context, target, frame, self.clauses)]
        read = readable_table(context, target)
        source = join_source(context, target, read, frame, in_frame, self.clauses)
        staged = staged_join(context, target, read, source, in_frame, self.clauses)
        return [*definitions, *merge_actions(context, target, staged, self.clauses.on, source.strategy, source.engine)]


def _delete_matches(context: WriteContext, target: Target, frame: Any, clauses: Clauses) -> Action:
    """Deletes rows by the keys in a frame, including rows of the same transaction."""
    info, engine, staging = target.info, context.session.engine, context.staging
    keys_on = selected(info, clauses.on)
    types = {key.name: target.types[key.name] for key in keys_on}
    keys = engine.conform(frame, {key: types[key.name] for key in keys_on})
    staged = staging.own(engine.stage_rows(keys, StagingRequest(info, types, staging.next_token())))
    own = identifier(info.name)
    same = " AND ".join(f"__lakeconf_keys.{identifier(key.name)} = {value_in(own, key)}" for key in keys_on)
    matches = f"EXISTS (SELECT 1 FROM ({staged.source}) AS __lakeconf_keys WHERE {same})"
    strategy = context.strategist(target).by_statement("the transaction contains more than one write")
    return RunSql(
        table=info.full_name,
        sql=(f"DELETE FROM {context.quoted(info)} WHERE {matches}",),
        deletes=True,
        depends_on=context.dependency(info),
        written_for=target.stored,
        strategy=str(strategy),
    )
