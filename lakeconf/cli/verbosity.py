"""`--verbose` and `--debug`: log records on stderr, and tracebacks of errors. Long commands show their progress."""

from __future__ import annotations

import logging
import sys

import click

from lakeconf.cli.progress import ProgressLine
from lakeconf.logs import TerminalFormatter

# Commands that may take long: they show a progress line on a terminal.
_LONG = frozenset({"diff", "maintain", "plan", "promote", "report", "run", "sql", "verify"})
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_HANDLER, _PROGRESS = "lakeconf.log_handler", "lakeconf.progress"


def verbosity_options() -> list[click.Option]:
    """The options `--verbose` and `--debug` of a command."""
    return [
        click.Option(
            ["-v", "--verbose"],
            is_flag=True,
            expose_value=False,
            help="Log events to stderr.",
            callback=_verbose,
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            help="Log details and tracebacks to stderr.",
            callback=_debug,
        ),
    ]


def clear_progress() -> None:
    """Erases the progress line before other output is written to the terminal."""
    context = click.get_current_context(silent=True)
    line: ProgressLine | None = context.meta.get(_PROGRESS) if context else None
    if line is not None:
        line.clear()


def idle_progress() -> None:
    """Erases the progress line until the next event, because the command waits for the user."""
    context = click.get_current_context(silent=True)
    line: ProgressLine | None = context.meta.get(_PROGRESS) if context else None
    if line is not None:
        line.idle()


def _verbose(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's flag
    if value:
        _listen(context, logging.INFO)
    elif not context.resilient_parsing:
        # The callback runs for every command. Options that are given come first, so a handler is known here.
        _show_progress(context)


def _debug(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's flag
    if value:
        _listen(context, logging.DEBUG)


def _show_progress(context: click.Context) -> None:
    """Shows a progress line on the terminal until the command ends, if the command may take long."""
    if context.info_name in _LONG and _HANDLER not in context.meta and sys.stderr.isatty():
        line = ProgressLine(sys.stderr)
        context.meta[_PROGRESS] = line
        context.call_on_close(line.close)
        line.start()


def _listen(context: click.Context, level: int) -> None:
    """Writes the records of lakeconf to stderr until the command ends."""
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
