"""docs/cli.md: the reference of the commands, generated from the help of each command."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import click
from source_tree import REPOSITORY

from lakeconf.cli.app import COMMANDS, commands

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEAD = """# Command line

The help of every command. All commands have the options `--config`, `--env-file`, `--verbose`, `--debug` and `--help`.
"""


SHARED = {"--config", "--env-file", "--verbose", "--debug"}


def section(name: str, command: click.Command, parent: click.Context) -> str:
    """One command as a section of the page."""
    own = copy.copy(command)
    own.params = [each for each in command.params if not SHARED & set(each.opts)]
    own.add_help_option = False
    context = click.Context(own, info_name=name, parent=parent, terminal_width=100)
    return f"## `lakeconf {name}`\n\n```text\n{own.get_help(context)}\n```\n"


def test_page_contains_the_help_of_every_command(check_golden: Callable[[Path, str], None]) -> None:
    root = click.Context(commands, info_name="lakeconf", terminal_width=100, **commands.context_settings)
    sections = [f"```text\n{commands.get_help(root)}\n```\n"]
    for name in COMMANDS:
        command = commands.get_command(root, name)
        assert command is not None
        sections.append(section(name, command, root))
    check_golden(REPOSITORY / "docs" / "cli.md", "\n".join([HEAD, *sections]))
