"""`lakeconf validate`."""

from __future__ import annotations

import click

from lakeconf.cli.options import config_option, format_option
from lakeconf.cli.output import problem_data, problem_text, show, show_json
from lakeconf.config.model import validate
from lakeconf.errors import ConfigError


@click.command("validate", short_help="Check the configuration.")
@click.argument("stores", nargs=-1, metavar="[STORE]...")
@format_option
@config_option
@click.pass_context
def command(context: click.Context, stores: tuple[str, ...], source: str | None, format_name: str) -> None:
    """Check the configuration: each STORE, or all of them. Nothing is connected to.

    Every problem is shown at once, with its file, line and column, a code and a hint; missing variables are
    problems too. The exit code is 0 where all is right, 1 where something is wrong, 2 for a wrong call.
    """
    try:
        problems = validate(source, *stores)
    except ConfigError as error:
        (problem,) = error.problems
        raise click.UsageError(f"{problem.message}; {problem.hint}") from error
    if format_name == "json":
        show_json({"valid": not problems, "problems": problem_data(problems)})
    else:
        show("\n".join([*map(problem_text, problems), _summary(len(problems))]))
    context.exit(1 if problems else 0)


def _summary(problems: int) -> str:
    if not problems:
        return click.style("no problem found", fg="green")
    return click.style(f"{problems} problem{'s' if problems > 1 else ''} found", fg="red", bold=True)
