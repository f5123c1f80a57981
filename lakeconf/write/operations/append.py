"""Appends rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeconf.commit.actions import Action, AddFiles
from lakeconf.write.context import WriteContext
from lakeconf.write.operations.evolve import evolved_for


@dataclass(frozen=True)
class AppendRows:
    """Adds the rows of a frame; see `Table.append`."""

    frame: object
    evolve: bool = False

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Stages the rows of the frame; the key of a frame without rows is recorded too."""
        target = context.target()
        frame = context.adopt(self.frame, target)
        definitions: Sequence[Action] = ()
        if self.evolve:
            target, definitions = evolved_for(context, target, frame)
        staged = context.stage(frame, target)
        strategy = context.strategist(target).append(staged)
        info = target.info
        new_rows = AddFiles(
            table=info.full_name, info=info, staged=staged, written_for=target.stored, strategy=str(strategy)
        )
        return [*definitions, new_rows]
