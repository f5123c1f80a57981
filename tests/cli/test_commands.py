"""The command line: output, streams and exit codes of the commands, and docs/cli.md, their generated reference."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import click
import pytest
from source_tree import REPOSITORY

from lakeconf.cli.app import COMMANDS, GROUPS, commands

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_errors_go_to_stderr_without_a_traceback(run_in_stores: Any) -> None:
    code, out, err = run_in_stores("preview-sql", "--store", "prod")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "lakeconf.toml:13:1: stores.prod.metadata_backend.host: the variable PGHOST is not set [LC030]",
        "  13 | host = …",
        "     | ^",
        "  hint: export PGHOST=…; a value that is no secret can have a default: ${PGHOST:-…}",
        "lakeconf.toml:16:1: stores.prod.metadata_backend.password: the variable PGPASSWORD is not set [LC030]",
        "  16 | password = …",
        "     | ^",
        "  hint: export PGPASSWORD=…; a value that is no secret can have a default: ${PGPASSWORD:-…}",
    ]


@pytest.mark.parametrize(
    "command", ["preview-sql", "validate", "doctor", "tables", "sql FROM", "verify raw.t", "stores", "maintain"]
)
def test_unknown_store(command: str, run_in_stores: Any) -> None:
    option = () if command == "stores" else ("--store",)
    code, out, err = run_in_stores(*command.split(), *option, "prdo")
    assert (code, out) == (1, "")
    assert 'did you mean "prod"? use one of the stores: dev, prod, staging' in err


def test_no_configuration(run_in_stores: Any, project: Path) -> None:
    (project / "lakeconf.toml").unlink()
    for command in (["preview-sql"], ["stores"]):
        code, out, err = run_in_stores(*command)
        assert (code, out) == (1, "")
        assert f"was found in {project}" in err
    code, out, err = run_in_stores("validate")
    assert (code, err) == (1, "")
    assert "LC001" in out


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_a_command(command: str, run_in_stores: Any) -> None:
    for flag in ("-h", "--help"):
        code, out, err = run_in_stores(command, flag)
        assert (code, err) == (0, "")
        assert out.startswith(f"Usage: lakeconf {command} ")


def test_help_lists_every_command_in_one_line(run_in_stores: Any) -> None:
    code, out, _ = run_in_stores("--help")
    assert code == 0
    listed = [
        line for heading in GROUPS for line in out.partition(f"\n{heading}:\n")[2].partition("\n\n")[0].splitlines()
    ]
    assert sorted(line.split()[0] for line in listed) == sorted(COMMANDS)
    assert all(line.endswith(".") and "..." not in line for line in listed)
    assert run_in_stores("--version")[1].startswith("lakeconf 0.")


def test_misspelt_command_or_option_is_a_usage_error(run_in_stores: Any) -> None:
    for arguments, message in (
        (("preview_sql",), 'did you mean "preview-sql"?'),
        (("preview-sql", "--potable"), "--potable"),
        (("nonsense",), "nonsense"),
        (("export",), "\n  dagster,\n  dbt,"),
    ):
        code, out, err = run_in_stores(*arguments)
        assert (code, out, message in err, "\\x09" in err) == (2, "", True, False)


def test_closed_output_pipe_is_no_error(project: Path) -> None:
    command = f"{sys.executable} -m lakeconf export json-schema | head -n 1"
    result = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command], cwd=project, capture_output=True, text=True, check=False
    )
    assert (result.stdout, result.stderr) == ("{\n", "")


HEAD = """# Command line

The help of every command. [Options of several commands](#options-of-several-commands) are listed once, at the end.
"""

EVERYWHERE = {"--config", "--env-file", "--verbose", "--debug"}


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
