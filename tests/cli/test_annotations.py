"""Problems as annotations of code hosts: workflow commands of GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.cli.output import github_annotations as github
from lakeconf.errors import Problem

if TYPE_CHECKING:
    from pathlib import Path


def problem(file: Path | None = None, **given: Any) -> Problem:
    values = {"message": "unknown key", "hint": None, "key": "stores.dev.x", "line": None, "column": None}
    return Problem("LC010", **{**values, "file": file, **given})


def test_text_and_properties_of_a_command_are_escaped(folder: Path) -> None:
    (line,) = github([problem(folder / "50%,a:b\x1b.toml", message="1%\r\n::error::\x1b[2J", key=None)], "error")
    assert line == ("::error file=50%25%2Ca%3Ab\\x1b.toml,title=LC010::1%25%0D%0A::error::\\x1b[2J")


@pytest.mark.parametrize(("repository", "here", "shown"), [
    (".", "jobs/daily", "jobs/daily/lakeconf.toml"),
    ("jobs", "jobs/daily", "daily/lakeconf.toml"),
    ("jobs/daily", "jobs/daily", "lakeconf.toml"),
    (None, "jobs/daily", "lakeconf.toml"),
    (None, ".", "jobs/daily/lakeconf.toml"),
    (None, "else where", "{whole}/jobs/daily/lakeconf.toml"),
])  # fmt: skip
def test_paths_are_relative_to_the_repository_or_the_working_folder(
    repository: str | None, here: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("jobs/daily", "else where"):
        (tmp_path / name).mkdir(parents=True)
    if repository is not None:
        # A worktree has a file instead of a folder.
        (tmp_path / repository / ".git").write_text("gitdir: elsewhere")
    monkeypatch.chdir(tmp_path / here)
    found = problem(tmp_path / "jobs" / "daily" / "lakeconf.toml")
    assert github([found], "error")[0].startswith(f"::error file={shown.format(whole=tmp_path)},title=")
