"""The files of the repository do not depend on one machine."""

from __future__ import annotations

import re
import subprocess

import pytest
from source_tree import REPOSITORY

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
    found = [
        f"{name}:{number}: {match.group()}"
        for name in files()
        for number, line in enumerate((REPOSITORY / name).read_text(errors="replace").splitlines(), start=1)
        for match in FORBIDDEN.finditer(line)
    ]
    assert found == []


@pytest.mark.parametrize("line", ["--index-url https://pypi_org/simple", "path = '_root/.cache'", "see _work/main/x"])
def test_forbidden_pattern_matches(line: str) -> None:
    assert FORBIDDEN.search(line.replace("pypi_", "pypi.").replace("_", "/"))


def test_requirements_lock_pins_versions_and_hashes_without_urls() -> None:
    lines = (REPOSITORY / "requirements.lock").read_text().replace(" \\\n", "").splitlines()
    pinned = [re.split(r" {4}--hash=sha256:(?=[0-9a-f]{64}(?: |$))", line) for line in lines]
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.-]*==[^\s@/]+( ; .+)?", name) and hashes for name, *hashes in pinned)
    assert "duckdb==1.5.5" in [name for name, *_ in pinned]
