"""Names say what they hold, each class has a name of its own, and constants come first in each module."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping

from source_tree import REPOSITORY, module_name, sources

# Names that fit every value, and their limit: so many among 1,000 lines of the package.
EMPTY_NAMES = frozenset({"found", "given", "one"})
MOST_EMPTY_NAMES = 4


def texts() -> Mapping[str, str]:
    """The source of each module of the package and of Spark's data source."""
    spark = {module_name(path): path for path in (REPOSITORY / "pyspark_lakeconf").rglob("*.py")}
    return {name: path.read_text() for name, path in {**sources(), **spark}.items()}


def identifiers(source: str) -> Iterator[str]:
    """The names of variables, parameters, attributes, functions and classes, each time that they occur."""
    for node in ast.walk(ast.parse(source)):
        for field in ("id", "arg", "attr", "name", "asname"):
            if isinstance(name := getattr(node, field, None), str):
                yield name


def test_names_say_what_they_hold() -> None:
    assert Counter(identifiers("def one(given=1):\n    return f'{found.one}'")) == {"one": 2, "given": 1, "found": 1}
    names = Counter(name for text in texts().values() for name in identifiers(text))
    lines = sum(len(text.splitlines()) for text in texts().values())
    empty = sum(names[name] for name in EMPTY_NAMES)
    assert empty * 1000 <= MOST_EMPTY_NAMES * lines, f"{empty} in {lines} lines"


def test_each_class_has_a_name_of_its_own() -> None:
    names = Counter(
        node.name for text in texts().values() for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)
    )
    assert {name: classes for name, classes in names.items() if classes > 1} == {}


def late_statements(source: str) -> list[int]:
    """The lines of imports and constants after a function or class of which they use none."""
    late: list[int] = []
    own: set[str] = set()  # the functions and classes so far, and the constants that use them
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif own and isinstance(node, ast.Import | ast.ImportFrom):
            late.append(node.lineno)
        elif own and isinstance(node, ast.Assign | ast.AnnAssign):
            names = {inner.id for inner in ast.walk(node.value) if isinstance(inner, ast.Name)} if node.value else set()
            if names & own:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                own |= {inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)}
            else:
                late.append(node.lineno)
    return late


def test_imports_and_constants_come_before_functions_and_classes() -> None:
    assert late_statements("A = 1\ndef f(): ...\nB = f()\nC: int = B\nD = 2\nE = C, D\nimport os") == [5, 7]
    assert {name: lines for name, text in texts().items() if (lines := late_statements(text))} == {}
