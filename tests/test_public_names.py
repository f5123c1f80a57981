"""The public names are sorted, complete and importable."""

from __future__ import annotations

import ast
import subprocess
import sys
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


def test_star_import_works_without_optional_packages() -> None:
    """A function without its package fails when it is called."""
    code = """
import sys
sys.modules.update(dict.fromkeys(("polars", "pyspark", "pandas", "pyarrow")))
from lakeconf import *
try:
    scan_polars("dev", "t")
except LakeconfError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "scan_polars needs the package 'polars', which is not installed\n  hint: run: pip install 'lakeconf[polars]'\n"
    )
