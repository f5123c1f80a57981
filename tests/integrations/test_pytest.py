"""The pages of docs/integrations, and the fixture `lake` in a separate project."""

from __future__ import annotations

import re
from importlib.metadata import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from doc_pages import block, named
from shell import run_shell
from source_tree import REPOSITORY

import lakeconf
from lakeconf.integrations import pytest as plugin

if TYPE_CHECKING:
    from lakeconf.integrations.pytest import LocalLakes


lake = plugin.lake  # The fixtures of these tests have another one of this name.
PAGE = "integrations/pytest.md"
# None of these servers exists, and no variable is set.
STORES = """
default_store = "prod"

[stores.prod]
alias = "shop_lake"
metadata_backend = { type = "postgres", host = "db.example.org", database = "x", user = "x", password = "${UNSET}" }
storage_backend = { type = "s3", bucket = "acme", key_id = "${UNSET_ID}", secret = "${UNSET}" }
attach_options = { encrypted = true, read_only = true }

[stores.md]
metadata_backend = { type = "motherduck", database = "shop" }
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lakeconf.toml").write_text(STORES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_tests_of_the_page_pass(project: Path) -> None:
    for name, text in named(PAGE, "python").items():
        (project / name).write_text(text)
    assert "2 passed" in run_shell(block(PAGE, "sh", "-m pytest"))
    assert {path.name for path in project.iterdir()} >= {"lakeconf.toml", "shop.py", "test_shop.py"}
    assert list(project.glob("*.sqlite")) == []


def test_lake_has_the_names_and_aliases_of_its_store(project: Path, lake: LocalLakes) -> None:
    assert lake.config.names == ("prod", "md")
    found = lakeconf.init().get_store()
    assert (found.name, found.alias, found.attach_options) == ("prod", "shop_lake", {})
    assert (found.metadata_backend.type, found.read_only) == ("sqlite", False)
    assert lakeconf.init().get_store("md").alias == "shop"
    assert lake("md").tables() == lake().tables() == []


PAGES = sorted((REPOSITORY / "docs" / "integrations").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_has_a_test_file_and_installs_an_extra(page: Path) -> None:
    assert (Path(__file__).parent / f"test_{page.stem}.py").exists()
    (installed,) = re.findall(r"^pip install (.*)$", page.read_text(), re.MULTILINE)
    extras = re.findall(r"lakeconf\[(\w+)\]", installed)
    assert set(extras) <= set(metadata("lakeconf").get_all("Provides-Extra") or [])
    assert extras or installed.startswith("lakeconf ")
