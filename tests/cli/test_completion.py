"""Completion in a shell knows stores and tables, and never shows an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeconf.config.config import init


def completed(*words: str) -> list[str]:
    """What bash offers for the last word of a command line."""
    line = " ".join(words)
    variables = {"_LAKECONF_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    program = Path(sys.executable).with_name("lakeconf")
    done = subprocess.run([program], env=os.environ | variables, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [found.partition(",")[2] for found in done.stdout.split()]


@pytest.fixture
def two_stores(events_folder: Path) -> Path:
    """The project with tables, and a store without a lake."""
    with (events_folder / "lakeconf.toml").open("a") as file:
        file.write('\n[stores.other.metadata_backend]\ntype = "sqlite"\nuri = "o.sqlite"\n')
        file.write('[stores.other.storage_backend]\ntype = "local"\npath = "other"\n')
    with init().get_store("dev").open() as lake:
        for name in ('raw."two words"', 'raw."a\nb"', "marts.daily"):
            lake.create_table(name, {"id": "BIGINT"})
    return events_folder


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["stores", ""], ["dev", "other"]),
        (["doctor", "--store", "o"], ["other"]),
        (["snapshots", "--store", "d"], ["dev"]),
        (["validate", "--store", "dev", "--store", "o"], ["other"]),
        (["copy", "dev", "o"], ["other"]),
        (["tables", ""], ["marts.daily", "raw.events"]),
        (["restore", "--store", "dev", "r"], ["raw.events"]),
        (["diff", "dev", "other", "m"], ["marts.daily"]),
        (["--config", "lakeconf.toml", "verify", "m"], ["marts.daily"]),
        (["tables", "--store", "other", ""], []),
        (["tables", "--store", "none", ""], []),
        (["--config", "missing.toml", "tables", ""], []),
        (["pre"], ["preview-sql"]),
    ],
)
def test_names_that_begin_with_the_word(words: list[str], found: list[str], two_stores: Path) -> None:
    assert completed("lakeconf", *words) == found
    assert not (two_stores / "o.sqlite").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(shell: str, project: Path) -> None:
    program = Path(sys.executable).with_name("lakeconf")
    variables = {"_LAKECONF_COMPLETE": f"{shell}_source"}
    done = subprocess.run([program], env=os.environ | variables, capture_output=True, text=True, check=False)
    assert "_LAKECONF_COMPLETE" in done.stdout
