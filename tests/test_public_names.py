"""The public names are sorted and fast to import, and no file depends on one machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import REPOSITORY

import lakeconf


def test_public_names_are_sorted_and_importable_and_type_checkers_see_the_same() -> None:
    names = list(lakeconf.__all__)
    assert names == sorted(names)
    assert all(getattr(lakeconf, name) is not None for name in names)
    assert set(names) <= set(dir(lakeconf))
    tree = ast.parse(Path(lakeconf.__file__).read_text())
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    own = [node for node in froms if (node.module or "").startswith("lakeconf.")]
    assert {alias.asname or alias.name for node in own for alias in node.names} == set(names) - {"__version__"}
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
        "scan_polars needs the module 'polars', which is not installed\n  hint: run: pip install 'lakeconf[polars]'\n"
    )


# Written so that this file does not match the pattern.
FORBIDDEN = re.compile(
    r"""
      pypi[.]org | pythonhosted[.]org | npmjs[.]com | npmjs[.]org          # hosts of package registries
    | maven[.]org | maven[.]apache[.]org | crates[.]io | debian[.]org
    | (?<![a-zA-Z]) / (?:work|root|farm|home/\w+|Users/\w+) /             # a folder of one machine
    """,
    re.VERBOSE,
)


def files() -> list[str]:
    """Tracked files, and untracked files that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [name for name in result.stdout.split("\0") if name and (REPOSITORY / name).is_file()]


def test_files_name_no_registry_host_and_no_local_folder() -> None:
    for line in ("--index-url https://pypi_org/simple", "path = '_root/.cache'", "see _work/main/x"):
        assert FORBIDDEN.search(line.replace("pypi_", "pypi.").replace("_", "/"))
    found = [
        f"{name}:{number}: {match.group()}"
        for name in files()
        for number, line in enumerate((REPOSITORY / name).read_text(errors="replace").splitlines(), start=1)
        for match in FORBIDDEN.finditer(line)
    ]
    assert found == []


def test_requirements_lock_pins_versions_and_hashes_without_urls() -> None:
    lines = (REPOSITORY / "requirements.lock").read_text().replace(" \\\n", "").splitlines()
    pinned = [re.split(r" {4}--hash=sha256:(?=[0-9a-f]{64}(?: |$))", line) for line in lines]
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.-]*==[^\s@/]+( ; .+)?", name) and hashes for name, *hashes in pinned)
    assert "duckdb==1.5.5" in [name for name, *_ in pinned]


HEAVY = {"duckdb", "narwhals", "pandas", "polars", "pyarrow", "pydantic", "pyspark", "rich", "sqlglot"}
HEAVY |= {"dagster", "dbt", "dlt", "sqlmesh"}


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a new interpreter has loaded after this statement."""
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_import_lakeconf_loads_no_heavy_dependency() -> None:
    assert loaded_by("import lakeconf") & HEAVY == set()
    assert loaded_by("import lakeconf, narwhals") & HEAVY == {"narwhals"}


def test_the_data_source_loads_the_rest_only_when_it_is_used() -> None:
    """Spark imports it at the first use of any data source that it does not know."""
    loaded = loaded_by("import pyspark_lakeconf")
    assert "pyspark" in loaded
    assert loaded & {"duckdb", "lakeconf", "narwhals", "pydantic", "sqlglot"} == set()
