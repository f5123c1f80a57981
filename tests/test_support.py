"""The code of the tests: few private members of others, an index of the helpers, a name of its own for each class."""

from __future__ import annotations

import ast
import re
from collections import Counter

from source_tree import REPOSITORY

TESTS = REPOSITORY / "tests"
SUPPORT = TESTS / "support"
# Uses of private members, those of Spark and of the standard library included. Prefer public behaviour; where that says
# nothing, use `lake_parts.py` and `jvm_calls.py` of tests/support.
MOST_PRIVATE = 80
LINE = re.compile(r"^- `([^`]+)`: (.+)$", re.MULTILINE)


def private_members(tree: ast.AST) -> Counter[str]:
    """The private attributes of other objects than `self` and `cls`, and how often they are used."""
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return Counter(
        node.attr
        for node in attributes
        if node.attr.startswith("_")
        and not node.attr.endswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
    )


def test_tests_use_few_private_members() -> None:
    found = private_members(ast.parse("self._a + b._c + d.e._c + f.__class__ + cls._g + getattr(h, '_i')"))
    assert found == {"_c": 2}
    used = sum((private_members(ast.parse(path.read_text())) for path in TESTS.rglob("*.py")), Counter[str]())
    assert used.total() <= MOST_PRIVATE, used.most_common()
    assert used["_session"] <= 2
    assert used["_scope"] <= 1


def test_index_has_the_first_sentence_of_each_module() -> None:
    paths = {path.name: path for path in SUPPORT.glob("*.py")}
    paths |= {f"{path.parent.name}/": path for path in SUPPORT.glob("*/__init__.py")}
    sentences = {}
    for name, path in paths.items():
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        assert docstring is not None, name
        sentences[name] = docstring.splitlines()[0].removesuffix(".")
    lines = LINE.findall((SUPPORT / "README.md").read_text())
    assert dict(lines) == sentences
    assert len(lines) == len(sentences), "a module is in the index twice"


def test_each_class_of_the_tests_has_a_name_of_its_own() -> None:
    trees = (ast.parse(path.read_text()) for path in TESTS.rglob("*.py"))
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name: classes for name, classes in names.items() if classes > 1} == {}
