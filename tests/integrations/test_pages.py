"""The pages of docs/integrations/: each has a test file and installs an extra that exists."""

from __future__ import annotations

import re
from importlib.metadata import metadata
from pathlib import Path

import pytest
from source_tree import REPOSITORY

PAGES = sorted((REPOSITORY / "docs" / "integrations").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_has_a_test_file_and_installs_an_extra(page: Path) -> None:
    assert (Path(__file__).parent / f"test_{page.stem}.py").exists()
    (installed,) = re.findall(r"^pip install (.*)$", page.read_text(), re.MULTILINE)
    extras = re.findall(r"lakeconf\[(\w+)\]", installed)
    assert set(extras) <= set(metadata("lakeconf").get_all("Provides-Extra") or [])
    assert extras or installed.startswith("lakeconf ")
