"""All objects of a tree, in order."""

from __future__ import annotations

from typing import Any

from lakeconf.catalog.sql_references import nodes


def test_each_object_comes_before_its_parts_and_in_the_order_of_the_text() -> None:
    tree = {"name": 1, "left": [{"name": 2, "in": {"name": 3}}, "text"], "right": {"name": 4}, "last": None}
    assert [node["name"] for node in nodes([tree, {"name": 5}])] == [1, 2, 3, 4, 5]


def test_a_tree_without_objects_has_no_nodes() -> None:
    assert list(nodes([[], "text", None, 3])) == []


def test_a_deep_tree_needs_no_recursion() -> None:
    tree: dict[str, Any] = {}
    for _ in range(100_000):
        tree = {"child": [tree]}
    assert sum(1 for _ in nodes(tree)) == 100_001
    while tree:
        (tree,) = tree.pop("child")  # Python frees a deep tree with recursion
