"""Pages of the site that have their source elsewhere: the README, the changelog, a page per backend and per code.

A hook of MkDocs: https://www.mkdocs.org/user-guide/configuration/#hooks
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from lakeconf.config.codes import Code, explanation

_ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    readme, changelog = (_page_of_the_root(name) for name in ("README.md", "CHANGELOG.md"))
    listed = "\n".join(f"- [{code.code}]({code.code}.md): {code.title}" for code in Code)
    pages = {
        "index.md": readme,
        "changelog.md": changelog,
        "codes/index.md": f"# Error codes\n\n`lakeconf validate --explain LC010` prints such a page.\n\n{listed}\n",
        **_backend_pages(),
        **{f"codes/{code.code}.md": explanation(code.code) for code in Code},
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def _page_of_the_root(name: str) -> str:
    """A page outside `docs/`, with links that lead to the pages of the site."""
    return (_ROOT / name).read_text().replace("](docs/", "](").replace("](CHANGELOG.md", "](changelog.md")


def _backend_pages() -> dict[str, str]:
    """A page for each backend: what docs/backends.md says of it, and its keys."""
    reference = _sections("configuration-keys.md")
    return {
        f"backends/{kind}.md": re.sub(r"\]\((?=\w+\.md)", "](../", f"# {kind}\n{text}\n## Keys\n{keys}")
        for heading, text in _sections("backends.md").items()
        for kind in re.findall(r"`(\w+)`", heading)
        for title, keys in reference.items()
        if title.startswith(f"`{kind}` (")
    }


def _sections(page: str) -> dict[str, str]:
    """The third-level sections of a page, by their headings."""
    text = (_ROOT / "docs" / page).read_text()
    return dict(re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE))


def on_page_markdown(markdown: str, config: MkDocsConfig, **_: Any) -> str:
    """Lets links to other parts of the repository lead there."""
    parts = "examples|lakeconf|tests|benchmarks|CONTRIBUTING.md|CHANGELOG.md|SECURITY.md|LICENSE"
    return re.sub(rf"\]\((?:\.\./)*(?=(?:{parts})[/)])", f"]({config.extra['repository']}/blob/main/", markdown)
