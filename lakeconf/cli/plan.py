"""`lakeconf plan`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from lakeconf.cli.options import Selection, models_options
from lakeconf.cli.output import plain, show, show_json, show_table, style
from lakeconf.config.model import init
from lakeconf.pipelines import declared_pipeline, opened, plan
from lakeconf.pipelines.plan import Step

# The exit code for pending changes.
PENDING = 3


@click.command("plan", short_help="Show what a run would do, and why.")
@models_options
@click.option("--exit-code", is_flag=True, help="Exit with 3 if `lakeconf run` would run a model.")
@click.pass_context
def command(
    context: click.Context,
    models: Selection,
    store: str | None,
    since: datetime | None,
    until: datetime | None,
    redo_late: bool,  # noqa: FBT001 - click's flag
    rebuild: bool,  # noqa: FBT001 - click's flag
    format_name: str,
    source: str | None,
    *,
    exit_code: bool,
) -> None:
    """Show what `lakeconf run` would do for each MODEL, by default all, and why. Nothing changes.

    Exit codes: 0; 1 if the plan cannot be made, 2 for invalid arguments, and with --exit-code 3 for pending changes.
    """
    config = init(source)
    pipeline = declared_pipeline(config)
    names = models.of(pipeline)
    with opened(config, pipeline, names, store, "duckdb", read_only=True) as (lake, others):
        steps = plan(
            pipeline, lake, names, since=since, until=until, rebuild=rebuild, redo_late=redo_late, others=others
        )
    show_plan(steps, format_name)
    context.exit(PENDING if exit_code and any(step.runs for step in steps) else 0)


def show_plan(steps: Sequence[Step], format_name: str) -> None:
    """Prints a plan."""
    if format_name == "json":
        show_json([_data(step) for step in steps])
        return
    show_table([("run" if step.runs else "skip", step.model.table, step.model.kind.name, _why(step)) for step in steps])
    for step in steps:
        show_warnings(step.model.table, step.warnings)


def show_warnings(table: str, warnings: Sequence[str]) -> None:
    """Prints the warnings of a model's plan or run to stderr."""
    for warning in warnings:
        show(f"{style('warning:', fg='yellow', bold=True)} {table}: {warning}", to_stderr=True)


def _why(step: Step) -> str:
    refused = {name.lower() for name in step.columns.dropped} - {name.lower() for name in step.model.dropped}
    consent = " (needs --allow-drop-columns)" if refused else ""
    return f"{step.reason}; {step.columns}{consent}" if step.columns else step.reason


def _data(step: Step) -> dict[str, Any]:
    columns = plain(dataclasses.asdict(step.columns))
    return {
        "model": step.model.table,
        "kind": step.model.kind.name,
        "tags": list(step.model.tags),
        "runs": step.runs,
        "reason": step.reason,
        "rebuild": step.rebuild,
        "replaces": step.replaces,
        "ranges": [{"start": plain(one.start), "end": plain(one.end), "redone": one.redone} for one in step.batches],
        "files": list(step.files),
        "columns": columns,
        "warnings": list(step.warnings),
    }
