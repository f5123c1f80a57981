"""docs/inspect.md: its commands and its Python produce the output shown."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from doc_pages import blocks

from lakeconf.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> str:
        assert run(arguments) == 0
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("index", range(4))
def test_the_commands_of_the_page(index: int, events_folder: Path, shown: Any) -> None:
    command, _, output = blocks("inspect.md", "console")[index].partition("\n")
    words = command.removeprefix("$ lakeconf ").split('"')
    arguments = words[0].split() if len(words) == 1 else [*words[0].split(), words[1], *words[2].split()]
    assert shown(*arguments) == output


def test_the_python_of_the_page(events_folder: Path) -> None:
    (code,), (output,) = blocks("inspect.md", "python"), blocks("inspect.md", "text")
    done = subprocess.run([sys.executable, "-c", code], cwd=events_folder, capture_output=True, text=True, check=True)
    assert done.stdout == output
