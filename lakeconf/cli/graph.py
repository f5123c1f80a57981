"""`lakeconf graph`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from lakeconf.cli.options import Selection, config_option, selection_options
from lakeconf.cli.output import show, show_exactly, show_json, style
from lakeconf.config.model import init
from lakeconf.pipelines import Model, Pipeline, declared_pipeline
from lakeconf.pipelines.column_lineage import Lineage, SourceColumn, column_lineage
from lakeconf.pipelines.graph import graph_page, sources_text


@click.command("graph", short_help="Show which models read which tables.")
@selection_options
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "html", "json"]),
    default="text",
    show_default=True,
    help="Text, a page for a browser, or JSON.",
)
@click.option("--columns", is_flag=True, help="Also show from which columns each column of a SQL model comes.")
@config_option
def command(models: Selection, source: str | None, format_name: str, *, columns: bool) -> None:
    """Show each MODEL, by default all, with the tables that it reads. The command opens no store.

    \b
        lakeconf graph --format html > models.html
    """
    pipeline = declared_pipeline(init(source))
    chosen = [pipeline.by_table[table] for table in models.of(pipeline)]
    lineage = column_lineage(pipeline) if columns else None
    if format_name == "html":
        show_exactly(graph_page(pipeline, chosen, lineage))
    elif format_name == "json":
        show_json([_data(pipeline, model, lineage) for model in chosen])
    else:
        for model in chosen:
            _show(pipeline, model)
            if lineage is not None:
                _show_columns(lineage[model.table])


def _show_columns(lineage: Lineage | None) -> None:
    if lineage is None:
        show("  columns: unknown")
    for name, sources in (lineage or {}).items():
        show(f"  {name} ← {sources_text(sources)}")


def _show(pipeline: Pipeline, model: Model) -> None:
    tags = "".join(f" tag:{tag}" for tag in model.tags)
    show(f"{style(model.table, bold=True)} ({model.kind.name}){style(tags, fg='cyan') if tags else ''}")
    for table in dict.fromkeys(pipeline.inputs(model).values()):
        show(f"  reads {table}{'' if table in pipeline.by_table else ', which is not a model'}")


def _data(pipeline: Pipeline, model: Model, lineage: Mapping[str, Lineage | None] | None) -> dict[str, Any]:
    data = {
        "model": model.table,
        "kind": model.kind.name,
        "tags": list(model.tags),
        "inputs": list(dict.fromkeys(pipeline.inputs(model).values())),
        "checks": [name for name, _ in model.checks],
        "comment": model.comment,
    }
    if lineage is None:
        return data
    found = lineage[model.table]
    columns = None if found is None else {name: _sources(sources) for name, sources in found.items()}
    return {**data, "columns": columns}


def _sources(sources: Sequence[SourceColumn] | None) -> list[dict[str, str]] | None:
    return None if sources is None else [{"table": one.table, "column": one.column} for one in sources]
