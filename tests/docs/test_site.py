"""The documentation site contains every page, has no broken links, and loads nothing from other servers."""

from __future__ import annotations

import html.parser
import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser import opened
from source_tree import REPOSITORY, project_file

import lakeconf
from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS
from lakeconf.config.codes import Code


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Warnings of MkDocs are errors."""
    folder = tmp_path_factory.mktemp("site")
    mkdocs = str(Path(sys.executable).with_name("mkdocs"))
    command = [mkdocs, "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class Loaded(html.parser.HTMLParser):
    """Collects the addresses that a page loads automatically."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        is_loaded = tag in ("script", "img", "iframe") or (tag == "link" and given.get("rel") in ("stylesheet", "icon"))
        self.found += [value for name in ("src", "href") if is_loaded and (value := given.get(name))]


def test_site_contains_every_page(site: Path) -> None:
    docs = REPOSITORY / "docs"
    pages = {path.relative_to(docs).with_suffix(".html") for path in docs.rglob("*.md")}
    pages |= {Path("backends", f"{kind}.html") for kind in (*METADATA_BACKENDS, *STORAGE_BACKENDS)}
    pages |= {Path("codes", f"{code.code}.html") for code in Code} | {Path("index.html"), Path("changelog.html")}
    assert {page for page in pages if not (site / page).is_file()} == set()


@pytest.mark.slow
def test_api_page_documents_every_export(site: Path) -> None:
    text = (site / "api.html").read_text()
    documented = [name for name in lakeconf.__all__ if not name.endswith("Error")]  # errors have a page
    assert [name for name in documented if f'id="lakeconf.{name}"' not in text] == []
    # Methods are documented too, including those of objects that a lake returns.
    members = (
        "Lake.table",
        "Lake.transaction",
        "lake.maintenance.Maintenance.compact",
        "lake.run_journal.RunJournal.committed",
    )
    assert [name for name in members if f'id="lakeconf.{name}"' not in text] == []


def test_pages_load_nothing_from_other_servers(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    for page in pages:
        parser = Loaded()
        parser.feed(page.read_text())
        assert [address for address in parser.found if "//" in address] == [], page
    assert len(pages) > 40


def test_pages_ask_no_other_server(site: Path) -> None:
    """The scripts of the theme ask GitHub's API where a page has the component `source` with a repository."""
    pages = {page: page.read_text() for page in site.rglob("*.html")}
    assert [page for page, text in pages.items() if 'data-md-component="source"' in text] == []
    links = set(
        re.findall(r'href="(https://[^"]*)" target="_blank"[^>]*class="md-social__link"', pages[site / "index.html"])
    )
    assert links == {project_file()["urls"]["Source"]}


def test_the_site_map_lists_every_page_and_a_missing_page_has_its_style(site: Path) -> None:
    address = "https://lakeconf.github.io/lakeconf/"
    listed = re.findall(r"<loc>(.*?)</loc>", (site / "sitemap.xml").read_text())
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")} - {"404.html"}
    assert {url.removeprefix(address) or "index.html" for url in listed} == pages
    styles = re.findall(r'<link rel="stylesheet" href="([^"]*)"', (site / "404.html").read_text())
    assert len(styles) > 1
    assert [style for style in styles if not (site / style.removeprefix("/lakeconf/")).is_file()] == []


@pytest.mark.slow
@pytest.mark.parametrize(("theme", "scheme", "option"), [("light", "default", 1), ("dark", "slate", 0)])
def test_pages_follow_the_theme_of_the_browser(
    theme: str, scheme: str, option: int, site: Path, tmp_path: Path
) -> None:
    """The screenshots, of a wide and a narrow window, are for people: build/screenshots."""
    shots = REPOSITORY / "build" / "screenshots"
    shots.mkdir(parents=True, exist_ok=True)
    for width in (1400, 390):
        options = [f"--blink-settings=preferredColorScheme={option}", f"--window-size={width},1100"]
        options.append(f"--screenshot={shots / f'{theme}-{width}.png'}")
        page = opened((site / "index.html").as_uri(), tmp_path / "profile", *options)
        assert f'data-md-color-scheme="{scheme}"' in page
        assert (shots / f"{theme}-{width}.png").stat().st_size > 20_000


@pytest.mark.slow
def test_search_works_without_a_server(site: Path, tmp_path: Path) -> None:
    page = opened(f"{(site / 'backends' / 's3.html').as_uri()}?q=lookback", tmp_path / "profile")
    found = re.findall(r'href="([^"]*)" class="md-search-result__link"', page)
    assert (site / "pipelines.html").as_uri() in found
