"""`lakeconf init`, `stores` and `validate`: annotations, warnings, codes, the pre-commit hook and the GitHub action."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from doc_pages import blocks
from source_tree import REPOSITORY

import lakeconf
from lakeconf.cli.app import run
from lakeconf.config.codes import explanation
from lakeconf.config.config import validate
from lakeconf.config.warnings import warnings

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
    names = ("lakeconf.toml", "a/pyproject.toml", "other.toml")
    assert [name for name in names if re.search(hook["files"], name)] == [*names[:2]]
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
    places = ['"$GITHUB_ACTION_PATH/action-requirements.txt"', '"$GITHUB_ACTION_PATH"']
    assert [command.split()[-1] for command in commands] == places
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
    pinned = (hook["repos"][0]["rev"], step["steps"][1]["uses"], job["lakeconf"]["script"][0])
    version = lakeconf.__version__
    assert pinned == (f"v{version}", f"lakeconf/lakeconf@v{version}", f"pip install lakeconf=={version}")


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
    valid = {"valid": True, "problems": [], "warnings": []}
    assert json.loads(run_in_stores("validate", "--format", "json")[1]) == valid
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


def test_an_existing_file_is_kept_without_force(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lakeconf.toml").mkdir()
    assert run(["init"]) == 2
    assert "File 'lakeconf.toml' is a directory." in capsys.readouterr().err
    (folder / "lakeconf.toml").rmdir()
    (folder / "lakeconf.toml").write_text("mine")
    assert run(["init"]) == 2
    assert "lakeconf.toml already exists; use --force to overwrite it" in capsys.readouterr().err
    assert (folder / "lakeconf.toml").read_text() == "mine"
    assert run(["init", "--force"]) == 0
    assert validate() == [] == warnings()


@pytest.mark.slow
def test_getting_started_needs_only_the_package_that_it_installs(folder: Path) -> None:
    assert run(["init"]) == 0
    code, *_ = blocks("getting-started.md", "python")
    without = "import sys; sys.modules |= dict.fromkeys(['pyarrow', 'pandas', 'numpy', 'polars', 'pyspark'])\n"
    subprocess.run([sys.executable, "-c", without + code], check=True)


def test_gitignore_lists_the_folder_of_the_local_lake(folder: Path) -> None:
    assert run(["init"]) == 0
    assert not (folder / ".gitignore").exists()
    git = shutil.which("git") or "git"
    subprocess.run([git, "init", "-q"], check=True)
    (folder / ".gitignore").write_text("build/")
    (folder / ".lakeconf").mkdir()
    (folder / ".lakeconf" / "catalog.sqlite").touch()
    for _ in range(2):
        assert run(["init", "--force"]) == 0
        assert (folder / ".gitignore").read_text() == "build/\n.lakeconf/\n"
    status = subprocess.run([git, "status", "--short"], capture_output=True, text=True, check=True)
    assert status.stdout.split() == ["??", ".gitignore", "??", "lakeconf.toml"]


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".git").mkdir()
    assert run(["init", "-o", "my lake.toml", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": "my lake.toml", "store": "dev", "ignored": True}
    assert run(["init", "-o", "my lake.toml", "--force"]) == 0
    assert "check it with: lakeconf validate --config 'my lake.toml'" in capsys.readouterr().out


def test_code_is_explained_without_a_configuration(folder: Path, called: Any) -> None:
    code, out, err = called("validate", "--explain", "lc012")
    assert (code, err, "```" in out) == (0, "", False)
    assert [line.strip() for line in out.splitlines()] == [
        line.strip() for line in explanation("LC012").splitlines() if not line.startswith("```")
    ]
    found = json.loads(called("validate", "--explain", "lc001", "--format", "json")[1])
    assert (found["code"], found["text"].partition("\n")[0]) == ("LC001", "# LC001: Configuration not found")
    code, out, err = called("validate", "--explain", "LC999")
    assert (code, out, "unknown code 'LC999'" in err) == (1, "", True)
    for option in (["--format", "github"], ["--strict"], ["--untrusted"], ["--store", "dev"]):
        code, out, err = called("validate", "--explain", "LC012", *option)
        assert (code, out, "--explain checks nothing" in err) == (2, "", True)


STORES = """\
[stores.prod]
alias = "lake"

[stores.prod.metadata_backend]
type = "postgres"
host = "${PGHOST}"
database = "lake_${STAGE}"
user = "${PGUSER:-lake}"
password = "${PGPASSWORD}"
secret_parameters = { sslmode = "require", sslkey = "planted-key" }

[stores.prod.storage_backend]
type = "s3"
bucket = "acme"
secret_parameters = { provider = "credential_chain" }

[stores.prod.attach_options]
meta_password = "${PGPASSWORD}"
meta_note = "swordfish"

[stores.staging]
extends = "prod"
storage_backend = { prefix = "staging" }
"""


@pytest.fixture
def stores(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (project / "lakeconf.toml").write_text(STORES)
    monkeypatch.delenv("PGUSER", raising=False)
    for name, value in {"PGHOST": "db", "STAGE": "one", "PGPASSWORD": "planted-password"}.items():
        monkeypatch.setenv(name, value)
    return project / "lakeconf.toml"


def test_each_value_of_a_store_has_an_origin(stores: Path, shown: Any) -> None:
    every = {
        one["key"]: (one["value"], one["from"]) for one in json.loads(shown("stores", "staging", "--format", "json"))
    }
    unset = {key: value for key, (value, origin) in every.items() if origin == "not set"}
    assert {"metadata_backend.port", "storage_backend.use_ssl", "committer"} <= unset.keys()
    found = {key: one for key, one in every.items() if key not in unset}
    assert not any(known.startswith(f"{key}.") for key in unset for known in found)
    inherited = ", inherited from stores.prod"
    assert found == {
        "alias": ("lake", f"lakeconf.toml:2{inherited}"),
        "metadata_backend.type": ("postgres", f"lakeconf.toml:5{inherited}"),
        "metadata_backend.host": ("db", f"the variable PGHOST, named in lakeconf.toml:6{inherited}"),
        "metadata_backend.database": ("lake_one", f"lakeconf.toml:7, with the variable STAGE{inherited}"),
        "metadata_backend.user": (
            "lake",
            f"the default in lakeconf.toml:8, because the variable PGUSER is not set{inherited}",
        ),
        "metadata_backend.password": ("***", f"the variable PGPASSWORD, named in lakeconf.toml:9{inherited}"),
        "metadata_backend.secret_parameters.sslmode": ("require", f"lakeconf.toml:10{inherited}"),
        "metadata_backend.secret_parameters.sslkey": ("***", f"lakeconf.toml:10{inherited}"),
        "storage_backend.type": ("s3", f"lakeconf.toml:13{inherited}"),
        "storage_backend.bucket": ("acme", f"lakeconf.toml:14{inherited}"),
        "storage_backend.secret_parameters.provider": ("credential_chain", f"lakeconf.toml:15{inherited}"),
        "storage_backend.prefix": ("staging", "lakeconf.toml:23"),
        "attach_options.meta_password": ("***", f"the variable PGPASSWORD, named in lakeconf.toml:18{inherited}"),
        "attach_options.meta_note": ("***", f"lakeconf.toml:19{inherited}"),
        "extends": ("prod", "lakeconf.toml:22"),
    }
    header, *lines = shown("stores", "staging").splitlines()
    assert header.split() == ["key", "value", "from"]
    assert ["storage_backend.prefix", "staging", "lakeconf.toml:23"] in [line.split() for line in lines]


def test_values_of_an_invalid_store_are_not_shown(stores: Path, called: Any) -> None:
    """Nothing tells that the value of a misspelt key is a secret."""
    for text in (STORES.replace("sslkey =", "ssl key ="), STORES.replace("password =", "passwrd =", 1)):
        stores.write_text(text.replace('"${PGPASSWORD}"', '"planted-password"'))
        code, out, err = called("stores", "prod")
        assert (code, out) == (1, "")
        assert "planted" not in err
    stores.write_text(STORES.replace('host = "${PGHOST}"', 'host = "postgres://u:${PGHOST}@h/x"'))
    assert "u:db@" not in "".join(map(str, called("stores", "prod")))


def test_stores_needs_no_variables_and_no_valid_configuration(run_in_stores: Any, project: Path) -> None:
    code, out, err = run_in_stores("stores")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "*  dev      sqlite + local",
        "   prod     postgres + s3",
        "   staging  postgres + s3   extends prod",
    ]
    assert json.loads(run_in_stores("stores", "--format", "json")[1])[2] == {
        "name": "staging",
        "is_default": False,
        "metadata_backend": "postgres",
        "storage_backend": "s3",
        "extends": "prod",
        "alias": "staging",
    }
    (project / "lakeconf.toml").write_text('[stores.a]\nextends = "b"\n\n[stores.c.metadata_backend]\nx = 1\n')
    assert run_in_stores("stores") == (0, "   a  ?\n   c  ?\n", "")


_NAMES = {*sys.stdlib_module_names, "click", "duckdb", "hatchling", "lakeconf", "pip", "pydantic", "setuptools"}
_NAMES |= {"sitecustomize", "usercustomize"}
_CONFIGURATION = "[stores.dev]\nmetadata_backend = { type = 'sqlite', path = 'c' }\nstorage_backend = { type = 1 }\n"
# Stands for lakeconf in the folder of the action: no package is downloaded. It installs the lakeconf of the tests.
_BACKEND = """\
import zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(f"{folder}/lakeconf-0-py3-none-any.whl", "w") as wheel:
        wheel.write("places.pth")
        info = "lakeconf-0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: lakeconf\\nVersion: 0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return "lakeconf-0-py3-none-any.whl"
"""
_PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "lakeconf"
version = "0"
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A checkout with an invalid configuration, where each module leaves a mark if it runs, and with odd settings."""
    checkout, marks = tmp_path / "checkout", tmp_path / "marks"
    checkout.mkdir()
    marks.mkdir()
    for name in (*_NAMES, "planted"):
        # `posix` is there before the first file of Python is imported.
        mark = f"import posix; posix.close(posix.open({str(marks / name)!r}, {os.O_CREAT | os.O_WRONLY}))\n"
        (checkout / (f"{name}.pth" if name == "planted" else f"{name}.py")).write_text(mark)
    (checkout / "setup.cfg").write_text("[global]\ncommand_packages = pip\n[install]\nprefix = planted\n")
    (checkout / "pyproject.toml").write_text("[build-system]\nrequires = []\nbuild-backend = 'pip'\n")
    (checkout / "pip.conf").write_text("[global]\nindex-url = http://127.0.0.1:1/\n")
    (checkout / "lib").symlink_to(checkout)
    with (checkout / "pyvenv.cfg").open("wb") as huge:
        huge.truncate(1 << 36)
    (checkout / "lakeconf.toml").write_text(_CONFIGURATION)
    return checkout


def started(step: dict[str, str], checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Starts a step as GitHub does: in the checkout, unless the step names another folder."""
    place = step.get("working-directory", str(checkout))
    place = place.replace("${{ github.action_path }}", environment.get("GITHUB_ACTION_PATH", ""))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # A workflow may set PYTHONPATH for its own steps.
    given = os.environ | {"PATH": path, "PYTHONPATH": str(checkout)} | environment
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, cwd=place, env=given, capture_output=True, text=True, check=False, timeout=120)
    assert os.listdir(checkout.parent / "marks") == []
    return done


@pytest.mark.slow
def test_github_action_runs_no_planted_code(planted: Path, tmp_path: Path) -> None:
    action = tmp_path / "action"
    action.mkdir()
    (action / "backend.py").write_text(_BACKEND)
    (action / "pyproject.toml").write_text(_PROJECT)
    (action / "places.pth").write_text(f"{REPOSITORY}\n{sysconfig.get_path('purelib')}\n")
    (action / "action-requirements.txt").write_text("# none\n")
    install, check = yaml.safe_load((REPOSITORY / "action.yml").read_text())["runs"]["steps"]
    places = {"GITHUB_ACTION_PATH": str(action), "RUNNER_TEMP": str(tmp_path / "runner")}
    installed = started(install, planted, PIP_DISABLE_PIP_VERSION_CHECK="1", **places)
    assert installed.returncode == 0, installed.stderr
    for untrusted in ("true", "false"):
        checked = started(check, planted, CONFIG_PATH="lakeconf.toml", STRICT="false", UNTRUSTED=untrusted, **places)
        assert (checked.returncode, checked.stderr) == (1, "")
        assert checked.stdout.startswith("::error file=lakeconf.toml,line=2")


def test_pre_commit_hook_runs_no_planted_code(planted: Path) -> None:
    (hook,) = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())
    checked = started({"run": hook["entry"] + " --untrusted"}, planted)
    assert (checked.returncode, checked.stderr) == (1, "")
