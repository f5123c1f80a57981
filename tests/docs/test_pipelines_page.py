"""docs/pipelines.md lists every kind; docs/pipeline-tests.md: its test passes and fails as the page shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from doc_pages import blocks, named
from source_tree import REPOSITORY

from lakeconf.cli.app import run
from lakeconf.pipelines.models.kinds import KINDS

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "pipelines.md"
TESTS = "pipeline-tests.md"


def write_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes the files of the page to a folder, which becomes the working folder."""
    monkeypatch.chdir(folder)
    for language in ("toml", "sql", "python"):
        for name, text in named(PAGE, language).items():
            (folder / name).write_text(text)


def test_unit_test_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path, monkeypatch)
    (tested,) = (text for text in blocks(TESTS, "toml") if text.startswith("[pipeline.tests."))
    with (tmp_path / "lakeconf.toml").open("a") as file:
        file.write(f"\n{tested}")
    passed, failed = (text for text in blocks(TESTS, "text") if text.startswith("$ lakeconf test"))
    assert run(["test"]) == 0
    assert capsys.readouterr().out == passed.partition("\n")[2]
    query = tmp_path / "large.sql"
    query.write_text(query.read_text().replace(">", ">="))
    assert run(["test"]) == 1
    assert capsys.readouterr().out == failed.partition("\n")[2]


def test_page_lists_every_kind() -> None:
    page = (REPOSITORY / "docs" / PAGE).read_text()
    assert all(f"| `{name}` |" in page for name in KINDS)
