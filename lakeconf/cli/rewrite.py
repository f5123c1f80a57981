"""`lakeconf rewrite`."""

from __future__ import annotations

import csv
import dataclasses
from datetime import timedelta

import click

from lakeconf.cli.completion import complete_tables
from lakeconf.cli.confirm import confirm, yes_option
from lakeconf.cli.options import config_option, default_store_option, dry_run_option, format_option, limit_options
from lakeconf.cli.output import show, show_json, show_lines
from lakeconf.config.model import init
from lakeconf.lake.sorting import SortResult


@click.command("rewrite", short_help="Write the files of a table again, in an order.")
@click.argument("table", shell_complete=complete_tables)
@click.option(
    "--sorted-by",
    help="Columns, separated by commas; each may be followed by ASC or DESC, and by NULLS FIRST or NULLS LAST; "
    "default: the table's order.",
)
@default_store_option
@limit_options
@dry_run_option
@yes_option
@format_option
@config_option
def command(
    table: str,
    sorted_by: str | None,
    store: str | None,
    deadline: timedelta | None,
    memory_limit: str | None,
    source: str | None,
    format_name: str,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Write the files of TABLE again, with their rows in an order, so that queries skip more files.

    The command first shows its plan. Rows keep their ids, and neither older snapshots nor the change feed change. Each
    partition is one commit; if the deadline ends the rewrite early, the next one continues.

    \b
        lakeconf rewrite raw.events --sorted-by "day, user DESC"
    """
    keys = None if sorted_by is None else next(csv.reader([sorted_by], skipinitialspace=True), [])
    found = init(source).get_store(store)
    with found.for_reading(read_only=dry_run).open() as lake:
        handle = lake.table(table)
        plan = handle.plan_rewrite(keys)
        if format_name == "text":
            show_lines(str(plan))
        done: SortResult | None = None
        try:
            if plan.changes and not dry_run:
                confirm(f"Carry this out on {found.name}?", yes=yes)
                done = handle.rewrite(keys, deadline=deadline, memory_limit=memory_limit)
        finally:
            if format_name == "json":
                result = None if done is None else dataclasses.asdict(done)
                show_json(dataclasses.asdict(plan) | {"result": result})
    if done is not None and format_name == "text":
        show(f"done: {done.files_before:,} files became {done.files_after:,}")
        if not done.complete:
            show("the deadline ended it early: the next rewrite continues")
