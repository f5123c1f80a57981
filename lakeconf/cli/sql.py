"""`lakeconf sql`."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import click

from lakeconf.cli.options import config_option, default_store_option
from lakeconf.cli.output import plain, show, show_exactly, show_json, show_lines, show_table
from lakeconf.config.file import MAX_BYTES
from lakeconf.config.model import init
from lakeconf.errors import QueryError
from lakeconf.inspection.read_only_sql import query

_CELL = 60
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@click.command("sql", short_help="Run a query on a lake.")
@click.argument("statement", metavar="[QUERY]", required=False)
@click.option(
    "-f", "--file", "path", type=click.Path(path_type=Path), help="Read the query from a file; - is the standard input."
)
@default_store_option
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Aligned table, or all rows as CSV or JSON.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum number of rows in a table."
)
@click.option(
    "--allow-files", is_flag=True, help="Allow the query to read files and URLs; views of the lake still cannot."
)
@config_option
def command(
    statement: str | None,
    path: Path | None,
    store: str | None,
    source: str | None,
    format_name: str,
    limit: int,
    *,
    allow_files: bool,
) -> None:
    """Run QUERY, in DuckDB's SQL dialect, on the lake, attached read-only.

    Without QUERY and --file, the command reads the query from the standard input. For a prompt, use
    the DuckDB CLI with the output of `lakeconf preview-sql --portable`.

    \b
        lakeconf sql "SELECT count(*) FROM raw.events AT (VERSION => 3)"
        lakeconf sql -f report.sql --format csv
    """
    found = init(source).get_store(store)

    # Fetch one extra row to detect that there are more.
    fetched = limit + 1 if format_name == "table" else None
    _show(*query(found, _query_text(statement, path), fetched, allow_files=allow_files), format_name, limit)


def _show(names: Sequence[str], rows: Sequence[tuple[object, ...]], format_name: str, limit: int) -> None:
    if format_name == "json":
        _check_keys(names)
        show_json([dict(zip(names, map(plain, row), strict=True)) for row in rows])
    elif format_name == "csv":
        _show_csv([names, *(["" if value is None else _text(value) for value in row] for row in rows)])
    else:
        numbers = [number for number, column in enumerate(zip(*rows, strict=True)) if _are_numbers(column)]
        show_table([names, *([_cell(value) for value in row] for row in rows[:limit])], numbers)
        if len(rows) > limit:
            show(f"only the first {limit} rows are shown; use --limit to show more", to_stderr=True)


def _query_text(statement: str | None, path: Path | None) -> str:
    """The query of the command line, a file, or the standard input."""
    if statement is not None and path is not None:
        raise click.UsageError("pass either QUERY or --file")
    if statement is not None and statement != "-":
        return statement
    if path is None or str(path) == "-":
        if path is None and statement is None and sys.stdin.isatty():
            raise click.UsageError("pass a QUERY, or --file")
        data, name = sys.stdin.buffer.read(MAX_BYTES + 1), "the standard input"
    else:
        data, name = _content(path), str(path)
    if len(data) > MAX_BYTES:
        raise click.UsageError(f"{name} is larger than 1 MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{name} is not UTF-8") from None


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror}") from error


def _show_csv(rows: Sequence[Sequence[str]]) -> None:
    text = io.StringIO()
    minimal, quoted = (csv.writer(text, lineterminator="\n", quoting=how) for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    for row in rows:
        # GitHub executes a log line that begins with two colons as a command.
        (quoted if row[0].lstrip().startswith("::") else minimal).writerow(row)
    if sys.stdout.isatty():
        show_lines(text.getvalue().rstrip("\n"))
    else:
        show_exactly(text.getvalue().rstrip("\n"))
    count = sum(cell[:1] in _FORMULA and not _is_number(cell) for row in rows for cell in row if cell)
    if count:
        start = f"{count} value{'s' if count > 1 else ''} that spreadsheets evaluate as formulas"
        show(f"warning: the output contains {start} (starting with =, +, - or @); import as text", to_stderr=True)


def _check_keys(names: Sequence[str]) -> None:
    """Refuses columns of the same name: an object of JSON would keep only the last one."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise QueryError(
            f"the result has several columns named {twice!r}, and a row in JSON can have only one",
            hint="name each column with AS, or use --format csv",
        )


def _are_numbers(column: Sequence[object]) -> bool:
    return all(value is None or type(value) in (int, float, Decimal) for value in column)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _text(value: object) -> str:
    if isinstance(value, float):
        return str(value)
    found = plain(value)
    return json.dumps(found, ensure_ascii=False) if isinstance(found, dict | list) else str(found)


def _cell(value: object) -> str:
    text = "NULL" if value is None else _text(value).replace("\n", "\\n")
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"
