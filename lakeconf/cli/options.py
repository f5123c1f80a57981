"""Options that several commands share, and the prompt before a change."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from lakeconf.arguments import LONGEST_DAYS
from lakeconf.backends.store_options import duration_of
from lakeconf.cli.output import safe_line, show, show_json
from lakeconf.config.codes import Code
from lakeconf.config.config import read
from lakeconf.config.file import failure, file_text
from lakeconf.errors import ConfigError, LakeconfError, Problem, required
from lakeconf.logs import TerminalFormatter
from lakeconf.sql import folded

Done = TypeVar("Done")

_ENV = "Set the variables of a .env file, unless they are set."
_CONFIG = "Configuration file, or its folder; by default lakeconf looks in this folder and its parents."
_SOURCE, _HANDLER = "lakeconf.source", "lakeconf.log_handler"
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
store_option: Callable[..., Any] = click.option("--store", metavar="STORE", help="Store; by default `default_store`.")
stores_option: Callable[..., Any] = click.option(
    "--store", "stores", multiple=True, metavar="STORE", help="Store; may be repeated."
)
overwrite_option: Callable[..., Any] = click.option("--force", is_flag=True, help="Overwrite an existing file.")
yes_option: Callable[..., Any] = click.option("--yes", "-y", is_flag=True, help="Make the change without a prompt.")
_LONGEST = timedelta(days=365)
_MOMENT = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])
selection: Callable[..., Any] = click.argument("models", nargs=-1, metavar="[MODEL]...")
_REQUEST = ("since", "until", "rebuild")


def _configuration(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Remembers `--config` before the name of the command for the command."""
    if value is not None:
        context.meta[_SOURCE] = value
    source: str | None = context.meta.get(_SOURCE)
    return source


config_option: Callable[..., Any] = click.option(
    "--config", "source", metavar="PATH", callback=_configuration, help=_CONFIG
)


def store_hint(command: click.Command, parent: click.Context, arguments: Sequence[str]) -> str | None:
    """The hint that `--store` names a store, for a command that failed with the name of one as an argument."""
    option = next((parameter.name for parameter in command.params if "--store" in parameter.opts), None)
    try:
        values, words, _ = command.make_parser(click.Context(command, parent=parent)).parse_args(list(arguments))
        stores = read(values.get("source") or parent.meta.get(_SOURCE)).names
    except (click.UsageError, LakeconfError):  # no configuration, or an unknown option: the first error says enough
        return None
    for parameter in command.params:
        value = values.get(parameter.name) if isinstance(parameter, click.Argument) else None
        words += [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    store = next((word for word in words if word in stores), None)
    if option is None or option in values or store is None:
        return None
    return f"pass --store {store} to use the store {store}"


def shared_options() -> list[click.Parameter]:
    """The options `--config` and `--env-file` before the name of a command."""
    return [
        click.Option(["--config"], metavar="PATH", expose_value=False, callback=_configuration, help=_CONFIG),
        click.Option(["--env-file"], metavar="PATH", expose_value=False, callback=_variables, is_eager=True, help=_ENV),
    ]


def _variables(context: click.Context, _: click.Parameter, value: str | None) -> None:
    """Sets the variables of a `.env` file until the command line ends; those of the process take precedence."""
    if value is not None:
        added = {name: text for name, text in env_variables(Path(value)).items() if name not in os.environ}
        os.environ.update(added)
        context.find_root().call_on_close(lambda: [os.environ.pop(name, None) for name in added])


def env_variables(file: Path) -> Mapping[str, str]:
    """Reads the variables of a `.env` file, as python-dotenv does, but without references to other variables."""
    with required("dotenv", extra="dotenv", needed_for="--env-file"):
        from dotenv.parser import parse_stream
    if not file.exists():
        raise failure(Code.UNREADABLE, "file not found", file, hint="check the path")
    variables, invalid = dict[str, str](), list[int]()
    for line in parse_stream(io.StringIO(file_text(file))):
        if line.error or (line.key is not None and line.value is None) or "\0" in (line.value or ""):
            invalid.append(line.original.line)
        elif line.key is not None and line.value is not None:
            variables[line.key] = line.value
    if invalid:
        variables.clear()  # tools that report errors show the variables of each function
        form = "write NAME=value, with quotes around a value that contains # or begins or ends with a space"
        raise ConfigError(
            [Problem(Code.UNREADABLE.code, "invalid line", form, file=file, line=number) for number in invalid]
        )
    return variables


def verbosity_options() -> list[click.Option]:
    """The options `--verbose` and `--debug` of a command."""
    levels = (
        (["-v", "--verbose"], logging.INFO, "Log events to stderr."),
        (["--debug"], logging.DEBUG, "Log details and tracebacks to stderr."),
    )
    return [
        click.Option(names, is_flag=True, expose_value=False, help=meaning, callback=functools.partial(_listen, level))
        for names, level, meaning in levels
    ]


def _listen(level: int, context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's flag
    """Writes the records of lakeconf to stderr until the command ends."""
    if not value:
        return
    logger = logging.getLogger("lakeconf")
    before = logger.level
    handler: logging.Handler = context.meta.get(_HANDLER) or logging.StreamHandler()
    if _HANDLER not in context.meta:
        handler.setFormatter(TerminalFormatter(_FORMAT))
        logger.addHandler(handler)
        context.meta[_HANDLER] = handler
        root = context.find_root()
        root.call_on_close(lambda: logger.removeHandler(handler))
        root.call_on_close(lambda: logger.setLevel(before))
    logger.setLevel(min(level, before or level))


class Days(click.FloatRange):
    """A number of days; NaN is in each range of click."""

    def __init__(self) -> None:
        super().__init__(min=0, max=LONGEST_DAYS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        days: float = super().convert(value, param, ctx)
        if math.isnan(days):
            self.fail(f"{value!r} is not a number from 0 to {LONGEST_DAYS:,}.", param, ctx)
        return days


class Duration(click.ParamType):  # type: ignore[type-arg]  # click 8.1 gives it no parameter
    """A duration, as in the configuration: `15m`, `1h30m`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        duration = duration_of(str(value))
        if not duration or duration > _LONGEST:
            self.fail(f"{value!r} is not a duration of at most 365 days, such as 15m or 1h30m", param, ctx)
        return duration


def output_format(*formats: str, meaning: str = "Output format.") -> Callable[..., Any]:
    """The option `--format`, which commands receive as `format_name`; the first format is the default."""
    return click.option(
        "--format", "format_name", type=click.Choice(formats), default=formats[0], show_default=True, help=meaning
    )


def output_options(*formats: str, meaning: str = "Output format.") -> Callable[..., Any]:
    """The options `--format` and `--config`."""
    return lambda command: output_format(*formats, meaning=meaning)(config_option(command))


format_option = output_format("text", "json")


def models_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds options that select models and intervals; the command receives the arguments of `plan` as `request`."""

    def requesting(**arguments: Any) -> Any:
        return command(request={name: arguments.pop(name) for name in _REQUEST}, **arguments)

    decorated: Callable[..., Any] = functools.wraps(command)(requesting)

    for option in (
        output_options("text", "json"),
        click.option("--rebuild", is_flag=True, help="Recompute everything, including what is up to date."),
        click.option("--to", "until", type=_MOMENT, metavar="TIME", help="End of the range, in UTC; by default now."),
        click.option(
            "--from",
            "since",
            type=_MOMENT,
            metavar="TIME",
            help="Start of the range in UTC, such as 2026-01-31T12:00:00; recomputes intervals that have run.",
        ),
        store_option,
        selection,
    ):
        decorated = option(decorated)
    return decorated


def types_option(meaning: str) -> Callable[..., Any]:
    """The repeated option `--type`, which commands receive as `types`: the types of columns, by name."""
    return click.option(
        "--type",
        "types",
        multiple=True,
        metavar="COLUMN=TYPE",
        callback=_column_types,
        help=f"{meaning}; may be repeated.",
    )


def _column_types(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> Mapping[str, str]:
    """The types of columns, by name."""
    types: dict[str, str] = {}
    for column, equals, kind in (text.partition("=") for text in values):
        if not (column and equals):
            message = f"{column!r} is not of a form such as price=DECIMAL(10,2)."
            raise click.BadParameter(message, context, parameter)
        if folded(column) in map(folded, types):
            raise click.BadParameter(f"{column!r} has two types.", context, parameter)
        types[column] = kind
    return types


@contextlib.contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop` in another thread when this process gets SIGINT or SIGTERM: a service then ends with 0."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: threading.Thread(target=stop).start()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def confirm(question: str, *, yes: bool) -> None:
    """Asks for consent to a change after its plan was shown. Returns only with consent."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("this command changes data: read the plan above, then pass --yes")
    if not click.confirm(safe_line(question), default=False, err=True):
        show("nothing was changed", to_stderr=True)
        raise click.exceptions.Exit(1)


@dataclass(frozen=True)
class ChangeOptions:
    """How a command changes a lake: it shows a plan, asks, carries out the plan, and prints JSON at the end."""

    format_name: str
    dry_run: bool
    yes: bool

    @property
    def is_text(self) -> bool:
        """False if the command prints nothing but JSON."""
        return self.format_name == "text"

    def carry_out(
        self, question: str, do: Callable[[], Done], data: Callable[[Done | None], Any], *, needed: bool
    ) -> Done | None:
        """Carries out a plan that was shown, if it changes anything and the user agrees; None if it was not."""
        done: Done | None = None
        try:
            if needed and not self.dry_run:
                confirm(question, yes=self.yes)
                done = do()
        finally:
            if not self.is_text:
                show_json(data(done))
        return done


def change_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a command that changes a lake; the command receives a `ChangeOptions` as `change`."""

    def changing(*, format_name: str, dry_run: bool, yes: bool, **others: Any) -> Any:
        return command(change=ChangeOptions(format_name, dry_run, yes), **others)

    decorated: Callable[..., Any] = functools.wraps(command)(changing)
    dry_run = click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
    for option in (output_options("text", "json"), yes_option, dry_run):
        decorated = option(decorated)
    return decorated
