"""CHANGELOG.md: versions in the form of Keep a Changelog, the newest of which is the package's."""

from __future__ import annotations

import re
import tomllib
from datetime import date

from packaging.version import Version
from source_tree import REPOSITORY

import lakeconf

HEADING = re.compile(r"^## \[(.+?)\](?: - (\d{4}-\d{2}-\d{2}))?$")
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
LINES = (REPOSITORY / "CHANGELOG.md").read_text().splitlines()


def released() -> list[tuple[Version, date]]:
    """The versions and their dates, in the order of the page."""
    found = [HEADING.match(line) for line in LINES if line.startswith("## ")]
    assert None not in found
    assert found[0] is not None
    assert found[0].groups() == ("Unreleased", None)
    return [(Version(one[1]), date.fromisoformat(one[2])) for one in found[1:] if one is not None]


def test_newest_version_is_that_of_the_package() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert str(released()[0][0]) == project["version"] == lakeconf.__version__


def test_versions_and_dates_are_in_descending_order() -> None:
    found = released()
    assert found == sorted(found, reverse=True)
    assert len({version for version, _ in found}) == len(found)


def test_each_version_has_each_section_once() -> None:
    sections: list[str] = []
    for line in LINES:
        if line.startswith("## "):
            sections = []
        elif line.startswith("### "):
            sections.append(line.removeprefix("### "))
            assert sections[-1] in SECTIONS
            assert len(sections) == len(set(sections))
