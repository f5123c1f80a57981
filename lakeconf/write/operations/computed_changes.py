"""Carries out changes of rows that Spark's SQL has computed: an UPDATE, a DELETE or a MERGE INTO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.commit.actions import Action
from lakeconf.write.changed_rows import readable_table, stage_changed_rows
from lakeconf.write.context import WriteContext, quoted_name
from lakeconf.write.operations.merge.row_actions import merge_actions


@dataclass(frozen=True)
class ChangeRows:
    """Changes rows of a table: those of a frame have an action, the place of a row, and its new values.

    It reads the snapshot that the query of the frame has read, and not the latest.
    """

    frame: Any

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Stages the changes, so that they are computed once, and makes actions of them."""
        target = context.target()
        readable_table(context, target, names=())
        rows = nw.from_native(self.frame)
        engine = context.session.engine
        staged = stage_changed_rows(context, engine, target, rows, target.types, has_actions=True)
        files = plan_scan(context.session.reader, quoted_name(target.info), context.snapshot_id, ())
        strategy = context.strategist(target).merge(files, None)
        return merge_actions(context, target, staged, (), strategy)
