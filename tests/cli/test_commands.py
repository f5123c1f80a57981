"""The command line: output, streams and exit codes of the commands."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.cli.app import COMMANDS, GROUPS

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
