"""`lakeconf doctor`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

import click

from lakeconf.cli.confirm import confirm, yes_option
from lakeconf.cli.options import config_option, format_option, store_option
from lakeconf.cli.output import show, show_json, style
from lakeconf.config.model import init
from lakeconf.errors import CatalogMovedError
from lakeconf.inspection.doctor import FAILED, WARNING, Step, diagnose, repair_marker

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red"), "skipped": ("-", "bright_black")}


@click.command("doctor", short_help="Diagnose a store step by step.")
@store_option
@click.option(
    "--repair", is_flag=True, help="Create a missing marker below the data path, or record that the catalog was moved."
)
@yes_option
@click.option("--json", "as_json", is_flag=True, hidden=True)  # before there was --format
@format_option
@config_option
@click.pass_context
def command(
    context: click.Context,
    store: str | None,
    source: str | None,
    format_name: str,
    *,
    as_json: bool,
    repair: bool,
    yes: bool,
) -> None:
    """Check STORE step by step: extensions, secrets, catalog, version, data path, clock and Spark settings.

    The command writes, reads and removes a small file below the data path. It changes nothing else without --repair.
    Exit codes: 0 if no step failed, 1 if a step failed, 2 for invalid arguments.
    """
    found = init(source).get_store(store)
    if repair:
        repair_marker(found, partial(_confirm_move, yes=yes))
    steps = diagnose(found)
    healthy = not any(step.status == FAILED for step in steps)
    if as_json or format_name == "json":
        show_json({"store": found.name, "ok": healthy, "steps": [dataclasses.asdict(step) for step in steps]})
    else:
        for step in steps:
            _show(step)
        show(_verdict(found.name, steps))
    context.exit(0 if healthy else 1)


def _confirm_move(error: CatalogMovedError, *, yes: bool) -> None:
    show(error.message, to_stderr=True)
    confirm("This catalog was moved or copied. Is it the only one that still uses this data path?", yes=yes)


def _verdict(store: str, steps: Sequence[Step]) -> str:
    failed = [step.name for step in steps if step.status == FAILED]
    warned = [step.name for step in steps if step.status == WARNING]
    if failed:
        return style(f"{store} does not work: {', '.join(failed)} failed", fg="red", bold=True)
    if warned:
        return style(f"{store} works; look at the warnings: {', '.join(warned)}", fg="yellow")
    return style(f"{store} works", fg="green")


def _show(step: Step) -> None:
    mark, colour = _MARKS[step.status]
    # A line break would be escaped.
    found = " ".join(filter(None, map(str.strip, step.found.splitlines())))
    show(f"{style(mark, fg=colour)} {step.name:<18}  {found}")
    if step.hint:
        show(f"  {'':<18}  {style('hint:', fg='cyan')} {step.hint}")
