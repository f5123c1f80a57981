"""Reads the inputs of a model and computes its rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import narwhals as nw

from lakeconf.catalog.health import merged_update
from lakeconf.errors import LakeconfError, PipelineError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.file_rows import Files, files_of, read_files
from lakeconf.pipelines.intervals import Batch
from lakeconf.pipelines.models.kinds import Append, Incremental, Seed, View
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import Step, located

_FEED = ("snapshot_id", "rowid", "change_type")


def rows_of(
    pipeline: Pipeline, step: Step, lakes: Mapping[str, Lake], batch: Batch | None, files: Files | None = None
) -> nw.LazyFrame[Any]:
    """Returns the rows of a step as a lazy frame of the lake's engine."""
    model, lake = step.model, lakes[""]
    loaded = files_of(model, step.files) if files is None else files
    if loaded is not None and isinstance(model.kind, Seed):
        return read_files(loaded, lake)
    frames = {name: _input(pipeline, step, name, lakes) for name in pipeline.inputs(model)}
    if loaded is not None:
        rows = read_files(loaded, lake)
        if model.body is None:
            return rows
        arguments = model.body.arguments()
        if not arguments:
            raise PipelineError(
                f"the model {model.table} does not read its files", hint="read them: SELECT … FROM files"
            )
        frames = {arguments[0]: rows, **frames}
    return computed(model, lake, frames, placeholder_values(model, batch))


def _input(pipeline: Pipeline, step: Step, name: str, lakes: Mapping[str, Lake]) -> nw.LazyFrame[Any]:
    table = pipeline.inputs(step.model)[name]
    below = pipeline.by_table.get(table)
    if below is not None and isinstance(below.kind, View):
        inputs = {
            one: _input(pipeline, Step(below, "", delta=step.delta), one, lakes) for one in pipeline.inputs(below)
        }
        return adopted(lakes[""], computed(below, lakes[""], inputs, {}))
    lake, local = located(table, lakes)
    if table in step.delta:
        rows = lake.table(local).changes(step.delta[table] + 1).drop(*_FEED)
    else:
        rows = _stored(step, name, lake, local)
    if lake is lakes[""]:
        return rows
    # DuckDB can only join frames of the same connection.
    return adopted(lakes[""], rows)


def adopted(lake: Lake, rows: Any) -> nw.LazyFrame[Any]:
    """Returns rows as a lazy frame that joins with those of a lake's engine."""
    found: nw.LazyFrame[Any] = nw.from_native(lake._session.engine.joinable(rows))  # noqa: SLF001 - not for users
    return found


def _stored(step: Step, name: str, lake: Lake, local: str) -> nw.LazyFrame[Any]:
    if name != step.model.driving_input:
        return lake.table(local).scan()
    if step.since is None:
        rows = lake.table(local).scan()
        if isinstance(step.model.kind, Append):
            return rows
        added = (nw.lit(lake.snapshot_id), nw.lit(None, nw.Int64()), nw.lit("insert"))
        return rows.with_columns(*(value.alias(column) for value, column in zip(added, _FEED, strict=True)))
    changes = lake.table(local).changes(step.since[name] + 1)
    if isinstance(step.model.kind, Append):
        _check_updates(step, name, lake, local, step.since[name])
        return changes.filter(nw.col("change_type") == "insert").drop(*_FEED)
    return changes


def _check_updates(step: Step, name: str, lake: Lake, local: str, since: int) -> None:
    """Refuses changes in which updated rows look like new ones, because a merge of files gave them new row ids."""
    found = merged_update(lake._session.reader, local, since, lake.snapshot_id)  # noqa: SLF001 - not for users
    if found is None:
        return
    update, merge = found
    raise PipelineError(
        f"the new rows of {name} cannot be told from updated ones: snapshot {update} inserted and deleted rows, and "
        f"snapshot {merge} merged their files, which gives updated rows new ids",
        hint=f"replace all rows: lakeconf run {step.model.table} --rebuild; later, run it before lakeconf maintain",
    )


def computed(
    model: Model, lake: Lake, frames: Mapping[str, Any], bounds: Mapping[str, date | datetime]
) -> nw.LazyFrame[Any]:
    """Returns the rows that a model computes from its inputs."""
    if model.body is None:
        raise PipelineError(
            f"the model {model.table} has neither code nor files", hint="add sql or files, or declare it in Python"
        )
    try:
        made = model.body.rows(lake, frames, bounds)
    except LakeconfError:
        raise
    except Exception as error:
        place = model.body.place(error)
        at = "" if place is None else f"{place}: "
        raise PipelineError(f"{at}the model {model.table} failed: {type(error).__name__}: {error}") from error
    found: nw.LazyFrame[Any] = made.lazy() if isinstance(made, nw.DataFrame) else made
    return found


def placeholder_values(model: Model, batch: Batch | None) -> dict[str, date | datetime]:
    """Returns the values of `start` and `end` for a time range; empty without one."""
    if batch is None:
        return {}
    values = {"start": batch.start, "end": batch.end}
    is_hour = isinstance(model.kind, Incremental) and model.kind.interval == "hour"
    whole = all(value.time() == datetime.min.time() for value in values.values())
    return dict(values) if is_hour or not whole else {name: value.date() for name, value in values.items()}
