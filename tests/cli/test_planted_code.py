"""Checks of files of others run no code that lies next to them: the GitHub action and the pre-commit hook."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml
from source_tree import REPOSITORY

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
