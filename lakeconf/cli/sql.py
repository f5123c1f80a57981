"""`lakeconf sql`."""

from __future__ import annotations

import csv
import io
import json

import click

from lakeconf.cli.options import config_option
from lakeconf.cli.output import plain, show, show_json, show_table
from lakeconf.config.model import init
from lakeconf.query import query

_CELL = 60


@click.command("sql", short_help="Run a query on a lake.")
@click.argument("statement", metavar="QUERY")
@click.option("--store", help="The store; the default one unless given.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Columns for a person, or all of the rows for a program.",
)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Rows of a table at most.")
@config_option
def command(statement: str, store: str | None, source: str | None, format_name: str, limit: int) -> None:
    """Run a QUERY of DuckDB's SQL on the lake, which is attached for reading only.

    \b
        lakeconf sql "SELECT count(*) FROM raw.events AT (VERSION => 3)"
    """
    # One row more than is shown, to say that there are more.
    names, rows = query(init(source).get_store(store), statement, limit + 1 if format_name == "table" else None)
    if format_name == "json":
        show_json([dict(zip(names, map(plain, row), strict=True)) for row in rows])
    elif format_name == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([["" if value is None else _text(value) for value in row] for row in rows])
        show(text.getvalue().rstrip("\n"))
    else:
        show_table([names, *([_cell(value) for value in row] for row in rows[:limit])])
        if len(rows) > limit:
            show(f"and more: --limit shows more than {limit} rows", to_stderr=True)


def _text(value: object) -> str:
    found = plain(value)
    return json.dumps(found, ensure_ascii=False) if isinstance(found, dict | list) else str(found)


def _cell(value: object) -> str:
    text = "NULL" if value is None else _text(value).replace("\n", "\\n")
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"
