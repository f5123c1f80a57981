"""docs/integrations/pytest.md: the fixture `lake` in a separate project, and the properties it keeps of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from doc_pages import block, named
from shell import run_shell

import lakeconf
from lakeconf.integrations import pytest as plugin

if TYPE_CHECKING:
    from pathlib import Path

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
