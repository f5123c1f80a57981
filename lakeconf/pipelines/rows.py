"""Reads the inputs of a model, and computes its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import narwhals as nw

from lakeconf.catalog.health import has_deletes, merged_update
from lakeconf.errors import LakeconfError, PipelineError, TableNotFoundError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.file_rows import ModelFiles, read_files, sql_rows
from lakeconf.pipelines.intervals import Batch
from lakeconf.pipelines.models.kinds import Append, Incremental, Seed, View
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.sql import folded

FEED = ("snapshot_id", "rowid", "change_type")
# A snapshot that inserts and deletes rows, without those that it updates; or rows that come back after a delete.
_WRITTEN_AGAIN = """
    SELECT snapshot_id FROM changes WHERE change_type IN ('insert', 'delete')
    GROUP BY snapshot_id HAVING count(DISTINCT change_type) = 2
    UNION ALL SELECT lakeconf_again FROM (
        SELECT * EXCLUDE (snapshot_id, rowid, change_type),
            max(snapshot_id) FILTER (change_type = 'insert') AS lakeconf_again
        FROM changes WHERE change_type IN ('insert', 'delete') GROUP BY ALL
        HAVING min(snapshot_id) FILTER (change_type = 'delete') < lakeconf_again
    ) LIMIT 1
"""


def rows_of(
    pipeline: Pipeline,
    model: Model,
    lake: Lake,
    batch: Batch | None = None,
    *,
    files: ModelFiles | None = None,  # the files to read
    since: int | None = None,  # the snapshot after which the driving input is read; None: all its rows
    delta: Mapping[str, nw.LazyFrame[Any]] | None = None,  # rows to read in place of those of a table
) -> nw.LazyFrame[Any]:
    """Returns the rows of a model as a lazy frame of the lake's engine."""
    if files is not None and isinstance(model.kind, Seed):
        return read_files(files, lake)
    frames = {name: _input(pipeline, model, name, lake, since, delta or {}) for name in pipeline.inputs(model)}
    if files is not None:
        rows = read_files(files, lake)
        if model.body is None:
            return rows
        arguments = model.body.arguments()
        if not arguments:
            raise PipelineError(
                f"the model {model.table} does not read its files", hint="read them: SELECT … FROM files"
            )
        frames = {arguments[0]: rows, **frames}
    return computed(model, lake, frames, placeholder_values(model, batch))


def _input(
    pipeline: Pipeline, model: Model, name: str, lake: Lake, since: int | None, delta: Mapping[str, nw.LazyFrame[Any]]
) -> nw.LazyFrame[Any]:
    table = pipeline.inputs(model)[name]
    below = pipeline.by_table.get(table)
    if below is not None and isinstance(below.kind, View):
        inputs = {argument: _input(pipeline, below, argument, lake, None, delta) for argument in pipeline.inputs(below)}
        return adopted(lake, computed(below, lake, inputs, {}))
    if table in delta:
        return delta[table]
    if name == model.driving_input:
        return _driving(model, name, lake, table, since)
    try:
        return lake.table(table).scan()
    except TableNotFoundError as error:
        hint = error.hint or "write a model for it, create the table, or correct its name"
        raise TableNotFoundError(f"{model.place}{error.message}", hint=hint) from None


def adopted(lake: Lake, rows: Any) -> nw.LazyFrame[Any]:
    """Returns rows as a lazy frame that joins with those of a lake's engine."""
    lazy: nw.LazyFrame[Any] = nw.from_native(lake._session.engine.joinable(rows))  # noqa: SLF001 - not for users
    return lazy


def _driving(model: Model, name: str, lake: Lake, table: str, since: int | None) -> nw.LazyFrame[Any]:
    """Returns the new or changed rows of an input since a snapshot; all its rows if there is none."""
    if since is None:
        rows = lake.table(table).scan()
        if isinstance(model.kind, Append):
            return rows
        added = (nw.lit(lake.snapshot_id), nw.lit(None, nw.Int64()), nw.lit("insert"))
        return rows.with_columns(*(value.alias(column) for value, column in zip(added, FEED, strict=True)))
    changes = lake.table(table).changes(since + 1)
    if not isinstance(model.kind, Append):
        return changes
    # A merge of files gives updated rows new row ids, so that they look like new ones.
    update = merged_update(lake._session.reader, table, since, lake.snapshot_id)  # noqa: SLF001 - not for users
    if update is not None:
        why = (
            f"snapshot {update[0]} updated rows, and snapshot {update[1]} gave them new ids when it merged their files"
        )
    elif (replaced := _replaced(lake, table, changes, since)) is not None:
        why = f"snapshot {replaced} wrote rows again, as an overwrite and a restore do"
    else:
        why = None
    if why is not None:
        raise PipelineError(
            f"the new rows of {name} cannot be told from others: {why}",
            hint=f"replace all rows: lakeconf run {model.table} --rebuild; later, run it before lakeconf maintain, and "
            "read an input that is overwritten with the kind full or merge",
        )
    return changes.filter(nw.col("change_type") == "insert").drop(*FEED)


def _replaced(lake: Lake, table: str, changes: nw.LazyFrame[Any], since: int) -> int | None:
    """Returns a snapshot that wrote rows of an input again, so that they are not new."""
    for snapshot in lake.snapshots():
        if since < snapshot.snapshot_id <= lake.snapshot_id and _restored(snapshot.extra_info) == folded(table):
            return snapshot.snapshot_id
    if not has_deletes(lake._session.reader, table, since, lake.snapshot_id):  # noqa: SLF001 - not for users
        return None
    rows = sql_rows(lake, _WRITTEN_AGAIN, changes=changes)
    return next((int(version) for (version,) in rows), None)


def _restored(extra_info: str | None) -> str | None:
    """The table that a commit restored."""
    try:
        return folded(json.loads(extra_info or "")["extra"]["restored_table"])
    except (ValueError, TypeError, KeyError):  # of another writer
        return None


def computed(
    model: Model, lake: Lake, frames: Mapping[str, Any], bounds: Mapping[str, date | datetime]
) -> nw.LazyFrame[Any]:
    """Returns the rows that a model computes from its inputs."""
    if model.body is None:
        raise PipelineError(
            f"the model {model.table} has neither code nor files", hint="add sql or files, or declare it in Python"
        )
    try:
        result = model.body.rows(lake, frames, bounds)
    except LakeconfError:
        raise
    except Exception as error:
        text = f"the model {model.table} failed: {type(error).__name__}: {error}"
        raise PipelineError(f"{model.body.at(error)}{text}") from error
    lazy: nw.LazyFrame[Any] = result.lazy() if isinstance(result, nw.DataFrame) else result
    return lazy


def placeholder_values(model: Model, batch: Batch | None) -> dict[str, date | datetime]:
    """Returns the values of `start` and `end` for a time range; empty without one."""
    if batch is None:
        return {}
    values = {"start": batch.start, "end": batch.end}
    is_hour = isinstance(model.kind, Incremental) and model.kind.interval == "hour"
    whole = all(value.time() == datetime.min.time() for value in values.values())
    return dict(values) if is_hour or not whole else {name: value.date() for name, value in values.items()}
