"""Options shared by several commands."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from lakeconf.arguments import LONGEST_DAYS
from lakeconf.cli.completion import complete_stores
from lakeconf.cli.configuration_options import config_option

if TYPE_CHECKING:
    from lakeconf.pipelines import Pipeline


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
    "--store", shell_complete=complete_stores, help="Store; by default `default_store`."
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


__all__ = [
    "Amount",
    "Selection",
    "config_option",
    "default_store_option",
    "dry_run_option",
    "format_option",
    "limit_options",
    "models_options",
    "overwrite_option",
    "selection_options",
    "store_option",
]
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
        """The tables of the selected models, in order.

        Raises:
            PipelineError: A name matches no model, or all selected models are excluded.
        """
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
        click.option("--to", "until", type=_MOMENT, help="End of the range, in UTC; by default now."),
        click.option(
            "--from",
            "since",
            type=_MOMENT,
            help="Start of the range, in UTC; recomputes intervals that have already run.",
        ),
        click.option(
            "--store",
            shell_complete=complete_stores,
            help="Store that contains the tables; by default `default_store`.",
        ),
        selection_options,
    ):
        command = option(command)
    return command
