"""Plain DuckDB still gives the wrong rows of each open issue: a failure here is good news."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalog_lake import lake
from source_tree import REPOSITORY
from upstream import ENTRIES, NOT_REACHED, RACES, READ, Entry
from upstream_right import RIGHT

if TYPE_CHECKING:
    from pathlib import Path


def named(entry: Entry) -> str:
    return entry.name


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.made], ids=named)
def test_plain_duckdb_gives_wrong_rows(entry: Entry, tmp_path: Path) -> None:
    with lake(entry.kind, tmp_path, options=entry.options) as plain:
        plain.run(*(statement.format(lake="lake") for statement in entry.made))
        if entry.steps is not None:
            entry.steps(plain)
        rows = plain.rows(entry.asked.format(lake="lake"))
    assert rows != list(entry.right), f"{entry.name} is mended: remove its entry, and what lakeconf does about it"
    assert rows == list(entry.wrong)


@pytest.mark.slow
@pytest.mark.parametrize("number", RIGHT)
def test_plain_duckdb_gives_the_right_rows(number: str, tmp_path: Path) -> None:
    """If this fails, a new version has brought the issue back: it is a new entry."""
    issue = RIGHT[number]
    with lake("duckdb", tmp_path, options=f", DATA_INLINING_ROW_LIMIT {issue.inlined}") as plain:
        plain.run(*(statement.format(lake="lake", folder=tmp_path) for statement in issue.made))
        assert plain.rows(issue.asked.format(lake="lake")) == list(issue.right)


def test_each_entry_is_a_line_of_the_documentation() -> None:
    """The lines are made from the entries: print them with `"\\n".join(entry.line for entry in ENTRIES)`."""
    page = (REPOSITORY / "docs" / "limits.md").read_text()
    section = page.partition("\n## Open issues of DuckLake\n")[2].partition("\n## ")[0]
    assert [line for line in section.splitlines() if line.startswith("- ")] == [entry.line for entry in ENTRIES]


def test_each_issue_is_in_one_place() -> None:
    numbers = [*RIGHT, *READ, *NOT_REACHED, *RACES, *(str(entry.number) for entry in ENTRIES)]
    assert len(numbers) == len(set(numbers))
    missing = [entry.tested_in for entry in ENTRIES if not (REPOSITORY / entry.tested_in).exists()]
    assert missing == []
