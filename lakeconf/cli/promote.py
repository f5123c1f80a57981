"""`lakeconf promote`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from lakeconf.cli.completion import complete_stores
from lakeconf.cli.confirm import confirm, yes_option
from lakeconf.cli.options import config_option, dry_run_option, format_option
from lakeconf.cli.output import plain, show, show_json, show_table
from lakeconf.config.model import init
from lakeconf.errors import PipelineError
from lakeconf.pipelines import Promotion, PromotionPlan, declared_pipeline, plan_promotion, promote
from lakeconf.pipelines.declared import opened_for_reading
from lakeconf.store import Store


@click.command("promote", short_help="Copy models' tables from one store to another.")
@click.argument("source_store", metavar="FROM", shell_complete=complete_stores)
@click.argument("target_store", metavar="TO", shell_complete=complete_stores)
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option("--allow-row-loss", is_flag=True, help="Delete rows that only TO has.")
@click.option("--allow-drop-columns", is_flag=True, help="Drop columns that only TO has.")
@dry_run_option
@yes_option
@format_option
@config_option
def command(
    source_store: str,
    target_store: str,
    models: tuple[str, ...],
    format_name: str,
    source: str | None,
    *,
    allow_row_loss: bool,
    allow_drop_columns: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Copy the tables of each MODEL, by default all, from the store FROM to the store TO without recomputing them.

    The command first shows its plan: rows and columns that each table of TO gains and loses. It skips equal tables and
    copies the others in one snapshot of TO. A later `lakeconf run` on TO skips the models that were copied.
    """
    config = init(source)
    pipeline = declared_pipeline(config)
    one, other = config.get_store(source_store), config.get_store(target_store)
    _check_distinct(one, other)
    with one.open(read_only=True) as lake:
        with ExitStack() as stack:  # the plan creates no lake in the target
            plan = plan_promotion(pipeline, lake, opened_for_reading(other, stack), models)
        if format_name == "text":
            _show_plan(plan)
        made: dict[str, int] = {}
        try:
            plan.check_losses(allow_row_loss=allow_row_loss, allow_drop_columns=allow_drop_columns)
            if plan.changes and not dry_run:
                confirm(f"Write {', '.join(step.model.table for step in plan.changes)} to {target_store}?", yes=yes)
                consent = {"allow_row_loss": allow_row_loss, "allow_drop_columns": allow_drop_columns}
                with other.open() as target:
                    made = promote(pipeline, lake, target, models, planned=plan, **consent)
        finally:
            if format_name == "json":
                show_json([_data(step, made) for step in plan.steps])
    for table, snapshot_id in made.items() if format_name == "text" else ():
        show(f"{table}: snapshot {snapshot_id} of {target_store}")


def _check_distinct(one: Store, other: Store) -> None:
    """Rejects two stores with the same catalog before opening them: DuckDB opens a file only once."""
    files = [store.metadata_backend.file() for store in (one, other)]
    if one.name == other.name or (files[0] is not None and files[1] is not None and _same(files[0], files[1])):
        raise PipelineError(
            f"{one.name} and {other.name} are the same lake",
            hint="name two stores with different catalogs",
        )


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def _show_plan(plan: PromotionPlan) -> None:
    if plan.steps:
        show_table([(step.action, step.model.table, step.reason) for step in plan.steps])
    if not plan.changes:
        show("nothing to promote")


def _data(step: Promotion, made: Mapping[str, int]) -> dict[str, Any]:
    return {
        "table": step.model.table,
        "action": step.action,
        "reason": step.reason,
        "rows": dataclasses.asdict(step.rows),
        "columns": plain(dataclasses.asdict(step.columns)),
        "snapshot_id": made.get(step.model.table),
    }
