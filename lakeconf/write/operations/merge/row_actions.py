"""The actions that carry out staged changes of rows: a row delta with files of Spark, or statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw

from lakeconf.catalog.file_footers import read_footers
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.commit.actions import Action, AddFiles, RunSql, Target
from lakeconf.commit.positions import have_row_ids
from lakeconf.commit.row_delta import PositionDeletes, RowDelta
from lakeconf.engines.engine import FILE_ID, ROW_ID, Engine, Staged, StagingRequest
from lakeconf.errors import CommitError
from lakeconf.sql import identifier
from lakeconf.write.changed_rows import (
    ACTION,
    DELETE,
    INSERT,
    STAGED,
    UPDATE,
    SparkSearch,
    check_matches,
    check_required,
    place_columns,
    update_statement,
)
from lakeconf.write.context import WriteContext, quoted_name
from lakeconf.write.strategy import Strategy

_CHANGED = f"{ACTION} IN ('{UPDATE}', '{DELETE}')"
_IN_CATALOG = f"{_CHANGED} AND {FILE_ID} IS NULL"


def merge_actions(
    context: WriteContext,
    target: Target,
    staged: Staged,
    on: Sequence[str],
    strategy: Strategy,
    engine: Engine | None = None,
) -> Sequence[Action]:
    """The actions that carry out staged changes of rows.

    Args:
        on: The columns of the merge, for errors; empty for an update.
        engine: The engine that has staged them; None for that of the lake.
    """
    writer, info = context.session.writer, target.info
    counts = dict(writer.rows(f"SELECT {ACTION}, count(*) FROM ({staged.source}) GROUP BY ALL"))
    check_required(writer, info, staged, target.types, f"{ACTION} IN ('{UPDATE}', '{INSERT}')")
    if strategy.is_staged and (counts.get(UPDATE) or counts.get(DELETE)):
        parts = {kind: _part(context, target, staged, kind) for kind in (UPDATE, INSERT) if counts.get(kind)}
        files = [context.strategist(target).append(part) for part in parts.values()]
        if all(strategy_of_part.by_spark for strategy_of_part in files):
            return _staged_actions(context, target, staged, parts, counts, on, strategy)
        reason = next(strategy_of_part.reason for strategy_of_part in files if not strategy_of_part.by_spark)
        strategy = strategy._replace(reason=f"{strategy.reason}; not staged: {reason}")
    check_matches(writer, info, staged, on)
    return _sql_actions(context, target, staged, counts, strategy, engine or context.session.engine)


def _staged_actions(
    context: WriteContext,
    target: Target,
    staged: Staged,
    parts: Mapping[str, Staged],
    counts: Mapping[str, int],
    on: Sequence[str],
    strategy: Strategy,
) -> Sequence[Action]:
    """A row delta, and the files of the updated and the new rows."""
    info, depends_on = target.info, context.dependency(target.info)
    _check_parts(context, target, staged, parts, counts)
    changed = counts.get(UPDATE, 0) + counts.get(DELETE, 0)
    search = SparkSearch(context, info, context.staging.positions_folder(info), _changed_rows(context, staged, ROW_ID))
    delta = RowDelta(
        table=info.full_name,
        info=info,
        folder=search.folder,
        in_files=_changed_in_files(context, target, staged, search, changed, on),
        search=search,
        in_catalog=f"rowid IN (SELECT {ROW_ID} FROM ({staged.source}) WHERE {_IN_CATALOG})",
        expected_count=changed,
        depends_on=depends_on,
        written_for=target.stored,
        strategy=str(strategy),
    )
    added = [
        AddFiles(
            table=info.full_name,
            info=info,
            staged=part,
            own_row_ids=kind == UPDATE,
            depends_on=depends_on,
            written_for=target.stored,
        )
        for kind, part in parts.items()
    ]
    return [delta, *added]


def _part(context: WriteContext, target: Target, staged: Staged, kind: str) -> Staged:
    """The staged rows of an action, in files that a staged commit can add."""
    token, is_update = context.staging.next_token(), kind == UPDATE
    request = StagingRequest(target.info, target.types, token, registered=False, row_ids=is_update)
    return context.staging.own(context.session.engine.stage_part(staged, f"{ACTION} = '{kind}'", request))


def _check_parts(
    context: WriteContext, target: Target, staged: Staged, parts: Mapping[str, Staged], counts: Mapping[str, int]
) -> None:
    """Rejects files that do not contain exactly the rows of their actions."""
    writer, info = context.session.writer, target.info
    updated = f"SELECT * FROM ({staged.source}) WHERE {ACTION} = '{UPDATE}'"
    for kind, part in parts.items():
        count = sum(footer.row_count for footer in read_footers(writer, part.files))
        if count != counts[kind] or (kind == UPDATE and not have_row_ids(writer, part.files, updated)):
            raise CommitError(f"Spark wrote other rows of {info.full_name} than those that change: nothing was written")


def _changed_rows(context: WriteContext, staged: Staged, *columns: str) -> nw.LazyFrame[Any]:
    """The staged rows that are updated or deleted."""
    engine = context.session.engine
    names = [ROW_ID, ACTION, *place_columns(engine)]
    rows: nw.LazyFrame[Any] = nw.from_native(engine.staged_rows(staged, names))
    changed = rows.filter(nw.col(ACTION).is_in([UPDATE, DELETE]))
    return changed.select(*columns) if columns else changed


def _changed_in_files(
    context: WriteContext, target: Target, staged: Staged, search: SparkSearch, changed: int, on: Sequence[str]
) -> PositionDeletes:
    """The changed rows that are in files; checks that no row changes twice."""
    session, info = context.session, target.info
    ((count,),) = session.writer.rows(f"SELECT count(*) FROM ({staged.source}) WHERE {_IN_CATALOG}")
    check_matches(session.writer, info, staged, on, _IN_CATALOG)
    plan = plan_scan(session.reader, quoted_name(info), context.snapshot_id, ())
    positions = search.sorted(_changed_rows(context, staged).filter(~nw.col(FILE_ID).is_null()))
    if positions is None:
        check_matches(session.writer, info, staged, on)
        raise CommitError(f"a row of {info.full_name} would change twice: nothing was written")
    deletes = PositionDeletes(context.snapshot_id, frozenset(plan.files), positions)
    if deletes.row_count + count != changed:
        raise CommitError(f"Spark sorted other rows of {info.full_name} than those that change: nothing was written")
    return deletes


def _sql_actions(
    context: WriteContext,
    target: Target,
    staged: Staged,
    counts: Mapping[str, int],
    strategy: Strategy,
    engine: Engine,
) -> Sequence[Action]:
    """Statements that delete and update rows, and the new rows."""
    info, sql = target.info, dict[str, int]()
    if counts.get(DELETE):
        ids = f"SELECT {ROW_ID} FROM ({staged.source}) WHERE {ACTION} = '{DELETE}'"
        sql[f"DELETE FROM {context.quoted(info)} WHERE rowid IN ({ids})"] = counts[DELETE]
    if counts.get(UPDATE):
        settings = {column.name: f"{STAGED}.{identifier(column.name)}" for column in info.columns}
        updated = f"SELECT * FROM ({staged.source}) WHERE {ACTION} = '{UPDATE}'"
        sql[update_statement(context, target, settings, updated)] = counts[UPDATE]
    changes = RunSql(
        table=info.full_name,
        sql=tuple(sql),
        counts=tuple(sql.values()),
        deletes=True,
        depends_on=context.dependency(info),
        written_for=target.stored,
        strategy=str(strategy),
    )
    if not counts.get(INSERT):
        return [changes]
    request = StagingRequest(info, target.types, context.staging.next_token())
    inserted = context.staging.own(engine.stage_part(staged, f"{ACTION} = '{INSERT}'", request))
    if context.engine == "spark":
        context.strategist(target).append(inserted)  # an error if Spark's files do not contain all rows
    return [changes, AddFiles(table=info.full_name, info=info, staged=inserted, written_for=target.stored)]
