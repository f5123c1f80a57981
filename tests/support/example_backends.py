"""Makes the example package of third-party backends available as if it were installed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from source_tree import REPOSITORY

from lakeconf.backends import registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = REPOSITORY / "examples" / "third_party"


def entry_points() -> dict[str, dict[str, str]]:
    """The entry points of the package's pyproject.toml: name and target by group."""
    groups: dict[str, dict[str, str]] = {}
    group = ""
    for line in (FOLDER / "pyproject.toml").read_text().splitlines():
        if line.startswith("["):
            group = line.removeprefix('[project.entry-points."').removesuffix('"]')
        elif group.startswith("lakeconf.") and " = " in line:
            name, target = line.split(" = ")
            groups.setdefault(group, {})[name] = target.strip('"')
    return groups


def write_metadata(folder: Path, package: str) -> None:
    """Writes what an installer writes for a package: its name and its entry points."""
    info = folder / f"{package.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
    lines = []
    for group, points in entry_points().items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))


def forget_packages() -> None:
    """Lets the next use of a type look for the installed packages again."""
    registry._entry_points.cache_clear()


@pytest.fixture
def example_backends(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes the package available to this process and its subprocesses, for one test."""
    site = tmp_path_factory.mktemp("site-packages")
    write_metadata(site, "lakeconf-example-backends")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER), str(site)]))
    forget_packages()
    yield
    forget_packages()
