"""Options that several commands share, completion, and the prompt before a change."""

from __future__ import annotations

import functools
import math
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Any

import click

from lakeconf.arguments import LONGEST_DAYS
from lakeconf.cli.output import safe_line, show, show_error
from lakeconf.config.config import init
from lakeconf.config.environment import env_variables
from lakeconf.errors import LakeconfError
from lakeconf.logs import escaped

if TYPE_CHECKING:
    from lakeconf.pipelines import Pipeline


_CONFIG = "Configuration file, or its folder; by default lakeconf looks in this folder and its parents."
_ENV = "Set the variables of a .env file, unless they are set."
_SOURCE = "lakeconf.source"


def _configuration(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Remembers `--config` before the name of the command for the command."""
    if value is not None:
        context.meta[_SOURCE] = value
    given: str | None = context.meta.get(_SOURCE)
    return given


def _variables(context: click.Context, _: click.Parameter, value: str | None) -> None:
    """Sets the variables of a `.env` file until the command line ends; those of the process take precedence."""
    if value is not None:
        added = {name: text for name, text in env_variables(value).items() if name not in os.environ}
        os.environ.update(added)
        context.find_root().call_on_close(lambda: [os.environ.pop(name, None) for name in added])


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--config`, which the command receives as `source`, and `--env-file`."""
    for option in (
        click.option("--env-file", metavar="PATH", expose_value=False, callback=_variables, is_eager=True, help=_ENV),
        click.option("--config", "source", metavar="PATH", callback=_configuration, help=_CONFIG),
    ):
        command = option(command)
    return command


def shared_options() -> list[click.Parameter]:
    """The options `--config` and `--env-file` before the name of a command."""
    return [
        click.Option(["--config"], metavar="PATH", expose_value=False, callback=_configuration, help=_CONFIG),
        click.Option(["--env-file"], metavar="PATH", expose_value=False, callback=_variables, is_eager=True, help=_ENV),
    ]


def complete_stores(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The stores of the configuration that the command line names."""
    return _names(lambda: init(context.params.get("source")).names, incomplete)


def complete_tables(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The tables of the store that the command line names, or of the default store. Reads the catalog."""

    def tables() -> Sequence[str]:
        given = context.params
        store = next((given[key] for key in ("store", "store_name", "one") if given.get(key)), None)
        with init(given.get("source")).get_store(store).open(read_only=True) as lake:
            return lake.tables()

    return _names(tables, incomplete)


def _names(find: Callable[[], Sequence[str]], incomplete: str) -> list[str]:
    """The names that begin with what was typed. Without them, if they cannot be found: a shell shows no errors."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = find()
    except (LakeconfError, OSError):
        return []
    # A shell splits words at spaces, and must not be given control characters.
    return [name for name in found if name.startswith(incomplete) and name == escaped(name) and name.split() == [name]]


class Amount(click.FloatRange):
    """A number of days or minutes; NaN is in each range of click."""

    def __init__(self) -> None:
        super().__init__(min=0, max=LONGEST_DAYS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is not a number from 0 to {LONGEST_DAYS:,}.", param, ctx)
        return found


format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
default_store_option: Callable[..., Any] = click.option(
    "--store", metavar="STORE", shell_complete=complete_stores, help="Store; by default `default_store`."
)
dry_run_option: Callable[..., Any] = click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
overwrite_option: Callable[..., Any] = click.option("--force", is_flag=True, help="Overwrite an existing file.")


def store_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the store as an argument and as `--store`; the command receives either as `store`."""

    @functools.wraps(command)
    def with_store(*arguments: Any, store: str | None, store_name: str | None, **others: Any) -> Any:
        if store is not None and store_name is not None and store != store_name:
            raise click.UsageError(f"two stores are named: {store} and {store_name}")
        return command(*arguments, store=store_name if store is None else store, **others)

    with_store = click.option(
        "--store", "store_name", metavar="STORE", shell_complete=complete_stores, help="The same as STORE."
    )(with_store)
    return click.argument("store", required=False, shell_complete=complete_stores)(with_store)


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the limits of commands that write files again; the command receives `deadline` and `memory_limit`."""

    @functools.wraps(command)
    def limited(*arguments: Any, deadline_minutes: float | None, **others: Any) -> Any:
        deadline = None if deadline_minutes is None else timedelta(minutes=deadline_minutes)
        return command(*arguments, deadline=deadline, **others)

    limited = click.option("--memory-limit", help="DuckDB's memory, such as 4GB; default: the store's limit.")(limited)
    return click.option(
        "--deadline-minutes",
        type=Amount(),
        help="Begin no further step after this time; default: the store's deadline.",
    )(limited)


_MOMENT = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])


@dataclass(frozen=True)
class Selection:
    """The models that the command line selects.

    Attributes:
        tables: As for `Pipeline.chosen`.
        exclude: As for `Pipeline.chosen`.
    """

    tables: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def of(self, pipeline: Pipeline) -> list[str]:
        """The tables of the selected models, in order."""
        return [model.table for model in pipeline.chosen(self.tables, self.exclude)]


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the arguments and options that select models; the command receives a `Selection` as `models`."""

    @functools.wraps(command)
    def selecting(*, models: tuple[str, ...], select: tuple[str, ...], exclude: tuple[str, ...], **others: Any) -> Any:
        return command(models=Selection((*models, *select), exclude), **others)

    for option in (
        click.option("--exclude", multiple=True, metavar="MODEL", help="Leave out models; may be repeated."),
        click.option("--select", multiple=True, metavar="MODEL", help="The same as MODEL; may be repeated."),
        click.argument("models", nargs=-1, metavar="[MODEL]..."),
    ):
        selecting = option(selecting)
    return selecting


def models_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that select models and intervals."""
    for option in (
        config_option,
        format_option,
        click.option("--rebuild", is_flag=True, help="Recompute everything, including what is up to date."),
        click.option("--redo-late", is_flag=True, help="Recompute intervals whose inputs have changed since they ran."),
        click.option("--to", "until", type=_MOMENT, metavar="TIME", help="End of the range, in UTC; by default now."),
        click.option(
            "--from",
            "since",
            type=_MOMENT,
            metavar="TIME",
            help="Start of the range in UTC, such as 2026-01-31T12:00:00; recomputes intervals that have run.",
        ),
        default_store_option,
        selection_options,
    ):
        command = option(command)
    return command


yes_option: Callable[..., Any] = click.option("--yes", "-y", is_flag=True, help="Make the change without a prompt.")


class ConsentRequired(click.ClickException):
    """A prompt is impossible because stdin is not a terminal, and `--yes` is missing."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's signature
        """Prints the error like other errors of the command line."""
        show_error(LakeconfError(self.message, hint="read the plan above, then pass --yes"))


def confirm(question: str, *, yes: bool) -> None:
    """Asks for consent to a change after its plan was shown. Returns only with consent."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConsentRequired("this command changes data and needs --yes when stdin is not a terminal")
    if not click.confirm(safe_line(question), default=False, err=True):
        show("nothing was changed", to_stderr=True)
        raise click.exceptions.Exit(1)
