"""docs/cli.md: the reference of the commands, generated from the help of each command."""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING

import click
from source_tree import REPOSITORY

from lakeconf.cli.app import COMMANDS, GROUPS, commands

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEAD = """# Command line

The help of every command. [Options of several commands](#options-of-several-commands) are listed once, at the end.
"""

EVERYWHERE = {"--config", "--verbose", "--debug"}


def commands_by_name(root: click.Context) -> dict[str, click.Command]:
    return {name: command for name in COMMANDS if (command := commands.get_command(root, name)) is not None}


def options_of(command: click.Command, root: click.Context) -> list[tuple[str, str]]:
    """The help of the options that only some commands have."""
    own = (each for each in command.params if isinstance(each, click.Option) and not EVERYWHERE & set(each.opts))
    return [record for each in own if (record := each.get_help_record(root))]


def section(name: str, command: click.Command, shared: set[tuple[str, str]], root: click.Context) -> str:
    """One command as a section of the page."""
    own = copy.copy(command)
    shown = [record for record in options_of(command, root) if record not in shared]
    own.params = [
        each for each in command.params if isinstance(each, click.Argument) or each.get_help_record(root) in shown
    ]
    own.add_help_option = False
    context = click.Context(own, info_name=name, parent=root, terminal_width=100)
    return f"### `lakeconf {name}`\n\n```text\n{own.get_help(context)}\n```\n"


def test_page_contains_the_help_of_every_command(check_golden: Callable[[Path, str], None]) -> None:
    root = click.Context(commands, info_name="lakeconf", terminal_width=100, **commands.context_settings)
    found = commands_by_name(root)
    times = Counter(record for command in found.values() for record in options_of(command, root))
    shared = [record for record in times if times[record] > 1]
    formatter = click.HelpFormatter(width=100)
    formatter.write_dl(sorted(shared))
    # The headings of the page are the groups of commands.
    options, _, listed = commands.get_help(root).partition("\n\nStart:")
    _, _, end = listed.rpartition("\n\n")
    sections = [f"```text\n{options}\n\n{end}\n```\n"]
    for heading, names in GROUPS.items():
        sections += [f"## {heading}\n", *(section(name, found[name], set(shared), root) for name in names)]
    sections += [
        f"## Options of several commands\n\n```text\n{formatter.getvalue()}```\n",
    ]
    check_golden(REPOSITORY / "docs" / "cli.md", "\n".join([HEAD, *sections]))
