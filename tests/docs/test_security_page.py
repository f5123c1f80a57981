"""docs/security.md: each claim names a test that exists."""

from __future__ import annotations

import ast
import re

from source_tree import REPOSITORY

PAGE = (REPOSITORY / "docs" / "security.md").read_text()
CLAIM = re.compile(r"<!-- (\S+)::(\S+) -->$")


def test_each_claim_names_its_test() -> None:
    promises = PAGE.partition("## Advice")[0]
    claims = [line for line in promises.splitlines() if line.startswith("- ")]
    assert len(claims) >= 30
    for claim in claims:
        found = CLAIM.search(claim)
        assert found is not None, claim
        tree = ast.parse((REPOSITORY / "tests" / found[1]).read_text())
        assert found[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, claim


def test_both_security_pages_list_every_attacker() -> None:
    short = (REPOSITORY / "SECURITY.md").read_text()
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == [
        "Who can write to the lake or its catalog",
        "Who wrote the TOML",
        "Who reads logs, tickets, traces and generated files",
        "Who shares the machine",
        "Advice",
    ]
    assert len(re.findall(r"^\d\. who ", short, re.MULTILINE)) == 4
    assert "docs/security.md" in short
