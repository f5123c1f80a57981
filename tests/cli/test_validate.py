"""`lakeconf validate` in CI: annotations, warnings, the pre-commit hook and the GitHub action."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from doc_pages import blocks
from source_tree import REPOSITORY

from lakeconf.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path

BROKEN = """\
[stores.dev.metadata_backend]
type = "sqlite"
url = "catalog, of 100%.sqlite"

[stores.dev.storage_backend]
type = "local"
path = "data"
"""
SUSPICIOUS = """\
[stores.prod.metadata_backend]
type = "postgres"
host = "db.example.com"
database = "lake"
user = "lake"
password = "hunter2-planted"

[stores.prod.storage_backend]
type = "s3"
bucket = "acme"
endpoint = "minio.example.com:9000"
use_ssl = false
key_id = "AKIA0"
secret = "hunter3-planted"
"""


def validated(folder: Path, text: str, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    (folder / "lakeconf.toml").write_text(text)
    code = run(["validate", *options])
    output = capsys.readouterr()
    assert output.err == ""
    assert "planted" not in output.out
    return code, output.out


def test_github(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validated(folder, BROKEN, capsys, "--format", "github") == (
        1,
        "::error file=lakeconf.toml,line=3,col=1,title=LC010::stores.dev.metadata_backend.url: unknown key"
        '%0Ahint: did you mean "uri"?\n',
    )
    code, output = validated(folder, SUSPICIOUS, capsys, "--format", "github")
    assert code == 0
    assert [line.partition(" ")[0] for line in output.splitlines()] == ["::warning"] * 4


def test_warnings_fail_only_with_strict(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, output = validated(folder, SUSPICIOUS, capsys)
    assert code == 0
    assert re.findall(r"^warning: lakeconf.toml:(\d+):1: (\S+):.*\[(LC\d+)\]$", output, re.MULTILINE) == [
        ("3", "stores.prod.metadata_backend.host", "LC063"),
        ("6", "stores.prod.metadata_backend.password", "LC060"),
        ("12", "stores.prod.storage_backend.use_ssl", "LC061"),
        ("14", "stores.prod.storage_backend.secret", "LC060"),
    ]
    assert output.endswith("4 warnings found\nno problem found\n")
    code, output = validated(folder, SUSPICIOUS, capsys, "--strict")
    assert (code, output.endswith("4 warnings found\nwarnings fail with --strict\n")) == (1, True)
    # In an untrusted file, the value of a variable is unknown.
    monkeypatch.setenv("HOST", "planted.example.com")
    text = SUSPICIOUS.replace("db.example.com", "${HOST}")
    assert "LC063" in validated(folder, text, capsys)[1]
    assert "LC063" not in validated(folder, text, capsys, "--untrusted")[1]


def test_pre_commit_hook(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (hook,) = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())
    assert [bool(re.search(hook["files"], name)) for name in ("lakeconf.toml", "a/pyproject.toml", "other.toml")] == [
        True,
        True,
        False,
    ]
    (folder / "lakeconf.toml").write_text(BROKEN)
    start, entry = hook["entry"].split("lakeconf ")
    assert start == "python -I -m "
    assert run(entry.split()) == 1
    assert "LC010" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "strict", "code"), [(BROKEN, "false", 1), (SUSPICIOUS, "false", 0), (SUSPICIOUS, "true", 1)]
)
def test_github_action(text: str, strict: str, code: int, folder: Path) -> None:
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text())
    install, check = action["runs"]["steps"]
    # No package is installed from an index by name: the owner of that name could run code in CI.
    commands = [line for line in install["run"].splitlines() if "-m pip" in line]
    assert [command.split()[-1] for command in commands] == [
        '"$GITHUB_ACTION_PATH/action-requirements.txt"',
        '"$GITHUB_ACTION_PATH"',
    ]
    assert "--require-hashes" in commands[0]
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(commands[1].split())
    (folder / "lakeconf.toml").write_text(text)
    (folder / "lakeconf-validate").symlink_to(sys.prefix)
    environment = os.environ | {"RUNNER_TEMP": str(folder), "CONFIG_PATH": ".", "STRICT": strict, "UNTRUSTED": strict}
    done = subprocess.run(
        ["/bin/bash", "-e", "-c", check["run"]], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith("::error file=" if text == BROKEN else "::warning file=")


def test_ci_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, schema = blocks("ci.md", "console")
    assert validated(folder, BROKEN, capsys) == (1, shown.partition("\n")[2])
    assert schema.startswith("$ lakeconf export json-schema")
    step, hook, job = map(yaml.safe_load, blocks("ci.md", "yaml"))
    assert run(job["lakeconf"]["script"][1].removeprefix("lakeconf ").split()) == 1
    capsys.readouterr()
    assert set(step["steps"][1]["with"]) <= set(yaml.safe_load((REPOSITORY / "action.yml").read_text())["inputs"])
    assert hook["repos"][0]["hooks"] == [{"id": "lakeconf-validate"}]


def test_github_action_pins_all_requirements() -> None:
    text = (REPOSITORY / "action-requirements.txt").read_text().replace("\\\n", " ")
    pinned = [line for line in text.splitlines() if line.strip()]
    assert all(re.match(r"[a-z0-9_-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line) for line in pinned)
    names = {line.partition("==")[0].replace("_", "-") for line in pinned}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    assert {re.split(r"[>=<;~\s]", one)[0] for one in needed} <= names
    lock = (REPOSITORY / "requirements.lock").read_text()
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE))
    same = {line.split()[0].partition("==")[0]: line.split()[0].partition("==")[2] for line in pinned}
    assert {name: version for name, version in same.items() if locked.get(name, version) != version} == {}


def test_validate_of_one_store_ignores_the_others(run_in_stores: Any) -> None:
    assert run_in_stores("validate", "--store", "dev") == (0, "no problem found\n", "")
    code, out, _ = run_in_stores("validate", "--store", "dev", "--store", "prod")
    assert code == 1
    assert out.count("[LC030]") == 2
    assert out.endswith("2 problems found\n")


def test_validate_as_json(run_in_stores: Any, variables: None, project: Path) -> None:
    assert json.loads(run_in_stores("validate", "--format", "json")[1]) == {
        "valid": True,
        "problems": [],
        "warnings": [],
    }
    toml = project / "lakeconf.toml"
    toml.write_text(toml.read_text().replace('bucket = "acme"', 'bucket = "acme"\nregoin = "x"'))
    code, out, _ = run_in_stores("validate", "--format", "json")
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
