"""Configuration, validation and reads work on systems without the modules and functions of POSIX, such as Windows."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from source_tree import REPOSITORY, sources

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

TOML = """
default_store = "dev"
[stores.dev]
metadata_backend = { type = "sqlite", uri = "catalog.sqlite" }
storage_backend = { type = "local", path = "data" }
"""

WITHOUT_POSIX = """
import os, shutil, sys
shutil._rmtree_impl = shutil._rmtree_unsafe
for name in ("fcntl", "grp", "pwd", "resource", "syslog", "termios"):
    sys.modules[name] = None
for name in ("fchmod", "fork", "geteuid", "getuid", "register_at_fork"):
    delattr(os, name)
for name in [name for name in dir(os) if name.startswith("O_") and name not in ("O_RDONLY", "O_WRONLY", "O_CREAT")]:
    if name not in ("O_RDWR", "O_EXCL", "O_TRUNC", "O_APPEND"):
        delattr(os, name)
"""


def run(program: str, folder: Path) -> list[str]:
    """The lines that a program prints in a process without POSIX."""
    command = [sys.executable, "-c", WITHOUT_POSIX + program]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.splitlines()


def test_every_module_is_imported(tmp_path: Path) -> None:
    modules = [name for name in sources() if not name.endswith("__main__") and ".integrations." not in name]
    assert run(f"import importlib\nfor name in {modules}: importlib.import_module(name)\nprint(1)", tmp_path) == ["1"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "lakeconf.toml"
    path.write_text(TOML)
    with lakeconf.init(path).get_store("dev").open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
        lake.table("t").append([{"id": 7}])
    return path


def test_output_that_lacks_a_character_shows_its_escape(config: Path) -> None:
    """A pipe of Windows has the encoding of the system."""
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "LAKECONF_CONFIG": str(config)}
    for arguments, expected in ((["sql", "SELECT 'Łódź' AS city"], rb"\u0141\xf3d\u017a"), (["doctor"], rb"\u2713")):
        command = [sys.executable, "-m", "lakeconf", *arguments]
        result = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert result.returncode == 0, result.stderr
        assert expected in result.stdout.replace("ó".encode("cp1252"), rb"\xf3")
    unknown = [sys.executable, "-m", "lakeconf", "sql", "FROM Łódź"]
    failed = subprocess.run(unknown, env=environment, capture_output=True, check=False)
    assert (failed.returncode, b"Traceback" in failed.stderr) == (1, False)


def test_a_lake_is_validated_shown_and_read(tmp_path: Path) -> None:
    job = str(REPOSITORY / "tests" / "support" / "reading_job.py")
    assert run(f"import runpy; runpy.run_path({job!r})", tmp_path)[-1] == "done"


def test_a_write_beside_a_catalog_in_a_file_says_what_it_needs_and_creates_no_lake(config: Path) -> None:
    program = """
import lakeconf, pathlib, shutil
def refused(call):
    try:
        call()
    except lakeconf.errors.UnsupportedError as error:
        print(error.message)
store = lakeconf.init().get_store("dev")
with store.open() as lake:
    refused(lambda: lake.table("t").append([{"id": 8}]))
    print(lake.table("t").count())
pathlib.Path("catalog.sqlite").rename("away")
shutil.rmtree("data")
refused(store.open)
"""
    message, count, again = run(program, config.parent)
    assert message.startswith("this system has no locks of files")
    assert again.startswith("this system has no locks of files")
    assert count == "1"
    assert not (config.parent / "catalog.sqlite").exists()
