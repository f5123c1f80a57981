"""`lakeconf test`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import click

from lakeconf.cli.options import config_option, format_option
from lakeconf.cli.output import counts_text, show, show_error, show_json, show_table, style
from lakeconf.config.model import init
from lakeconf.pipelines import declared_pipeline
from lakeconf.pipelines.declared_tests import declared_unit_tests
from lakeconf.pipelines.empty_lake import empty_lake
from lakeconf.pipelines.row_comparison import RowDifference
from lakeconf.pipelines.unit_tests import UnitTestResult, chosen_tests, run_unit_tests

_COLOURS = {"passed": "green", "failed": "red", "error": "red"}
# Each row that differs is one line; a terminal shows no more at once.
_SHOWN = 20


@click.command("test", short_help="Run the unit tests of the models.")
@click.argument("names", nargs=-1, metavar="[TEST|MODEL]...")
@click.option("--select", multiple=True, metavar="TEST|MODEL", help="The same as TEST or MODEL; may be repeated.")
@click.option("--exclude", multiple=True, metavar="TEST|MODEL", help="Leave out tests; may be repeated.")
@format_option
@config_option
@click.pass_context
def command(
    context: click.Context,
    names: tuple[str, ...],
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    format_name: str,
    source: str | None,
) -> None:
    """Run unit tests, by default all of [pipeline.tests]: those of the names TEST, and those of each MODEL.

    A test gives rows for the inputs of a model and compares the rows that the model computes. It runs on a temporary
    lake: no store is opened. `+name`, `name+`, `raw.*` and `tag:nightly` select models, as for `lakeconf run`. Exit
    codes: 0 if all tests pass, 1 if one does not, 2 for invalid arguments.
    """
    config = init(source)
    pipeline = declared_pipeline(config)
    tests = chosen_tests(pipeline, declared_unit_tests(config), [*names, *select], exclude)
    with contextlib.ExitStack() as stack:
        progress = _show if format_name == "text" else lambda _: None
        results = []
        if tests:
            lake = empty_lake(stack, "test", secrets=config.secrets)
            results = run_unit_tests(pipeline, tests, lake, progress)
    if format_name == "json":
        show_json([_data(result) for result in results])
    else:
        show(counts_text([result.status for result in results], _COLOURS) or "no tests")
    context.exit(0 if all(result.status == "passed" for result in results) else 1)


def _show(result: UnitTestResult) -> None:
    test, difference = result.test, result.difference
    why = f": {_reason(difference)}" if difference else ""
    show(f"{style(f'{result.status:<8}', fg=_COLOURS[result.status])} {test.name} ({test.declared.model}){why}")
    if difference:
        _show_rows(difference)
    if result.error is not None:
        show_error(result.error)
    if result.status != "passed" and test.place:
        show(f"  {style('test:', fg='cyan')} {test.place}")


def _reason(difference: RowDifference) -> str:
    if difference.wrong_order:
        return "the rows have another order"
    parts = ((difference.missing, "missing"), (difference.unexpected, "unexpected"))
    return ", ".join(f"{len(rows)} {'row' if len(rows) == 1 else 'rows'} {word}" for rows, word in parts if rows)


def _show_rows(difference: RowDifference) -> None:
    """Prints expected rows with `-`, rows of the model with `+`; similar rows are next to each other."""
    rows = [("-", row) for row in difference.missing] + [("+", row) for row in difference.unexpected]
    if not difference.wrong_order:
        rows.sort(key=lambda one: [("" if value is None else value) for value in one[1]])
    signs = [" ", *(sign for sign, _ in rows[:_SHOWN])]

    def drawn(number: int, line: str) -> str:
        return style(f"  {signs[number]} {line}", fg={"-": "red", "+": "green"}.get(signs[number]))

    show_table([difference.columns, *(list(map(_cell, row)) for _, row in rows[:_SHOWN])], margin=4, drawn=drawn)
    if len(rows) > _SHOWN:
        show(f"    and {len(rows) - _SHOWN} more")


def _cell(value: str | None) -> str:
    return "NULL" if value is None else value


def _data(result: UnitTestResult) -> dict[str, Any]:
    def rows(found: Sequence[Sequence[str | None]]) -> list[dict[str, str | None]]:
        return [dict(zip(result.difference.columns, row, strict=True)) for row in found]

    return {
        "test": result.test.name,
        "model": result.test.declared.model,
        "status": result.status,
        "place": result.test.place,
        "missing": rows(result.difference.missing),
        "unexpected": rows(result.difference.unexpected),
        "wrong_order": result.difference.wrong_order,
        "error": None if result.error is None else result.error.message,
    }
