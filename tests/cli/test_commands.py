"""The command line: output, streams and exit codes of the commands."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest

from lakeconf.cli.app import COMMANDS, GROUPS, commands

if TYPE_CHECKING:
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


def test_unknown_store(run_in_stores: Any) -> None:
    code, out, err = run_in_stores("preview-sql", "--store", "prdo")
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


def test_version(run_in_stores: Any) -> None:
    code, out, _ = run_in_stores("--version")
    assert code == 0
    assert out.startswith("lakeconf 0.")


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


def test_misspelt_command_or_option_is_a_usage_error(run_in_stores: Any) -> None:
    code, out, err = run_in_stores("preview_sql")
    assert (code, out) == (2, "")
    assert 'did you mean "preview-sql"?' in err
    assert run_in_stores("preview-sql", "--potable")[0] == 2
    assert run_in_stores("nonsense")[0] == 2


def test_choices_of_a_missing_argument_are_indented(run_in_stores: Any) -> None:
    code, _, err = run_in_stores("export")
    assert code == 2
    assert "\n  dagster,\n  dbt," in err
    assert "\\x09" not in err


def test_every_command_of_the_list_has_its_name() -> None:
    for name in COMMANDS:
        command = commands.get_command(click.Context(commands), name)
        assert command is not None
        assert command.name == name


def process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)


def test_python_m_lakeconf_runs_the_command_line(project: Path) -> None:
    result = process(project, sys.executable, "-m", "lakeconf", "preview-sql")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith('USE "dev";\n')


def test_closed_output_pipe_is_no_error(project: Path) -> None:
    command = f"{sys.executable} -m lakeconf export json-schema | head -n 1"
    result = process(project, "bash", "-o", "pipefail", "-c", command)
    assert (result.stdout, result.stderr) == ("{\n", "")
