"""All objects of a tree, in order."""

from __future__ import annotations

from typing import Any

from lakeconf.catalog.sql_references import nodes


def test_a_deep_tree_needs_no_recursion() -> None:
    tree: dict[str, Any] = {}
    for _ in range(100_000):
        tree = {"child": [tree]}
    assert sum(1 for _ in nodes(tree)) == 100_001
    while tree:
        (tree,) = tree.pop("child")  # Python frees a deep tree with recursion
