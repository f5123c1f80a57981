"""`lakeconf validate`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from lakeconf.cli.annotations import github, sarif
from lakeconf.cli.options import config_option
from lakeconf.cli.output import problem_data, problem_text, show, show_exactly, show_json, show_lines, style
from lakeconf.config.model import Config, read, validate
from lakeconf.config.model import untrusted as untrusted_config
from lakeconf.config.warnings import warnings
from lakeconf.errors import ConfigError, Problem


@click.command("validate", short_help="Check the configuration.")
@click.argument("stores", nargs=-1, metavar="[STORE]...")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    show_default=True,
    help="For a person, for a program, as annotations of GitHub Actions, or for code scanning.",
)
@click.option("--strict", is_flag=True, help="Warnings fail as well.")
@click.option("--untrusted", is_flag=True, help="Read no environment variable: for the file of a stranger.")
@click.option("--offline", is_flag=True, default=True, help="Connect to nothing; always so, `doctor` connects.")
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
    offline: bool,  # noqa: ARG001 - there is no other way
) -> None:
    """Check the configuration: each STORE, or all of them. Nothing is connected to.

    Every problem is shown at once, with its file, line and column, a code and a hint; missing variables are
    problems too. The exit code is 0 where all is right, 1 where something is wrong, 2 for a wrong call.
    Where nothing is wrong, warnings tell what is seldom meant. `lakeconf explain LC012` says more of a code.
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
    """The problems of a configuration; if it has none, its warnings."""
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
    from lakeconf.pipelines import pipeline_problems  # what is only checked for stores does not wait for it

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
