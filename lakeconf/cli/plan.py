"""`lakeconf plan`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from lakeconf.cli.options import models_options
from lakeconf.cli.output import show_json, show_table
from lakeconf.config.model import init
from lakeconf.pipelines import declared_pipeline, opened, plan
from lakeconf.pipelines.plan import Step


@click.command("plan", short_help="Say what a run would do, and why.")
@models_options
def command(
    models: tuple[str, ...],
    store: str | None,
    since: datetime | None,
    until: datetime | None,
    rebuild: bool,  # noqa: FBT001 - click's flag
    format_name: str,
    source: str | None,
) -> None:
    """Say what `lakeconf run` would do for each MODEL, or for all, and why; nothing is changed."""
    config = init(source)
    pipeline = declared_pipeline(config)
    with opened(config, pipeline, models, store, "duckdb") as (lake, others):
        steps = plan(pipeline, lake, models, since=since, until=until, rebuild=rebuild, others=others)
    show_plan(steps, format_name)


def show_plan(steps: Sequence[Step], format_name: str) -> None:
    """Shows what a run would do."""
    if format_name == "json":
        show_json([{"model": step.model.table, "runs": step.runs, "reason": step.reason} for step in steps])
    else:
        show_table(
            [("run" if step.runs else "skip", step.model.table, step.model.kind.name, step.reason) for step in steps]
        )
