"""The site of the documentation: every page is in it, no link leads nowhere, nothing is loaded from elsewhere."""

from __future__ import annotations

import html.parser
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import REPOSITORY

import lakeconf
from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS
from lakeconf.config.codes import Code


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; what MkDocs warns of is an error."""
    folder = tmp_path_factory.mktemp("site")
    mkdocs = str(Path(sys.executable).with_name("mkdocs"))
    command = [mkdocs, "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class Loaded(html.parser.HTMLParser):
    """Collects what a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        is_loaded = tag in ("script", "img", "iframe") or (tag == "link" and given.get("rel") in ("stylesheet", "icon"))
        self.found += [value for name in ("src", "href") if is_loaded and (value := given.get(name))]


def test_every_page_is_there(site: Path) -> None:
    docs = REPOSITORY / "docs"
    pages = {path.relative_to(docs).with_suffix(".html") for path in docs.rglob("*.md")}
    pages |= {Path("backends", f"{kind}.html") for kind in (*METADATA_BACKENDS, *STORAGE_BACKENDS)}
    pages |= {Path("codes", f"{code.code}.html") for code in Code} | {Path("index.html"), Path("changelog.html")}
    assert {page for page in pages if not (site / page).is_file()} == set()


def test_the_api_is_what_the_package_exports(site: Path) -> None:
    text = (site / "api.html").read_text()
    assert [name for name in lakeconf.__all__ if name != "LakeconfError" and f'id="lakeconf.{name}"' not in text] == []
    # Methods of classes are documented as well, also those of the objects that a lake gives.
    members = (
        "Lake.table",
        "Lake.transaction",
        "lake.maintenance.Maintenance.compact",
        "lake.run_journal.RunJournal.committed",
    )
    assert [name for name in members if f'id="lakeconf.{name}"' not in text] == []


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    for page in pages:
        parser = Loaded()
        parser.feed(page.read_text())
        assert [address for address in parser.found if "//" in address] == [], page
    assert len(pages) > 40
