"""The README is short, and the commands that it and `init --help` name exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
from source_tree import REPOSITORY

from lakeconf.cli.app import commands, run
from lakeconf.config.config import read

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

README = (REPOSITORY / "README.md").read_text()


def test_readme_is_short() -> None:
    assert len(README.partition("## Documentation")[0].split()) <= 500


def test_make_commands_exist_in_the_makefile() -> None:
    targets = re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:`|^)make ([a-z]+)", README, re.MULTILINE)) <= set(targets)


def test_commands_that_write_a_configuration_run_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = commands.get_command(click.Context(commands), "init")
    assert command is not None
    (text,) = re.findall(r"lakeconf (init --store [^`\n]*)", str(command.help))
    assert run(["init"]) == 0
    assert run(text.split()) == 0
    assert [*read(None).names] == ["dev", "prod"]
