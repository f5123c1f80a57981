"""The command line: output, streams and exit codes of the commands."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import jsonschema
import pytest

from lakeconf.cli.commands import COMMANDS, commands
from lakeconf.cli.commands import run as run_command
from lakeconf.config.schema import json_schema

if TYPE_CHECKING:
    from pathlib import Path

PROD = """
[stores.prod.metadata_backend]
type = "postgres"
host = "${PGHOST}"
database = "lake"
user = "lake"
password = "${PGPASSWORD}"
secret_parameters = { sslmode = "verify-full" }

[stores.prod.storage_backend]
type = "s3"
bucket = "acme"
secret_parameters = { provider = "credential_chain" }

[stores.staging]
extends = "prod"
"""


@pytest.fixture
def run(project: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command in a folder with the stores dev, prod and staging; returns its exit code, stdout and stderr."""
    (project / "lakeconf.toml").write_text((project / "lakeconf.toml").read_text() + PROD)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run_command(arguments)
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


@pytest.fixture
def prod_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example.com")
    monkeypatch.setenv("PGPASSWORD", "hunter2")


def test_preview_sql_of_the_default_store(run: Any, project: Path) -> None:
    code, out, err = run("preview-sql")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == 'USE "dev";'
    assert f"sqlite:{project}/catalog.sqlite" in out
    assert not (project / "catalog.sqlite").exists()


def test_preview_sql_masks_shows_or_references_the_secret(run: Any, prod_is_set: None) -> None:
    assert "PASSWORD '***'" in run("preview-sql", "prod")[1]
    assert "PASSWORD 'hunter2'" in run("preview-sql", "prod", "--show-secrets")[1]
    portable = run("preview-sql", "prod", "--portable")[1]
    assert "PASSWORD getenv('PGPASSWORD')" in portable
    assert "INSTALL ducklake; LOAD ducklake;" in portable
    assert "hunter2" not in run("preview-sql", "prod")[1] + portable


def test_preview_sql_as_json(run: Any, prod_is_set: None) -> None:
    data = json.loads(run("preview-sql", "prod", "--format", "json")[1])
    assert data["store"] == data["alias"] == "prod"
    assert data["extensions"] == ["ducklake", "postgres_scanner", "httpfs", "aws"]
    assert data["statements"] == run("preview-sql", "prod")[1].splitlines()


def test_show_secrets_and_portable_cannot_be_combined(run: Any) -> None:
    code, out, err = run("preview-sql", "--show-secrets", "--portable")
    assert (code, out) == (2, "")
    assert "cannot be combined" in err


def test_portable_script_with_a_literal_secret_is_refused(run: Any, project: Path, prod_is_set: None) -> None:
    toml = project / "lakeconf.toml"
    toml.write_text(toml.read_text().replace("${PGPASSWORD}", "hunter3"))
    code, out, err = run("preview-sql", "prod", "--portable")
    assert (code, out) == (1, "")
    assert err.startswith("error: stores.prod.metadata_backend.password is a literal")
    assert "  hint: " in err
    assert "hunter3" not in err


def test_errors_go_to_stderr_without_a_traceback(run: Any) -> None:
    code, out, err = run("preview-sql", "prod")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "lakeconf.toml:13:1: stores.prod.metadata_backend.host: the variable PGHOST is not set [LC030]",
        "  hint: export PGHOST=…, or set a default: ${PGHOST:-…}",
        "lakeconf.toml:16:1: stores.prod.metadata_backend.password: the variable PGPASSWORD is not set [LC030]",
        "  hint: export PGPASSWORD=…, or set a default: ${PGPASSWORD:-…}",
    ]


def test_unknown_store(run: Any) -> None:
    code, out, err = run("preview-sql", "prdo")
    assert (code, out) == (1, "")
    assert 'did you mean "prod"? known stores: dev, prod, staging' in err


def test_no_configuration(run: Any, project: Path) -> None:
    (project / "lakeconf.toml").unlink()
    for command in (["preview-sql"], ["stores"]):
        code, out, err = run(*command)
        assert (code, out) == (1, "")
        assert f"was found in {project}" in err
    code, out, err = run("validate")
    assert (code, err) == (1, "")
    assert "LC001" in out


@pytest.mark.parametrize("command", ["preview-sql", "stores", "validate"])
def test_config_option_selects_the_file(command: str, run: Any, project: Path, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "lakeconf.toml").write_text((project / "lakeconf.toml").read_text().partition("\n[stores.prod")[0])
    for path in (elsewhere, elsewhere / "lakeconf.toml"):
        assert run(command, "--config", str(path))[0] == 0
    assert run(command, "--config", str(elsewhere / "no.toml"))[0] == 1


def test_validate_of_a_valid_configuration(run: Any, prod_is_set: None) -> None:
    assert run("validate") == (0, "no problem found\n", "")


def test_validate_of_one_store_ignores_the_others(run: Any) -> None:
    assert run("validate", "dev") == (0, "no problem found\n", "")
    code, out, _ = run("validate", "dev", "prod")
    assert code == 1
    assert out.count("[LC030]") == 2
    assert out.endswith("2 problems found\n")


def test_validate_of_an_unknown_store_is_a_usage_error(run: Any) -> None:
    code, out, err = run("validate", "nowhere")
    assert (code, out) == (2, "")
    assert "known stores: dev, prod, staging" in err


def test_validate_as_json(run: Any, prod_is_set: None, project: Path) -> None:
    assert json.loads(run("validate", "--format", "json")[1]) == {"valid": True, "problems": [], "warnings": []}
    toml = project / "lakeconf.toml"
    toml.write_text(toml.read_text().replace('bucket = "acme"', 'bucket = "acme"\nregoin = "x"'))
    code, out, _ = run("validate", "--format", "json")
    assert code == 1
    assert json.loads(out) == {
        "valid": False,
        "warnings": [],
        "problems": [
            {
                "code": "LC010",
                "message": "unknown key",
                "hint": 'did you mean "region"?',
                "key": "stores.prod.storage_backend.regoin",
                "store": "prod",
                "file": str(toml),
                "line": 22,
                "column": 1,
            }
        ],
    }


def test_stores_needs_no_variables(run: Any) -> None:
    code, out, err = run("stores")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "*  dev      sqlite + local",
        "   prod     postgres + s3",
        "   staging  postgres + s3   extends prod",
    ]


def test_stores_as_json(run: Any) -> None:
    assert json.loads(run("stores", "--format", "json")[1])[2] == {
        "name": "staging",
        "is_default": False,
        "metadata_backend": "postgres",
        "storage_backend": "s3",
        "extends": "prod",
        "alias": "staging",
    }


def test_stores_of_an_invalid_configuration(run: Any, project: Path) -> None:
    (project / "lakeconf.toml").write_text('[stores.a]\nextends = "b"\n\n[stores.c.metadata_backend]\nx = 1\n')
    assert run("stores") == (0, "   a  ?\n   c  ?\n", "")


def test_schema_prints_the_schema(run: Any) -> None:
    code, out, _ = run("schema")
    assert code == 0
    assert json.loads(out) == json_schema()
    jsonschema.Draft202012Validator.check_schema(json.loads(out))


def test_version(run: Any) -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("lakeconf 0.")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_a_command(command: str, run: Any) -> None:
    for flag in ("-h", "--help"):
        code, out, err = run(command, flag)
        assert (code, err) == (0, "")
        assert out.startswith(f"Usage: lakeconf {command} ")


def test_help_lists_every_command_in_one_line(run: Any) -> None:
    code, out, _ = run("--help")
    assert code == 0
    listed = out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == sorted(COMMANDS)
    assert all(line.endswith(".") and "..." not in line for line in listed)


def test_misspelt_command_or_option_is_a_usage_error(run: Any) -> None:
    code, out, err = run("preview_sql")
    assert (code, out) == (2, "")
    assert 'did you mean "preview-sql"?' in err
    assert run("preview-sql", "--potable")[0] == 2
    assert run("nonsense")[0] == 2


def test_every_command_is_in_a_module_of_its_name() -> None:
    for name, module in COMMANDS.items():
        assert module == f"lakeconf.cli.{name.replace('-', '_')}"
        command = commands.get_command(click.Context(commands), name)
        assert command is not None
        assert command.name == name


def test_colours_are_used_only_on_a_terminal(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "lakeconf.toml").write_text("")
    assert "\x1b[" not in process(project, sys.executable, "-m", "lakeconf", "validate").stdout
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert b"\x1b[" in on_a_terminal(project, "validate")
    monkeypatch.setenv("NO_COLOR", "1")
    assert b"\x1b[" not in on_a_terminal(project, "validate")


def on_a_terminal(folder: Path, *arguments: str) -> bytes:
    """The output of a command whose streams are a pseudo-terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "lakeconf", *arguments]
    subprocess.run(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, check=False)
    os.close(theirs)
    output = os.read(ours, 65536)
    os.close(ours)
    return output


def process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)


def test_python_m_lakeconf_runs_the_command_line(project: Path) -> None:
    result = process(project, sys.executable, "-m", "lakeconf", "preview-sql")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith('USE "dev";\n')


def test_failure_returns_an_exit_code_without_a_traceback(project: Path) -> None:
    result = process(project, sys.executable, "-m", "lakeconf", "preview-sql", "nowhere")
    assert (result.returncode, result.stdout) == (1, "")
    assert "Traceback" not in result.stderr


def test_closed_output_pipe_is_no_error(project: Path) -> None:
    command = f"{sys.executable} -m lakeconf schema | head -n 1"
    result = process(project, "bash", "-o", "pipefail", "-c", command)
    assert (result.stdout, result.stderr) == ("{\n", "")


def test_preview_sql_imports_only_the_backends_it_needs(project: Path) -> None:
    code = (
        "import sys; from lakeconf.cli.commands import run; run(['preview-sql']);"
        "print(*(name for name in sys.modules if name.startswith(('lakeconf.backends', 'duckdb', 'rich'))))"
    )
    result = process(project, sys.executable, "-c", code)
    loaded = set(result.stdout.splitlines()[-1].split())
    # Only the backends of the previewed store are loaded: secrets of other stores are recognised by their keys.
    assert {name for name in loaded if name.count(".") == 3} == {
        "lakeconf.backends.metadata.catalog_file",
        "lakeconf.backends.metadata.migration",
        "lakeconf.backends.metadata.sqlite",
        "lakeconf.backends.storage.local",
    }
    assert not {name for name in loaded if not name.startswith("lakeconf")}
