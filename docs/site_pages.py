"""Pages of the site that have their source elsewhere: the README, the changelog, and the codes of problems.

A hook of MkDocs: https://www.mkdocs.org/user-guide/configuration/#hooks
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from lakeconf.config.codes import Code
from lakeconf.config.explain import explanation

_ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    readme = (_ROOT / "README.md").read_text().replace("](docs/", "](").replace("](CHANGELOG.md", "](changelog.md")
    listed = "\n".join(f"- [{code.code}]({code.code}.md): {code.title}" for code in Code)
    pages = {
        "index.md": readme,
        "changelog.md": (_ROOT / "CHANGELOG.md").read_text(),
        "codes/index.md": f"# Codes of problems\n\n`lakeconf explain LC010` prints one of these pages.\n\n{listed}\n",
        **{f"codes/{code.code}.md": explanation(code.code) for code in Code},
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, config: MkDocsConfig, **_: Any) -> str:
    """Lets links to other parts of the repository lead there."""
    parts = "examples|lakeconf|tests|benchmarks|CONTRIBUTING.md|LICENSE"
    return re.sub(rf"\]\((?:\.\./)*(?=(?:{parts})[/)])", f"]({config.repo_url}/blob/main/", markdown)
