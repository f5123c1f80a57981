"""Imports and runs a command, and converts errors into messages and exit codes."""

from __future__ import annotations

import errno
import importlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import click

from lakeconf.cli.options import shared_options, store_hint, verbosity_options
from lakeconf.cli.output import show_error, show_lines
from lakeconf.errors import LakeconfError, suggestion

# The commands below each heading of `lakeconf --help`, and the modules that have them.
GROUPS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Start": {
            **dict.fromkeys(
                ("init", "validate", "stores", "preview-sql", "export", "grants"), "lakeconf.cli.config_commands"
            ),
            "doctor": "lakeconf.cli.inspect_commands",
        },
        "Inspect": dict.fromkeys(
            ("sql", "tables", "snapshots", "history", "diff", "verify", "report", "metrics"),
            "lakeconf.cli.inspect_commands",
        ),
        "Change": {
            **dict.fromkeys(("load", "adopt"), "lakeconf.cli.pipeline_commands"),
            **dict.fromkeys(("maintain", "restore", "undo", "copy"), "lakeconf.cli.change_commands"),
            **dict.fromkeys(("move", "branch", "backup", "backups", "restore-lake"), "lakeconf.cli.lake_commands"),
        },
        "Pipelines": dict.fromkeys(("plan", "run", "test", "graph"), "lakeconf.cli.pipeline_commands"),
    }
)
COMMANDS: Mapping[str, str] = MappingProxyType(
    {name: module for commands in GROUPS.values() for name, module in commands.items()}
)
# The words of other tools, and of earlier versions, for a command.
SYNONYMS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("log", "versions"), "snapshots"),
        **dict.fromkeys(("ls", "list", "files", "describe"), "tables"),
        **dict.fromkeys(("query", "select", "shell"), "sql"),
        **dict.fromkeys(("import", "ingest", "append"), "load"),
        **dict.fromkeys(("register", "attach"), "adopt"),
        **dict.fromkeys(("compact", "optimize", "vacuum", "expire", "cleanup"), "maintain"),
        "rollback": "undo",
        **dict.fromkeys(("check", "debug", "repair"), "doctor"),
        "compare": "diff",
        "explain": "validate",
        "schema": "export",
    }
)
_CALLED = "lakeconf.called"


class _Commands(click.Group):
    """Commands that are imported on first use."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = {name: command for name in COMMANDS if (command := self.get_command(ctx, name)) is not None}
        width = max(map(len, commands))
        for heading, names in GROUPS.items():
            with formatter.section(heading):
                limit = formatter.width - 6 - width
                formatter.write_dl([(f"{name:{width}}", commands[name].get_short_help_str(limit)) for name in names])

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name in COMMANDS:
            function = f"{cmd_name.replace('-', '_')}_command"
            command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name]), function)
            if not any(parameter.name == "debug" for parameter in command.params):
                command.params.extend(verbosity_options())
            return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in COMMANDS and not word.startswith("-") and not ctx.resilient_parsing:
            hint = suggestion(SYNONYMS.get(word, word), COMMANDS, f"use one of: {', '.join(COMMANDS)}")
            raise click.UsageError(f"no such command {word!r}, {hint}", ctx)
        name, command, arguments = super().resolve_command(ctx, args)
        ctx.meta[_CALLED] = (command, tuple(arguments))
        return name, command, arguments

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.UsageError, LakeconfError) as error:
            command, arguments = ctx.meta.get(_CALLED, (None, ()))
            hint = store_hint(command, ctx, arguments) if command is not None else None
            if isinstance(error, LakeconfError):
                logging.getLogger("lakeconf.cli").debug("the command failed", exc_info=True)
                error.hint = "; or ".join(filter(None, (error.hint, hint))) or None
            elif hint is not None:
                raise click.UsageError(f"{error.format_message()}; {hint}", error.ctx) from None
            raise


@click.group(
    cls=_Commands,
    params=[*shared_options(), *verbosity_options()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="lakeconf reads lakeconf.toml or [tool.lakeconf] in pyproject.toml, in this folder or a parent up to the "
    "root of the repository. LAKECONF_CONFIG or --config sets another file. "
    "Exit codes: 0 for success, 1 for an error or a failed check, 2 for invalid arguments, 130 after Ctrl-C.",
)
@click.version_option(package_name="lakeconf", message="lakeconf %(version)s")
def commands() -> None:
    """Declare DuckLake stores in TOML and use them from DuckDB, Spark and other tools."""


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    # Without the position in the source that Python adds: users of a command do not need it.
    show_lines(f"warning: {message}", to_stderr=True)


def run(arguments: Sequence[str]) -> int:
    """Runs a command of `lakeconf` in this process, which keeps a Spark session for the next one.

    Args:
        arguments: The command and its options, as after `lakeconf` in a shell.

    Returns:
        The exit code. Errors are printed, not raised.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = commands.main(list(arguments), prog_name="lakeconf", standalone_mode=False)
    except click.ClickException as error:
        # click adds lines such as "Usage: …"; the message may quote untrusted text.
        said = io.StringIO()
        error.show(said)
        if said.getvalue():
            # click lists the choices of an argument below each other, each after a tab.
            show_lines(said.getvalue().rstrip("\n").replace("\n\t", "\n  "), to_stderr=True)
        return error.exit_code
    except click.Abort:
        return 130
    except LakeconfError as error:
        show_error(error)
        return 1
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise
        # The reader closed the pipe; without this, Python reports an error when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code if isinstance(code, int) else 0
