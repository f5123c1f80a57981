"""`lakeconf run`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Container, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import click

from lakeconf.cli.confirm import confirm, yes_option
from lakeconf.cli.options import Selection, models_options
from lakeconf.cli.output import counts_text, show, show_error, show_json, style
from lakeconf.cli.plan import show_plan, show_warnings
from lakeconf.config.model import Config, init
from lakeconf.counted import counted
from lakeconf.pipelines import ModelResult, Pipeline, View, declared_pipeline, opened, plan, run
from lakeconf.pipelines.lineage_target import URL_VARIABLE, event_target
from lakeconf.pipelines.openlineage import LineageEvents
from lakeconf.pipelines.plan import Step

_COLOURS = {"done": "green", "skipped": "bright_black", "failed": "red", "not run": "yellow"}


@click.command("run", short_help="Run the models of the pipeline.")
@models_options
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="Engine that runs the models.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of models that run at the same time, on DuckDB.",
)
@click.option(
    "--openlineage",
    "events",
    metavar="FILE|URL",
    envvar=URL_VARIABLE,
    show_envvar=True,
    help="Append OpenLineage events of the run to a file, one JSON object per line, or send them to a server.",
)
@click.option("--allow-drop-columns", is_flag=True, help="Drop columns that the models no longer have.")
@yes_option
@click.option("--dry-run", is_flag=True, help="Show the plan, as `lakeconf plan` does.")
@click.pass_context
def command(
    context: click.Context,
    models: Selection,
    store: str | None,
    since: datetime | None,
    until: datetime | None,
    redo_late: bool,  # noqa: FBT001 - click's flag
    rebuild: bool,  # noqa: FBT001 - click's flag
    engine: str,
    format_name: str,
    source: str | None,
    *,
    jobs: int,
    events: str | None,
    allow_drop_columns: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Run each MODEL, by default all models of [pipeline].

    `+name` adds the models that `name` reads, `name+` those that read it; `raw.*` and `tag:nightly` select several.
    Each model is one transaction and is skipped if its definition and inputs are unchanged. With --rebuild, the command
    shows a plan and asks before it replaces rows;
    without a terminal it needs --yes. Exit codes: 0 if no model failed, 1 if one failed, 2 for invalid arguments.
    """
    if jobs > 1 and engine == "spark":
        raise click.UsageError("--jobs needs --engine duckdb")
    config = init(source)
    pipeline = declared_pipeline(config)
    names = models.of(pipeline)
    with opened(config, pipeline, names, store, engine, read_only=dry_run) as (lake, others):
        asked: dict[str, Any] = {
            "since": since, "until": until, "rebuild": rebuild, "redo_late": redo_late, "others": others
        }  # fmt: skip
        if dry_run or (rebuild and not yes):
            _preview(plan(pipeline, lake, names, **asked), format_name, dry_run=dry_run, yes=yes)
            if dry_run:
                return
        asked |= {"allow_drop_columns": allow_drop_columns, "jobs": jobs}
        progress = partial(_show, views=_views(pipeline)) if format_name == "text" else lambda _: None
        with _events(config, pipeline, store, events) as lineage:
            calls = _calls(progress, lineage)
            results = run(pipeline, lake, names, **asked, **calls)
    _show_all(results, format_name)
    if lineage is not None and lineage.lost:
        show_warnings("OpenLineage", [f"events lost: {len(lineage.lost)}; {lineage.lost[0]}"])
    context.exit(1 if any(result.status == "failed" for result in results) else 0)


def _preview(steps: Sequence[Step], format_name: str, *, dry_run: bool, yes: bool) -> None:
    """Shows a plan, and asks before existing rows are replaced."""
    replaced = [step.model.table for step in steps if step.replaces]
    if dry_run or (replaced and format_name == "text"):
        show_plan(steps, format_name)
    if replaced and not dry_run:
        confirm(f"Replace the rows of {', '.join(replaced)}?", yes=yes)


def _events(
    config: Config, pipeline: Pipeline, store: str | None, target: str | None
) -> contextlib.AbstractContextManager[LineageEvents | None]:
    if not target:
        return contextlib.nullcontext()
    return LineageEvents(event_target(target, os.environ), pipeline, config.known(store), config.secrets)


def _calls(progress: Callable[[ModelResult], None], lineage: LineageEvents | None) -> dict[str, Any]:
    if lineage is None:
        return {"progress": progress}

    def ended(result: ModelResult) -> None:
        lineage.ended(result)
        progress(result)

    return {"progress": ended, "began": lineage.began}


def _show_all(results: Sequence[ModelResult], format_name: str) -> None:
    if format_name == "json":
        show_json([_data(result) for result in results])
        return
    show(counts_text([result.status for result in results], _COLOURS))


def _views(pipeline: Pipeline) -> set[str]:
    return {model.table for model in pipeline.models if isinstance(model.kind, View)}


def _show(result: ModelResult, views: Container[str]) -> None:
    # A view has no rows of its own.
    what = "created" if result.model in views else counted(result.rows, "row")
    rows = f", {what} in snapshot {result.snapshot_id}" if result.snapshot_id is not None else ""
    status = style(f"{result.status:<8}", fg=_COLOURS[result.status])
    show(f"{status} {result.model}: {result.reason}{rows}")
    if result.error is not None:
        show_error(result.error)
    show_warnings(result.model, result.warnings)


def _data(result: ModelResult) -> dict[str, Any]:
    return dataclasses.asdict(dataclasses.replace(result, error=None)) | {
        "error": None if result.error is None else result.error.message
    }
