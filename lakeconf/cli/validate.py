"""`lakeconf validate`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from lakeconf.cli.annotations import github, sarif
from lakeconf.cli.completion import complete_stores
from lakeconf.cli.options import config_option
from lakeconf.cli.output import problem_data, problem_text, show, show_exactly, show_json, show_lines, style
from lakeconf.config.model import Config, read, validate
from lakeconf.config.model import untrusted as untrusted_config
from lakeconf.config.warnings import warnings
from lakeconf.errors import ConfigError, Problem


@click.command("validate", short_help="Check the configuration.")
@click.argument("stores", nargs=-1, metavar="[STORE]...", shell_complete=complete_stores)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    show_default=True,
    help="Output format; github writes annotations, sarif is for code scanning.",
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--untrusted", is_flag=True, help="Do not read environment variables; for files from untrusted sources.")
@click.option("--offline", is_flag=True, default=True, help="No effect: validate never connects.")
@config_option
@click.pass_context
def command(
    context: click.Context,
    stores: tuple[str, ...],
    source: str | None,
    format_name: str,
    *,
    strict: bool,
    untrusted: bool,
    offline: bool,  # noqa: ARG001 - always offline
) -> None:
    """Check the configuration of each STORE, by default all, without connecting.

    Each problem is reported with file, line, column, code and hint. Missing variables are problems. If there are no
    problems, warnings report settings that are probably unintended. `lakeconf explain LC012` explains a code. Exit
    codes: 0 if the configuration is valid, 1 if it is not, 2 for invalid arguments.
    """
    problems, suspicious = _found(source, stores, untrusted=untrusted)
    if format_name == "json":
        show_json({"valid": not problems, "problems": problem_data(problems), "warnings": problem_data(suspicious)})
    elif format_name == "sarif":
        show_json(sarif(problems, suspicious))
    elif format_name == "github":
        for line in (*github(problems, "error"), *github(suspicious, "warning")):
            show_exactly(line)
    else:
        _show(problems, suspicious, strict=strict)
    context.exit(1 if problems or (strict and suspicious) else 0)


def _found(
    source: str | None, stores: Sequence[str], *, untrusted: bool
) -> tuple[Sequence[Problem], Sequence[Problem]]:
    """Returns the problems of a configuration, and its warnings if it has no problems."""
    try:
        config = untrusted_config(source) if untrusted else read(source)
    except ConfigError as error:
        return error.problems, ()
    try:
        problems = validate(config, *stores) or _of_pipeline(config)
    except ConfigError as error:
        (problem,) = error.problems
        raise click.UsageError(f"{problem.message}; {problem.hint}") from error
    return problems, () if problems else warnings(config, *stores)


def _of_pipeline(config: Config) -> Sequence[Problem]:
    if not config.pipeline:
        return []
    from lakeconf.pipelines import pipeline_problems  # slow to import, and only needed with a pipeline

    return pipeline_problems(config)


def _show(problems: Sequence[Problem], suspicious: Sequence[Problem], *, strict: bool) -> None:
    for problem in problems:
        show_lines(problem_text(problem))
    for problem in suspicious:
        show_lines(f"{style('warning:', fg='yellow')} {problem_text(problem)}")
    if suspicious:
        show(style(_count(suspicious, "warning"), fg="yellow"))
    if problems:
        show(style(_count(problems, "problem"), fg="red", bold=True))
    elif suspicious and strict:
        show(style("warnings fail with --strict", fg="red", bold=True))
    else:
        show(style("no problem found", fg="green"))


def _count(found: Sequence[Problem], word: str) -> str:
    return f"{len(found)} {word}{'s' if len(found) > 1 else ''} found"
