"""Limits for the length of files and functions, and the shape of the package."""

from __future__ import annotations

import ast
from collections import Counter

from source_tree import PACKAGE, sources

# The limit catches what has grown without a plan: never split a concept, or merge two, to meet it.
MAX_FILE_LINES = 600
# A facade collects the methods that users call; such a class is not split only to meet a limit.
FACADES = {"lakeconf.lake.lake", "lakeconf.store", "lakeconf.lake.table"}
MAX_FACADE_LINES = 700
MAX_FUNCTION_LINES = 40
MAX_DEPTH = 4  # lakeconf/engines/spark/read
MAX_FILES = 15  # in a folder, besides its __init__.py
NAMES_THAT_EXPLAIN_NOTHING = {"common", "core", "helpers", "manager", "misc", "utils"}


def function_length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The number of lines from `def` to the end, without the docstring."""
    first = node.body[0]
    docstring = 0
    if ast.get_docstring(node) is not None:
        docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def test_files_are_short() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in sources().items()}
    limits = {name: MAX_FACADE_LINES if name in FACADES else MAX_FILE_LINES for name in lengths}
    assert {name: lines for name, lines in lengths.items() if lines > limits[name]} == {}


def test_functions_are_short_without_their_docstrings() -> None:
    lengths = {
        f"{name}:{node.lineno} {node.name}": function_length(node)
        for name, path in sources().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES} == {}
    (node,) = ast.parse('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n').body
    assert isinstance(node, ast.FunctionDef)
    assert function_length(node) == 2


def test_tree_is_shallow_its_folders_are_small_and_its_names_unique_and_descriptive() -> None:
    paths = [path.relative_to(PACKAGE.parent) for path in sources().values()]
    assert [str(path) for path in paths if len(path.parent.parts) > MAX_DEPTH] == []
    assert [str(path) for path in paths if NAMES_THAT_EXPLAIN_NOTHING & {*path.parent.parts, path.stem}] == []
    folders = Counter(path.parent for path in paths if path.stem != "__init__")
    assert {str(folder): files for folder, files in folders.items() if files > MAX_FILES} == {}
    names = Counter(path.stem for path in paths if not path.stem.startswith("__"))
    assert {name: modules for name, modules in names.items() if modules > 1} == {}
