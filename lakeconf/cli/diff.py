"""`lakeconf diff`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import click

from lakeconf.cli.completion import complete_stores, complete_tables
from lakeconf.cli.options import config_option, format_option
from lakeconf.cli.output import plain, show, show_json
from lakeconf.config.model import init
from lakeconf.inspection.diff import TableDiff, compare


@click.command("diff", short_help="Compare a table of two stores.")
@click.argument("one", shell_complete=complete_stores)
@click.argument("other", shell_complete=complete_stores)
@click.argument("table", shell_complete=complete_tables)
@click.option("--on", multiple=True, metavar="COLUMN", help="Key column; repeat for a key of several columns.")
@click.option(
    "--samples",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="Number of differing rows to show of each kind.",
)
@format_option
@config_option
@click.pass_context
def command(
    context: click.Context,
    one: str,
    other: str,
    table: str,
    on: tuple[str, ...],
    samples: int,
    format_name: str,
    source: str | None,
) -> None:
    """Compare TABLE in the stores ONE and OTHER: columns, missing rows and differing rows.

    Exit codes: 0 if the tables are equal, 1 if they differ, 2 for invalid arguments.
    """
    config = init(source)
    found = compare(config.get_store(one), config.get_store(other), table, on, samples=samples)
    if format_name == "json":
        data = plain(dataclasses.asdict(found))
        show_json({"equal": found.is_equal, "equal_rows": data.pop("equal"), **data})
    else:
        _show(found, on)
    context.exit(0 if found.is_equal else 1)


def _show(found: TableDiff, on: Sequence[str]) -> None:
    one, other = found.stores
    show(f"{found.table}: {one} has {found.rows[0]} rows, {other} {found.rows[1]}")
    for name, first, second in found.schema:
        show(f"  column {name}: {first or 'none'} in {one}, {second or 'none'} in {other}")
    show(f"  {found.equal} equal, {found.only[0]} in {one} only, {found.only[1]} in {other} only")
    for name, count in found.columns.items():
        if count:
            show(f"  {name} differs in {count} rows of the same {', '.join(on)}")
    for store, sample in zip(found.stores, found.samples, strict=True):
        _show_rows(f"rows in {store} only:", sample)
    _show_rows(f"rows that differ ([{one}, {other}]):", found.sample_changes)


def _show_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        show(f"  {title}")
        for row in rows:
            show("    " + ", ".join(f"{name}={_text(value)}" for name, value in row.items()))


def _text(value: Any) -> str:
    return f"[{', '.join(map(_text, value))}]" if isinstance(value, list) else str(value)
