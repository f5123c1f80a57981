"""Commands about pipelines: plan, run, test, graph; and load, which reads files as models do."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lakeconf.cli.options import (
    ChangeOptions,
    change_options,
    confirm,
    models_options,
    output_options,
    selection,
    store_option,
    types_option,
    yes_option,
)
from lakeconf.cli.output import counts_text, plain, show, show_error, show_json, show_lines, show_table, style
from lakeconf.config.config import Config, init
from lakeconf.engines.spark.start import spark_session
from lakeconf.errors import required
from lakeconf.pipelines import Model, ModelResult, Pipeline, View, declared_pipeline, plan, run
from lakeconf.pipelines.loading import load, planned_load
from lakeconf.pipelines.models.compared_rows import RowDifference
from lakeconf.pipelines.models.declared import empty_lake, opened_for_reading
from lakeconf.pipelines.models.unit_tests import UnitTestResult, chosen_tests, declared_unit_tests, run_unit_tests
from lakeconf.pipelines.pipeline import mermaid
from lakeconf.pipelines.plan import Step
from lakeconf.wording import counted
from lakeconf.write.ddl import type_sql

if TYPE_CHECKING:
    from lakeconf.lake.adoption.adoption import Verify
    from lakeconf.pipelines.openlineage import LineageEvents

# The exit code for pending changes.
PENDING = 3
_COLOURS = {"done": "green", "skipped": "bright_black", "failed": "red", "not run": "yellow"}
_TEST_COLOURS = {"passed": "green", "failed": "red", "error": "red"}
# Each row that differs is one line; a terminal shows no more at once.
_SHOWN = 20


@click.command("plan", short_help="Show what a run would do, and why.")
@models_options
@click.option("--exit-code", is_flag=True, help="Exit with 3 if `lakeconf run` would run a model.")
@click.pass_context
def plan_command(
    context: click.Context,
    models: tuple[str, ...],
    store: str | None,
    request: dict[str, Any],
    format_name: str,
    source: str | None,
    *,
    exit_code: bool,
) -> None:
    """Show what `lakeconf run` would do for each MODEL, by default all, and why. Nothing changes.

    With --exit-code, the exit code is 3 for pending changes.
    """
    config = init(source)
    pipeline = declared_pipeline(config)
    names = [model.table for model in pipeline.chosen(models)]
    with opened_for_reading(config.get_store(store)) as lake:
        steps = plan(pipeline, lake, names, **request)
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
        "ranges": [
            {"start": plain(batch.start), "end": plain(batch.end), "redone": batch.redone} for batch in step.batches
        ],
        "files": list(step.files),
        "columns": columns,
        "warnings": list(step.warnings),
    }


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
    "--openlineage", is_flag=True, help="Send OpenLineage events; OPENLINEAGE_URL or openlineage.yml say where."
)
@click.option("--allow-drop-columns", is_flag=True, help="Drop columns that the models no longer have.")
@yes_option
@click.pass_context
def run_command(
    context: click.Context,
    models: tuple[str, ...],
    store: str | None,
    request: dict[str, Any],
    engine: str,
    format_name: str,
    source: str | None,
    *,
    openlineage: bool,
    allow_drop_columns: bool,
    yes: bool,
) -> None:
    """Run each MODEL, by default all models of [pipeline].

    `+name` adds the models that `name` reads, `name+` those that read it; `raw.*` and `tag:nightly` select several.
    Each model is one transaction and is skipped if its definition and inputs are unchanged. With --rebuild, the command
    shows a plan and asks before it replaces rows; without a terminal it needs --yes. The exit code is 1 if a model
    failed.
    """
    config = init(source)
    pipeline = declared_pipeline(config)
    names = [model.table for model in pipeline.chosen(models)]
    chosen_store = config.get_store(store)
    with chosen_store.open(spark_session(chosen_store) if engine == "spark" else None) as lake:
        if request["rebuild"] and not yes:
            _preview(plan(pipeline, lake, names, **request), format_name)
        views = {model.table for model in pipeline.models if isinstance(model.kind, View)}
        progress = partial(_show_run, views=views) if format_name == "text" else lambda _: None
        with _events(config, pipeline, store, is_on=openlineage) as lineage:
            calls = _calls(progress, lineage)
            results = run(pipeline, lake, names, **request, allow_drop_columns=allow_drop_columns, **calls)
    if format_name == "json":
        show_json([_run_data(result) for result in results])
    else:
        show(counts_text([result.status for result in results], _COLOURS))
    if lineage is not None and lineage.lost:
        show_warnings("OpenLineage", [f"events lost: {len(lineage.lost)}; {lineage.lost[0]}"])
    context.exit(1 if any(result.status == "failed" for result in results) else 0)


def _preview(steps: Sequence[Step], format_name: str) -> None:
    """Shows a plan, and asks before existing rows are replaced."""
    replaced = [step.model.table for step in steps if step.replaces]
    if replaced:
        if format_name == "text":
            show_plan(steps, format_name)
        confirm(f"Replace the rows of {', '.join(replaced)}?", yes=False)


def _events(
    config: Config, pipeline: Pipeline, store: str | None, *, is_on: bool
) -> contextlib.AbstractContextManager[LineageEvents | None]:
    if not is_on:
        return contextlib.nullcontext()
    with required("openlineage", extra="openlineage", needed_for="--openlineage"):
        from lakeconf.pipelines.openlineage import LineageEvents
    return LineageEvents(pipeline, config.known(store), config.secrets)


def _calls(progress: Callable[[ModelResult], None], lineage: LineageEvents | None) -> dict[str, Any]:
    if lineage is None:
        return {"progress": progress}

    def ended(result: ModelResult) -> None:
        lineage.ended(result)
        progress(result)

    return {"progress": ended, "began": lineage.began}


def _show_run(result: ModelResult, views: Container[str]) -> None:
    # A view has no rows of its own.
    what = "created" if result.model in views else counted(result.rows, "row")
    rows = f", {what} in snapshot {result.snapshot_id}" if result.snapshot_id is not None else ""
    status = style(f"{result.status:<8}", fg=_COLOURS[result.status])
    show(f"{status} {result.model}: {result.reason}{rows}")
    if result.error is not None:
        show_error(result.error)
    show_warnings(result.model, result.warnings)


def _run_data(result: ModelResult) -> dict[str, Any]:
    return dataclasses.asdict(dataclasses.replace(result, error=None)) | {
        "error": None if result.error is None else result.error.message
    }


@click.command("test", short_help="Run the unit tests of the models.")
@click.argument("names", nargs=-1, metavar="[TEST|MODEL]...")
@output_options("text", "json")
@click.pass_context
def test_command(context: click.Context, names: tuple[str, ...], format_name: str, source: str | None) -> None:
    """Run unit tests, by default all of [pipeline.tests]: those of the names TEST, and those of each MODEL.

    A test gives rows for the inputs of a model and compares the rows that the model computes. It runs on a temporary
    lake and opens no store. `+name`, `name+`, `raw.*` and `tag:nightly` select models, as for `lakeconf run`. The exit
    code is 1 if a test fails.
    """
    config = init(source)
    pipeline = declared_pipeline(config)
    tests = chosen_tests(pipeline, declared_unit_tests(config), names)
    progress = _show_test if format_name == "text" else lambda _: None
    results = []
    if tests:
        with empty_lake("test", secrets=config.secrets) as lake:
            results = run_unit_tests(pipeline, tests, lake, progress)
    if format_name == "json":
        show_json([_test_data(result) for result in results])
    else:
        show(counts_text([result.status for result in results], _TEST_COLOURS) or "no tests")
    context.exit(0 if all(result.status == "passed" for result in results) else 1)


def _show_test(result: UnitTestResult) -> None:
    test, difference = result.test, result.difference
    why = f": {_reason(difference)}" if difference else ""
    show(f"{style(f'{result.status:<8}', fg=_TEST_COLOURS[result.status])} {test.name} ({test.declared.model}){why}")
    if difference:
        _show_rows(difference)
    if result.error is not None:
        show_error(result.error)
    if result.status != "passed" and test.place:
        show(f"  {style('test:', fg='cyan')} {test.place}")


def _reason(difference: RowDifference) -> str:
    parts = ((difference.missing, "missing"), (difference.unexpected, "unexpected"))
    return ", ".join(f"{counted(len(rows), 'row')} {word}" for rows, word in parts if rows)


def _show_rows(difference: RowDifference) -> None:
    """Prints expected rows with `-`, rows of the model with `+`; similar rows are next to each other."""
    rows = [("-", row) for row in difference.missing] + [("+", row) for row in difference.unexpected]
    rows.sort(key=lambda signed_row: [("" if value is None else value) for value in signed_row[1]])
    signs = [" ", *(sign for sign, _ in rows[:_SHOWN])]

    def drawn(number: int, line: str) -> str:
        return style(f"  {signs[number]} {line}", fg={"-": "red", "+": "green"}.get(signs[number]))

    cells = [["NULL" if cell is None else cell for cell in row] for _, row in rows[:_SHOWN]]
    show_table([difference.columns, *cells], drawn=drawn)
    if len(rows) > _SHOWN:
        show(f"    and {len(rows) - _SHOWN} more")


def _test_data(result: UnitTestResult) -> dict[str, Any]:
    def rows(rows_shown: Sequence[Sequence[str | None]]) -> list[dict[str, str | None]]:
        return [dict(zip(result.difference.columns, row, strict=True)) for row in rows_shown]

    return {
        "test": result.test.name,
        "model": result.test.declared.model,
        "status": result.status,
        "place": result.test.place,
        "missing": rows(result.difference.missing),
        "unexpected": rows(result.difference.unexpected),
        "error": None if result.error is None else result.error.message,
    }


@click.command("load", short_help="Load a file into a table.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("table")
@types_option("Type of a column")
@store_option
@change_options
def load_command(
    file: Path, table: str, types: Mapping[str, str], store: str | None, source: str | None, change: ChangeOptions
) -> None:
    """Append the rows of a CSV, JSON or Parquet FILE to TABLE, which is created if it is missing.

    The command first shows the types: those of the table, else those of --type, else those that DuckDB infers from the
    file. A value that its type would change is an error. If the same content was loaded into TABLE before, the command
    names the snapshot, and with --yes it appends the rows again; a model of the kind append loads each file once.

    \b
        lakeconf load prices.csv raw.prices --type "price=DECIMAL(10,2)"
    """
    for name, kind in types.items():
        type_sql(name, kind)
    chosen_store = init(source).get_store(store)
    with opened_for_reading(chosen_store) as lake:
        plan = planned_load(lake, file, table, types)
    if change.is_text:
        show_table(
            [("column", "type", "from"), *((name, *type_and_origin) for name, type_and_origin in plan.columns.items())]
        )
        show(f"{'create' if plan.schema is None else 'append to'} {table}: {counted(plan.count, 'row')}")

    def do() -> int:
        with chosen_store.open() as lake:
            return load(lake, file, table, plan)

    if plan.loaded_in is not None:
        show_warnings(table, [f"{file} was loaded in snapshot {plan.loaded_in}: its rows would be in the table twice"])
    data = {"table": table, "created": plan.schema is None, "rows": plan.count, "loaded_in": plan.loaded_in}
    data["columns"] = {name: kind for name, (kind, _) in plan.columns.items()}
    again = "" if plan.loaded_in is None else " again"
    question = f"Load {file} into {table} of {chosen_store.name}{again}?"
    snapshot_id = change.carry_out(question, do, lambda snapshot_id: data | {"snapshot_id": snapshot_id}, needed=True)
    if snapshot_id is not None and change.is_text:
        show(f"loaded in snapshot {snapshot_id}")


@click.command("adopt", short_help="Register existing files as a table, without a copy.")
@click.argument("path")
@click.option("--table", required=True, help="The table; it is created if it does not exist.")
@types_option("Type of a column of a new table")
@click.option(
    "--verify",
    type=click.Choice(["bounds", "full"]),
    default="bounds",
    show_default=True,
    help="Compare numbers of rows and NULLs, least and greatest values; or each row.",
)
@store_option
@change_options
def adopt_command(
    path: str,
    table: str,
    types: Mapping[str, str],
    verify: Verify,
    store: str | None,
    source: str | None,
    change: ChangeOptions,
) -> None:
    """Register the files of PATH as rows of a table, without copying them.

    PATH is a folder of Parquet files, a Delta table, or the metadata file of an Iceberg table. The command first shows
    its plan, and compares the rows before it commits. Run it again to add new files only.

    \b
        lakeconf adopt /data/events --table raw.events
    """
    for column, kind in types.items():
        type_sql(column, kind)
    chosen_store = init(source).get_store(store)
    with opened_for_reading(chosen_store) as lake:
        plan = lake.plan_adopt(path, table, types=types)
    if change.is_text:
        show_lines(str(plan))

    def do() -> int:
        with chosen_store.open() as lake:
            return lake.adopt(path, table, types=types, verify=verify)

    snapshot_id = change.carry_out(
        f"Adopt {counted(len(plan.files), 'file')} into {plan.table} of {chosen_store.name}?",
        do,
        lambda snapshot_id: dataclasses.asdict(plan) | {"snapshot_id": snapshot_id},
        needed=plan.is_needed,
    )
    if change.is_text and snapshot_id is not None:
        show(f"adopted in snapshot {snapshot_id}")


@click.command("graph", short_help="Show which models read which tables.")
@selection
@output_options("text", "mermaid", "json", meaning="Text, Mermaid for Markdown, or JSON.")
def graph_command(models: tuple[str, ...], source: str | None, format_name: str) -> None:
    """Show each MODEL, by default all, with the tables that it reads. The command opens no store.

    \b
        lakeconf graph --format mermaid > models.mmd
    """
    pipeline = declared_pipeline(init(source))
    chosen_store = pipeline.chosen(models)
    if format_name == "mermaid":
        show_lines(mermaid(pipeline, chosen_store))
    elif format_name == "json":
        show_json([_graph_data(pipeline, model) for model in chosen_store])
    else:
        for model in chosen_store:
            _show_graph(pipeline, model)


def _show_graph(pipeline: Pipeline, model: Model) -> None:
    tags = "".join(f" tag:{tag}" for tag in model.tags)
    show(f"{style(model.table, bold=True)} ({model.kind.name}){style(tags, fg='cyan') if tags else ''}")
    for table in dict.fromkeys(pipeline.inputs(model).values()):
        show(f"  reads {table}{'' if table in pipeline.by_table else ', which is not a model'}")


def _graph_data(pipeline: Pipeline, model: Model) -> dict[str, Any]:
    return {
        "model": model.table,
        "kind": model.kind.name,
        "tags": list(model.tags),
        "inputs": list(dict.fromkeys(pipeline.inputs(model).values())),
        "checks": [name for name, _ in model.checks],
        "comment": model.comment,
    }
