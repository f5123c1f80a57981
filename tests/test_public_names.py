"""The public names are sorted, complete and importable."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lakeconf


def test_names_are_sorted() -> None:
    assert list(lakeconf.__all__) == sorted(lakeconf.__all__)


@pytest.mark.parametrize("name", lakeconf.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(lakeconf, name) is not None


def test_dir_contains_every_public_name() -> None:
    assert set(lakeconf.__all__) <= set(dir(lakeconf))


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(lakeconf.__file__).read_text())
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lakeconf.")
        for alias in node.names
    }
    assert imported == set(lakeconf.__all__) - {"__version__"}


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        lakeconf.no_such_name  # noqa: B018 - the access is under test
